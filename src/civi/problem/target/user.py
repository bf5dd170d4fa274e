"""A user's own log density or NumPyro model as a target, checked before anything is computed with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from civi.errors import SettingError, TargetError, require
from civi.problem.target.base import LogDensity, Target, check_shape
from civi.problem.target.numpyro_model import NumPyroTarget, numpyro_target
from civi.problem.target.purity import check_pure
from civi.problem.target.space import TreeSpace, VectorSpace

STARTS = 16


def user_target(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], dim: int | None, example: Any
) -> tuple[Target, Callable[[Array], Any]]:
    """The target in R^dim, and the way back to the user's space.

    With `dim` or an `example`, `target` is a log density whose first argument is z; else it is a NumPyro model.
    """
    if dim is not None and example is not None:
        raise SettingError("give dim (for a log density of a vector) or example (of a pytree), not both")
    require(callable(target), f"the target must be a log density or a NumPyro model, not a {type(target).__name__}")
    require(dim is None or dim >= 1, f"dim must be at least 1, not {dim}")
    is_density = dim is not None or example is not None
    named = _named(target, args, kwargs, is_density)
    with_nan = _with_nan(named)
    try:
        made, space = _density(target, args, kwargs, dim, example) if is_density else _model(target, args, kwargs)
        check_shape(made)
    except TargetError as error:
        raise TargetError(f"{error}{with_nan}") from error.__cause__
    check_pure(made)
    if with_nan and not _finite_somewhere(made):
        raise TargetError(f"the log density is not a finite number anywhere near 0{with_nan}")
    return made, space


def batch_size(target: Target) -> int | None:
    """How many rows of data a step should see: what the model's plates say, or None for all."""
    return target.batch_size if isinstance(target, NumPyroTarget) else None


def _density(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], dim: int | None, example: Any
) -> tuple[Target, Callable[[Array], Any]]:
    if dim is not None:
        bound = (lambda z: target(z, *args, **kwargs)) if args or kwargs else target
        return LogDensity(bound, dim), VectorSpace()
    tree = TreeSpace.like(example)
    if not tree.dim:
        raise TargetError("the example has no numbers: give one value for each parameter")
    return LogDensity(lambda z: target(tree(z), *args, **kwargs), tree.dim), tree


def _model(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Target, Callable[[Array], Any]]:
    made = numpyro_target(target, args, kwargs)
    return made, made.constrain


def _named(target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], is_density: bool) -> Any:
    """The arguments by the names that the function gives them."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return {**dict(enumerate(args)), **kwargs}
    try:
        bound = signature.bind(*((None,) if is_density else ()), *args, **kwargs).arguments
    except TypeError as error:
        what = "log density (of z and these arguments)" if is_density else "model"
        raise TargetError(f"the {what} cannot be called with the arguments given: {error}") from error
    return dict(list(bound.items())[1:]) if is_density else dict(bound)


def _with_nan(named: Any) -> str:
    """Which arguments hold numbers that are not numbers, as the end of a sentence."""
    found = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(named):
        if isinstance(leaf, float | np.ndarray | jax.Array) and jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            count, size = int(np.isnan(np.asarray(leaf)).sum()), np.size(leaf)
            name = ".".join(str(getattr(part, "key", getattr(part, "idx", part))) for part in path)
            found += [f"{name} ({count} of {size} values)"] if count else []
    return f"; there is NaN in the data, in {', '.join(found)}: fill it in, or drop the rows" if found else ""


def _finite_somewhere(target: Target) -> bool:
    z = jax.random.uniform(jax.random.key(0), (STARTS, target.dim), minval=-2, maxval=2)
    return bool(np.isfinite(jax.jit(jax.vmap(lambda one: target.log_prob(one)))(z)).any())
