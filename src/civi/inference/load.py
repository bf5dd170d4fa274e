"""`civi.load`: a saved posterior, with its target attached again where it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from civi.errors import DataError, TargetError
from civi.inference.archive import read_archive, unpack
from civi.inference.posterior import AmortisedPosterior, Posterior, SampledPosterior, SemiImplicitPosterior
from civi.inference.save import FORMAT, KNOWN, VERSION
from civi.problem.target import Framed, Target
from civi.problem.target.space import TreeSpace, UnknownSpace, VectorSpace
from civi.problem.target.user import user_target

CLOSE = 1e-3


class NoTarget(eqx.Module):
    """The place of a target that was not given to `load`."""

    dim: int = eqx.field(static=True)

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        raise TargetError(
            "this posterior was loaded without its target, which this needs: load it with civi.load(path, target, "
            "*args), as it was fitted"
        )


def load(
    path: str | Path,
    target: Callable[..., Any] | None = None,
    *args: Any,
    dim: int | None = None,
    example: Any = None,
    **kwargs: Any,
) -> Posterior:
    """A saved posterior; its draws are those of the posterior that was saved, bit for bit.

    Without the target the posterior still gives `sample_unconstrained` and `log_prob`, and `sample` unless it was
    fitted to a NumPyro model; whatever needs the target says so.

    Args:
        path: the file that `Posterior.save`, `civi fit` or `civi run` wrote.
        target: the log density or NumPyro model, as given to `civi.fit`.
        *args: further arguments of the target, as given to `civi.fit`.
        dim: dimension of the log density's vector; by default that of the file.
        example: a pytree like the one the log density takes; by default that of the file.
        **kwargs: further keyword arguments of the target.
    """
    content, arrays = read_archive(Path(path), FORMAT, VERSION)
    try:
        parts = {name: unpack(value, KNOWN, arrays) for name, value in content["parts"].items()}
        space = _space(content["space"], arrays)
        posterior = KINDS[content["kind"]](parts, space)
    except (DataError, KeyError, TypeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if target is None:
        return posterior
    if not isinstance(posterior, SemiImplicitPosterior):
        raise TargetError("only a posterior with a density takes a target: load this one without it")
    if dim is None and example is None:
        dim = posterior.dim if isinstance(space, VectorSpace) else None
        example = space(jnp.zeros(posterior.dim, jnp.float32)) if isinstance(space, TreeSpace) else None
    return _attached(posterior, *user_target(target, args, kwargs, dim, example))


def _semi_implicit(parts: dict[str, Any], space: Callable[[Array], Any]) -> Posterior:
    frame, log_p, slope, dim = (parts.pop(name) for name in ("frame", "log_p", "slope", "dim"))
    nothing = NoTarget(dim)
    seen = nothing if frame is None else Framed(nothing, frame, log_p, slope)
    return SemiImplicitPosterior(**parts, seen=seen, constrain=space)


KINDS: Mapping[str, Callable[[dict[str, Any], Callable[[Array], Any]], Posterior]] = {
    "semi-implicit": _semi_implicit,
    "sampled": lambda parts, space: SampledPosterior(**parts, constrain=space),
    "amortised": lambda parts, space: AmortisedPosterior(**parts, constrain=space),
}


def _attached(posterior: SemiImplicitPosterior, target: Target, space: Callable[[Array], Any]) -> Posterior:
    """The posterior with this target, if it is the one of the fit."""
    seen = posterior.seen
    if target.dim != posterior.dim:
        raise TargetError(f"the posterior has {posterior.dim} unconstrained parameters and the target {target.dim}")
    if not isinstance(seen, Framed):
        return replace(posterior, seen=target, constrain=space)
    log_p, saved = float(jax.jit(lambda z: target.log_prob(z))(seen.frame.location)), float(seen.log_p)
    if not np.isclose(log_p, saved, rtol=CLOSE, atol=CLOSE):
        raise TargetError(
            f"the target is not the one of the fit: log p at the fit's location is {log_p:.6g} and was {saved:.6g}; "
            "give the same model and data"
        )
    return replace(posterior, seen=replace(seen, target=target), constrain=space)


def _space(described: Any, arrays: Mapping[str, np.ndarray]) -> Callable[[Array], Any]:
    if described == "vector":
        return VectorSpace()
    return UnknownSpace() if described is None else TreeSpace.like(unpack(described, {}, arrays))
