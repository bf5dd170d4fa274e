"""`civi.load`: read a saved posterior and, if the target is given, attach it again."""

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
from civi.files import as_path
from civi.inference.archive import read_archive, unpack
from civi.inference.check_file import check_parts, expect
from civi.inference.posterior import AmortisedPosterior, Posterior, SampledPosterior, SemiImplicitPosterior
from civi.inference.save import FORMAT, KNOWN, OLDER, VERSION
from civi.problem.target import Framed
from civi.problem.target.space import TreeSpace, UnknownSpace, VectorSpace
from civi.problem.target.traced import ModelSpace, TracedTarget
from civi.problem.target.user import user_target

CLOSE = 1e-3
SINCE_VERSION_4: Mapping[str, dict[str, Any]] = {
    "semi-implicit": {"phases": {}, "runs": []},
    "sampled": {"phases": {}},
    "amortised": {"phases": {}},
}


class NoTarget(eqx.Module):
    """Placeholder for a target that was not given to `load`. Any use of it is an error."""

    dim: int = eqx.field(static=True)

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        raise TargetError(
            "this posterior was loaded without its target, which is needed here: load it with civi.load(path, target, "
            "*args), with the arguments that civi.fit was given"
        )


def load(
    path: str | Path,
    target: Callable[..., Any] | None = None,
    *args: Any,
    dim: int | None = None,
    example: Any = None,
    **kwargs: Any,
) -> Posterior:
    """Read a saved posterior. With the same key it gives the same draws as the posterior that was saved, bit for bit.

    Without the target, `sample_unconstrained` and `log_prob` still work, and so does `sample` unless the posterior was
    fitted to a NumPyro model. Methods that need the target raise an error that says so.

    Args:
        path: the file that `Posterior.save`, `civi fit` or `civi run` wrote.
        target: the log density or NumPyro model, as given to `civi.fit`.
        *args: further arguments of the target, as given to `civi.fit`.
        dim: dimension of the vector that the log density takes; read from the file by default.
        example: a pytree of the structure and shapes that the log density takes; read from the file by default.
        **kwargs: further keyword arguments of the target.

    Returns:
        The posterior, of the same kind as the one that was saved.

    Example:
        >>> import civi, jax, os, tempfile
        >>> from civi.inference.posterior import SemiImplicitPosterior
        >>> def log_density(z):
        ...     return -0.5 * (z**2).sum()
        >>> family = civi.Architecture().init(2, jax.random.key(0))
        >>> posterior = SemiImplicitPosterior(family=family, target=civi.LogDensity(log_density, 2))
        >>> path = os.path.join(tempfile.mkdtemp(), "fit.civi")
        >>> posterior.save(path)
        >>> again = civi.load(path, log_density)
        >>> bool((again.sample(1, 10) == posterior.sample(1, 10)).all())
        True
    """
    content, arrays = read_archive(as_path(path), FORMAT, VERSION, OLDER)
    try:
        posterior, space = _posterior(content, arrays)
    except Exception as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(f"{path} cannot be read: {reason[0][:300]}") from error
    if target is None:
        return posterior
    if not isinstance(posterior, SemiImplicitPosterior):
        raise TargetError("only a posterior with a density takes a target: load this one without a target")
    if dim is None and example is None:
        dim = posterior.dim if isinstance(space, VectorSpace) else None
        example = space(jnp.zeros(posterior.dim, jnp.float32)) if isinstance(space, TreeSpace) else None
    made, space = user_target(target, args, kwargs, dim, example, reparam=bool(posterior.centring))
    degrees = [posterior.centring.get(name, 1.0) for name in made.centred_sites]
    if isinstance(space, ModelSpace):
        made, space = made.with_degrees(degrees), space.with_degrees(degrees)
    return _attached(posterior, made, space)


def _posterior(content: Any, arrays: Mapping[str, np.ndarray]) -> tuple[Posterior, Callable[[Array], Any]]:
    """Rebuild the posterior and the user's space from the content of a file; any exception means a wrong content."""
    expect(isinstance(content, dict), "it does not contain an object")
    missing = [name for name in ("kind", "parts", "space") if name not in content]
    expect(not missing, f"{', '.join(missing)} is missing")
    kind, packed = content["kind"], content["parts"]
    expect(isinstance(kind, str) and kind in KINDS, f"it holds an unknown kind of posterior, {str(kind)[:50]!r}")
    expect(isinstance(packed, dict), "its parts are not an object")
    parts = {name: unpack(value, KNOWN, arrays) for name, value in packed.items()}
    parts = SINCE_VERSION_4[kind] | parts
    check_parts(kind, parts)
    space = _space(content["space"], arrays)
    posterior = KINDS[kind](parts, space)
    fits = not isinstance(space, TreeSpace) or space.dim == posterior.dim
    expect(fits, "the user's parameters do not have as many numbers as the posterior")
    return posterior, space


def _semi_implicit(parts: dict[str, Any], space: Callable[[Array], Any]) -> Posterior:
    frame, log_p, slope, dim = (parts.pop(name) for name in ("frame", "log_p", "slope", "dim"))
    missing = NoTarget(dim)
    target = missing if frame is None else Framed(missing, frame, log_p, slope)
    return SemiImplicitPosterior(**parts, target=target, constrain=space)


KINDS: Mapping[str, Callable[[dict[str, Any], Callable[[Array], Any]], Posterior]] = {
    "semi-implicit": _semi_implicit,
    "sampled": lambda parts, space: SampledPosterior(**parts, constrain=space),
    "amortised": lambda parts, space: AmortisedPosterior(**parts, constrain=space),
}


def _attached(posterior: SemiImplicitPosterior, target: TracedTarget, space: Any) -> Posterior:
    """Attach the target, after a check that it is the one that was fitted."""
    saved_target = posterior.target
    if target.dim != posterior.dim:
        raise TargetError(f"the posterior has {posterior.dim} unconstrained parameters, the target has {target.dim}")
    if not isinstance(saved_target, Framed):
        return replace(posterior, target=target, constrain=space)
    log_p, saved = float(jax.jit(lambda z: target.log_prob(z))(saved_target.frame.location)), float(saved_target.log_p)
    if not np.isclose(log_p, saved, rtol=CLOSE, atol=CLOSE):
        raise TargetError(
            f"the target is not the one that was fitted: log p at the location of the fit is {log_p:.6g} but was "
            f"{saved:.6g}; give the same model and data"
        )
    return replace(posterior, target=replace(saved_target, target=target), constrain=space)


def _space(packed: Any, arrays: Mapping[str, np.ndarray]) -> Callable[[Array], Any]:
    """The inverse of `packed_space` in `civi.inference.save`."""
    if packed == "vector":
        return VectorSpace()
    return UnknownSpace() if packed is None else TreeSpace.like(unpack(packed, {}, arrays))
