"""A check for improper posteriors: along an improper direction, the ELBO of a Gaussian grows with its width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from civi.errors import TargetError
from civi.problem.target import Framed

DRAWS = 16
AWAY = 3.0
WIDTHS = (1e1, 1e2, 1e3)
SLOWEST = 0.05
FAR = 1e6


def check_proper(framed: Framed, unravel: Callable[[Array], Any]) -> None:
    """Reject an improper posterior with an error that names the parameter along which it is improper.

    A Gaussian stretched by a factor c along one direction of the frame, around its centre or to one side of it, has the
    ELBO E[log p] + log c + constant. If p falls like |w|^-a, the ELBO changes by (1 - a) log c, and p has finite mass
    only for a > 1.

    Args:
        framed: the target in a frame.
        unravel: maps one unconstrained vector to the user's parameters, for the name.
    """
    with np.errstate(invalid="ignore"):
        gain = np.diff(np.asarray(_stretched(framed)), axis=-1) / np.diff(np.log(WIDTHS))
    improper = (np.isfinite(gain) & (gain > -SLOWEST)).all(-1).any(-1)
    if improper.any():
        name = _name(unravel, _parameter(framed, int(improper.argmax())), framed.dim)
        raise TargetError(
            f"the posterior looks improper along {name} (a wider Gaussian always has a higher ELBO): "
            "give this parameter a proper prior"
        )


def _parameter(framed: Framed, direction: int) -> int:
    """Index of the parameter that moves most along this direction, in units of its scale.

    If the location or scale of a parameter is beyond FAR, the pilot itself diverged along it, and it is the answer.
    """
    location, factor = (np.asarray(part, np.float64) for part in (framed.frame.location, framed.frame.factor))
    scale = np.sqrt((factor**2).mean(1))
    reach = np.nan_to_num(np.abs(location) + scale, nan=np.inf)
    return int(np.argmax(reach if reach.max() > FAR else np.abs(factor[:, direction]) / scale))


@eqx.filter_jit
def _stretched(framed: Framed) -> Float[Array, "D sides widths"]:
    """The ELBO up to a constant, for every direction, side and width, all with the same noise."""
    half = jax.random.normal(jax.random.key(0, impl="rbg"), (DRAWS // 2, framed.dim))
    noise = jnp.concatenate([half, -half])
    sides, widths = jnp.asarray([-AWAY, 0.0, AWAY]), jnp.asarray(WIDTHS)

    def elbo(direction: Array, side: Array, width: Array) -> Array:
        w = noise.at[:, direction].set(width * (side + noise[:, direction]))
        return jax.vmap(framed.log_prob)(w).mean() + jnp.log(width)

    cases = [grid.reshape(-1) for grid in jnp.meshgrid(jnp.arange(framed.dim), sides, widths, indexing="ij")]
    return jax.lax.map(lambda case: elbo(*case), tuple(cases)).reshape(framed.dim, len(sides), len(widths))


def _name(unravel: Callable[[Array], Any], index: int, dim: int) -> str:
    """The user's name of one entry of the unconstrained vector, for example beta[2]."""
    place = np.zeros(dim)
    place[index] = 1
    for path, leaf in jax.tree_util.tree_leaves_with_path(unravel(jnp.asarray(place))):
        if np.any(leaf):
            name = jax.tree_util.keystr(path, simple=True, separator=".") or "z"
            return name + "".join(f"[{i}]" for i in np.argwhere(np.asarray(leaf))[0])
    return f"z[{index}]"
