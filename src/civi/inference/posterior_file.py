"""`Posterior.save` and `civi.load`: a fitted posterior as one file, without pickle.

The target is the user's own code and is not in the file; `load` attaches it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import civi
from civi.errors import DataError, OutputError, TargetError
from civi.experiment.report.files import atomically
from civi.family import SemiImplicit
from civi.family.mixing import ConstantMixing, MixingNetwork
from civi.family.noise import GaussianNoise
from civi.family.registry import CONDITIONALS
from civi.inference.archive import Arrays, pack, read_archive, unpack, write_archive
from civi.inference.posterior import Guesses, Posterior
from civi.problem.target import Frame, Framed, Target
from civi.problem.target.space import Tree, Unknown, Vector
from civi.problem.target.user import user_target

FORMAT, VERSION = "civi posterior", 1
PARTS = (SemiImplicit, GaussianNoise, MixingNetwork, ConstantMixing, Frame, Guesses, *CONDITIONALS.values())
KNOWN: dict[str, type] = {part.__name__: part for part in PARTS}
OWN = ("seen", "constrain")
CLOSE = 1e-3


class NoTarget(eqx.Module):
    """The place of a target that was not given to `load`."""

    dim: int = eqx.field(static=True)

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        raise TargetError(
            "this posterior was loaded without its target, which this needs: load it with civi.load(path, target, "
            "*args), as it was fitted"
        )


def save(posterior: Posterior, path: Path, *, overwrite: bool = False) -> None:
    """Write all of the posterior but its target; a file that is there is only replaced with `overwrite`."""
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists: choose another name, or save with overwrite=True")
    arrays: Arrays = {}
    seen = posterior.seen
    parts = {field.name: getattr(posterior, field.name) for field in fields(posterior) if field.name not in OWN}
    parts |= {"frame": seen.frame, "log_p": seen.log_p, "slope": seen.slope}
    content = {
        "posterior": {name: pack(value, KNOWN, arrays, name) for name, value in parts.items()},
        "space": _described(posterior.constrain, posterior.dim, arrays),
    }
    header = {"format": FORMAT, "version": VERSION, "civi": civi.__version__, "dim": posterior.dim}
    atomically(path, lambda part: write_archive(part, header, content, arrays))


def load(
    path: str | Path,
    target: Callable[..., Any] | None = None,
    *args: Any,
    dim: int | None = None,
    example: Any = None,
    **kwargs: Any,
) -> Posterior:
    """A saved posterior; its draws are those of the posterior that was saved, bit for bit.

    Give the log density or model with its arguments as to `civi.fit` (`dim` and `example` are known from the file).
    Without it the posterior still gives `sample_unconstrained` and `log_prob`, and `sample` unless it was a NumPyro
    model; what needs the target says so.
    """
    content, arrays = read_archive(Path(path), FORMAT, VERSION)
    try:
        parts = {name: unpack(value, KNOWN, arrays) for name, value in content["posterior"].items()}
        frame, log_p, slope = (parts.pop(name) for name in ("frame", "log_p", "slope"))
        space = _space(content["space"], arrays)
        without = Posterior(**parts, seen=Framed(NoTarget(len(frame.location)), frame, log_p, slope), constrain=space)
    except (DataError, KeyError, TypeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if target is None:
        return without
    if dim is None and example is None:
        dim = without.dim if isinstance(space, Vector) else None
        example = space(frame.location) if isinstance(space, Tree) else None
    return _attached(without, *user_target(target, args, kwargs, dim, example))


def _attached(posterior: Posterior, target: Target, space: Callable[[Array], Any]) -> Posterior:
    """The posterior with this target, if it is the one of the fit."""
    seen = posterior.seen
    if target.dim != posterior.dim:
        raise TargetError(f"the posterior has {posterior.dim} unconstrained parameters and the target {target.dim}")
    log_p, saved = float(jax.jit(lambda z: target.log_prob(z))(seen.frame.location)), float(seen.log_p)
    if not np.isclose(log_p, saved, rtol=CLOSE, atol=CLOSE):
        raise TargetError(
            f"the target is not the one of the fit: log p at the fit's location is {log_p:.6g} and was {saved:.6g}; "
            "give the same model and data"
        )
    whole = {field.name: getattr(posterior, field.name) for field in fields(posterior)}
    return Posterior(**whole | {"seen": Framed(target, seen.frame, seen.log_p, seen.slope), "constrain": space})


def _described(space: Callable[[Array], Any], dim: int, arrays: Arrays) -> Any:
    """The user's space as JSON: vector, an example of dicts, lists and tuples, or null where it is the user's code."""
    if isinstance(space, Vector):
        return "vector"
    if not isinstance(space, Tree):
        return None
    try:
        return pack(space(jnp.zeros(dim)), {}, arrays, "example")
    except OutputError:
        return None


def _space(described: Any, arrays: Arrays) -> Callable[[Array], Any]:
    if described == "vector":
        return Vector()
    return Unknown() if described is None else Tree.like(unpack(described, {}, arrays))
