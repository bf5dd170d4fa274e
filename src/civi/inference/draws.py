"""Draws of a fitted family, their log densities and their values in the user's space, by three compiled programs.

The programs work on CHUNK draws at a time, so that they serve any number of draws; chunks run side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int

from civi.family import SemiImplicit
from civi.inference.programs import call, is_lasting, prepare, side_by_side
from civi.inference.seeds import Words, as_key, derived
from civi.problem.target import Framed, Target
from civi.problem.target.base import each, points_at_a_time, rows_seen

CHUNK, BLOCK = 1000, 1000
AT_A_TIME, ROWS_AT_A_TIME = 100, 4_000_000


class Drawn(NamedTuple):
    """Draws in the coordinates of the family (w) and of the target (z), with the log density of z given its own eps."""

    w: np.ndarray
    own: np.ndarray
    z: np.ndarray


class Weighed(NamedTuple):
    """Log densities at points, as densities of z in double precision.

    log_p is log p(x, z); log_q_plain is the plain mean over all inner samples, a lower bound on log q in expectation;
    log_q_fewer is the same over the first BLOCK inner samples.
    """

    log_p: np.ndarray
    log_q_plain: np.ndarray
    log_q_fewer: np.ndarray


def draw(family: SemiImplicit, target: Target, words: Words, count: int) -> Drawn:
    """`count` draws.

    Args:
        family: the approximation q.
        target: the target, in the coordinates of the family.
        words: the seed.
        count: number of draws.
    """
    frame = target.frame if isinstance(target, Framed) else None
    chunks = range(-(-count // CHUNK))
    parts = side_by_side([partial(call, _draw, family, frame, derived(words, i)) for i in chunks])
    w, own, z, volume = (
        np.concatenate([np.asarray(part) for part in side])[:count] for side in zip(*parts, strict=True)
    )
    return Drawn(w, own.astype(np.float64) - volume, z)


def weigh(family: SemiImplicit, target: Target, words: Words, w: np.ndarray, inner: int) -> Weighed:
    """Log densities at the points w.

    Args:
        family: the approximation q.
        target: the target, in the coordinates of the family.
        words: the seed of the inner samples, which are drawn afresh for every chunk.
        w: points (N, D) in the coordinates of the family.
        inner: number of inner samples, rounded up to a multiple of BLOCK.
    """
    blocks = np.int32(-(-inner // BLOCK))

    def one(i: int) -> tuple[np.ndarray, ...]:
        points = w[i * CHUNK : (i + 1) * CHUNK]
        filled = np.pad(points, [(0, CHUNK - len(points)), (0, 0)], mode="edge")
        found = call(_weigh, family, target, derived(words, i), filled, blocks, lasting=is_lasting(target))
        *logs, volume = (np.asarray(part, np.float64)[: len(points)] for part in found)
        return tuple(part - volume for part in logs)

    parts = side_by_side([partial(one, i) for i in range(-(-len(w) // CHUNK))])
    return Weighed(*(np.concatenate(side) for side in zip(*parts, strict=True)))


def modes_of_draws(family: SemiImplicit, words: Words, count: int) -> np.ndarray:
    """The mode of each of the draws of `draw` with these words, for a family whose mixing is a ModalNetwork."""
    parts = side_by_side([partial(call, _modes, family, derived(words, i)) for i in range(-(-count // CHUNK))])
    return np.concatenate([np.asarray(part) for part in parts])[:count]


def in_space(space: Callable[[Array], Any], z: np.ndarray) -> Any:
    """The points z (N, D) in the user's space: a pytree of NumPy arrays with a leading axis of length N."""
    chunks = [z[i : i + CHUNK] for i in range(0, len(z), CHUNK)]
    filled = [np.pad(part, [(0, CHUNK - len(part)), (0, 0)], mode="edge") for part in chunks]
    parts = side_by_side([partial(call, _in_space, space, part) for part in filled])
    return jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves])[: len(z)], *parts)


def prepare_draws(family: SemiImplicit, target: Target, space: Callable[[Array], Any]) -> None:
    """Compile the three programs; the arrays of the arguments may be given by their shapes."""
    points, words = jax.ShapeDtypeStruct((CHUNK, target.dim), jnp.result_type(float)), np.zeros(4, np.uint32)
    prepare(_draw, family, target.frame if isinstance(target, Framed) else None, words)
    prepare(_weigh, family, target, words, points, np.int32(1), lasting=is_lasting(target))
    prepare(_in_space, space, points)


def _draw(family: SemiImplicit, frame: Any, words: Array) -> tuple[Array, Array, Array, Array]:
    """w, the logarithm of their own terms, z, and the log volume of the frame."""
    w_J, own_J = family.push(family.draw_outer(as_key(words), CHUNK))
    if frame is None:
        return w_J, own_J, w_J, jnp.zeros(CHUNK)
    return w_J, own_J, frame.outward(w_J), frame.log_volume(w_J)


def _modes(family: SemiImplicit, words: Array) -> Array:
    """The mode of each draw of `_draw`."""
    modes: Array = family.mixing.mode(family.draw_outer(as_key(words), CHUNK).eps)
    return modes


def _weigh(
    family: SemiImplicit, target: Any, words: Array, w_J: Float[Array, "J D"], blocks: Int[Array, ""]
) -> tuple[Array, Array, Array, Array]:
    """log p and log q in the coordinates of the family, and the log volume of the frame."""
    key, inner_target, z_J, volume_J = as_key(words), target, w_J, jnp.zeros(CHUNK)
    if isinstance(target, Framed):
        inner_target, z_J, volume_J = target.target, target.frame.outward(w_J), target.frame.log_volume(w_J)
    at_a_time = max(1, min(points_at_a_time(target) or AT_A_TIME, ROWS_AT_A_TIME // rows_seen(target)))
    log_p_J = each(inner_target.log_prob, z_J, at_a_time) + volume_J

    def add_block(i: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        mixed_K = family.mix(family.noise.sample(jax.random.fold_in(key, i), BLOCK))
        grown = jnp.logaddexp(sums[0], logsumexp(family.log_prob_pairs(mixed_K, w_J), axis=1))
        return grown, jnp.where(i == 0, grown, sums[1])

    none = jnp.full(CHUNK, -jnp.inf)
    all_J, first_J = jax.lax.fori_loop(0, blocks, add_block, (none, none))
    return log_p_J, all_J - jnp.log(blocks * BLOCK), first_J - jnp.log(BLOCK), volume_J


def _in_space(space: Callable[[Array], Any], z_J: Float[Array, "J D"]) -> Any:
    return jax.vmap(space)(z_J)
