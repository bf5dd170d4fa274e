"""A check for improper posteriors: along an improper direction, the ELBO of a Gaussian grows with its width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from civi.errors import TargetError
from civi.inference.pilot.gaussian import Guess
from civi.inference.pilot.slopes import TargetSlopes

DRAWS = 16
SIDES = (-3.0, 0.0, 3.0)
WIDTHS = (1e1, 1e2, 1e3)
SLOWEST = 0.05
FAR = 1e6
ENDLESS = 1e30
MOST = 64


def check_proper(slopes: TargetSlopes, guess: Guess, degrees: np.ndarray, unravel: Callable[[Array], Any]) -> None:
    """Reject an improper posterior with an error that names the parameter along which it is improper.

    A Gaussian stretched by a factor c along one direction, around its centre or to one side of it, has the ELBO
    E[log p] + log c + constant. If p falls like |w|^-a, the ELBO changes by (1 - a) log c, and p has finite mass only
    for a > 1. In more than MOST dimensions, only the MOST widest directions are checked. A pilot that is wider than
    ENDLESS has already climbed to where single precision ends, and cannot be stretched.

    Args:
        slopes: log p and its gradient.
        guess: the Gaussian of the pilot.
        degrees: degrees of centring of the target.
        unravel: maps one unconstrained vector to the user's parameters, for the name.
    """
    width = np.linalg.norm(guess.factor, axis=0) if guess.factor.ndim == 2 else guess.factor
    directions = np.sort(np.argsort(-width)[:MOST])
    with np.errstate(invalid="ignore"):
        gain = np.diff(_stretched(slopes, guess, degrees, directions), axis=-1) / np.diff(np.log(WIDTHS))
    improper = (np.isfinite(gain) & (gain > -SLOWEST)).all(-1).any(-1)
    if improper.any() or width.max() > ENDLESS:
        name = _name(unravel, _parameter(guess, int(directions[improper.argmax()])), len(guess.location))
        raise TargetError(
            f"the posterior looks improper along {name} (a wider Gaussian always has a higher ELBO): "
            "give this parameter a proper prior"
        )


def _parameter(guess: Guess, direction: int) -> int:
    """Index of the parameter that moves most along this direction, in units of its scale.

    If the location or scale of a parameter is beyond FAR, the pilot itself diverged along it, and it is the answer.
    """
    factor = guess.factor if guess.factor.ndim == 2 else np.diag(guess.factor)
    scale = np.sqrt((factor**2).mean(1))
    reach = np.nan_to_num(np.abs(guess.location) + scale, nan=np.inf)
    return int(np.argmax(reach if reach.max() > FAR else np.abs(factor[:, direction]) / scale))


def _stretched(slopes: TargetSlopes, guess: Guess, degrees: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """The ELBO up to a constant (direction, side, width), all with the same noise."""
    dim, shape = len(guess.location), (len(directions), len(SIDES), len(WIDTHS))
    half = np.random.default_rng(0).normal(size=(DRAWS // 2, dim))
    noise = np.concatenate([half, -half])
    widths, sides = np.asarray(WIDTHS)[:, None], np.asarray(SIDES)[:, None, None]
    stretched = np.broadcast_to(noise, (*shape, *noise.shape)).copy()
    for place, direction in zip(stretched, directions, strict=True):
        place[..., direction] = widths * (sides + noise[:, direction])
    z = guess.draws(stretched.reshape(-1, dim))
    log_p = slopes.at(z, np.broadcast_to(degrees, (len(z), len(degrees))))[0]
    return log_p.reshape(*shape, DRAWS).mean(-1) + np.log(WIDTHS)


def _name(unravel: Callable[[Array], Any], index: int, dim: int) -> str:
    """The user's name of one entry of the unconstrained vector, for example beta[2]."""
    place = np.zeros(dim)
    place[index] = 1
    for path, leaf in jax.tree_util.tree_leaves_with_path(unravel(jnp.asarray(place))):
        if np.any(leaf):
            name = jax.tree_util.keystr(path, simple=True, separator=".") or "z"
            return name + "".join(f"[{i}]" for i in np.argwhere(np.asarray(leaf))[0])
    return f"z[{index}]"
