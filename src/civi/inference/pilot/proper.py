"""Whether a posterior can be normalised at all: along a direction without end, wider is always better."""

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
    """Refuse a posterior whose mass has no end, and name the parameter that it runs along.

    A Gaussian that is stretched c times along one direction of the frame, around its centre or to one side of it, has
    the ELBO E[log p] + log c + constant. Where p falls like |w|^-a it changes by (1 - a) log c, and p has finite mass
    only for a > 1.
    """
    with np.errstate(invalid="ignore"):
        gain = np.diff(np.asarray(_stretched(framed)), axis=-1) / np.diff(np.log(WIDTHS))
    endless = (np.isfinite(gain) & (gain > -SLOWEST)).all(-1).any(-1)
    if endless.any():
        name = _name(unravel, _parameter(framed, int(endless.argmax())), framed.dim)
        raise TargetError(
            f"the posterior looks improper: it has no end along {name} (a Gaussian gets better the wider it is): "
            "give it a proper prior"
        )


def _parameter(framed: Framed, direction: int) -> int:
    """The one that moves most along this direction, in its own units; or one that the pilot itself lost sight of."""
    location, factor = (np.asarray(part, np.float64) for part in (framed.frame.location, framed.frame.factor))
    scale = np.sqrt((factor**2).mean(1))
    reach = np.nan_to_num(np.abs(location) + scale, nan=np.inf)
    return int(np.argmax(reach if reach.max() > FAR else np.abs(factor[:, direction]) / scale))


@eqx.filter_jit
def _stretched(framed: Framed) -> Float[Array, "D sides widths"]:
    """The ELBO but for a constant, for every direction, side and width; the same noise everywhere."""
    half = jax.random.normal(jax.random.key(0, impl="rbg"), (DRAWS // 2, framed.dim))
    noise = jnp.concatenate([half, -half])
    sides, widths = jnp.asarray([-AWAY, 0.0, AWAY]), jnp.asarray(WIDTHS)

    def elbo(direction: Array, side: Array, width: Array) -> Array:
        w = noise.at[:, direction].set(width * (side + noise[:, direction]))
        return jax.vmap(framed.log_prob)(w).mean() + jnp.log(width)

    cases = [grid.reshape(-1) for grid in jnp.meshgrid(jnp.arange(framed.dim), sides, widths, indexing="ij")]
    return jax.lax.map(lambda case: elbo(*case), tuple(cases)).reshape(framed.dim, len(sides), len(widths))


def _name(unravel: Callable[[Array], Any], index: int, dim: int) -> str:
    """The user's name of a number of the vector, for example beta[2]."""
    place = np.zeros(dim)
    place[index] = 1
    for path, leaf in jax.tree_util.tree_leaves_with_path(unravel(jnp.asarray(place))):
        if np.any(leaf):
            name = jax.tree_util.keystr(path, simple=True, separator=".") or "z"
            return name + "".join(f"[{i}]" for i in np.argwhere(np.asarray(leaf))[0])
    return f"z[{index}]"
