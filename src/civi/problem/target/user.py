"""A user's log density or NumPyro model as a target, with checks before training."""

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
    """The target in R^dim, and the map from R^dim back to the user's space.

    Args:
        target: a log density with z as its first argument if `dim` or `example` is given, otherwise a NumPyro model.
        args: further positional arguments of `target`.
        kwargs: further keyword arguments of `target`.
        dim: length of the vector z.
        example: a pytree with the structure and shapes of z; give either this or `dim`.
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
        raise TargetError(f"the log density is not finite at any point tried near 0{with_nan}")
    return made, space


def batch_size(target: Target) -> int | None:
    """The mini-batch size that a NumPyro model's plates ask for; None for all rows."""
    return target.batch_size if isinstance(target, NumPyroTarget) else None


def _density(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], dim: int | None, example: Any
) -> tuple[Target, Callable[[Array], Any]]:
    if dim is not None:
        bound = (lambda z: target(z, *args, **kwargs)) if args or kwargs else target
        return LogDensity(bound, dim), VectorSpace()
    tree = TreeSpace.like(example)
    if not tree.dim:
        raise TargetError("the example has no elements: give one value for each parameter")
    return LogDensity(lambda z: target(tree(z), *args, **kwargs), tree.dim), tree


def _model(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Target, Callable[[Array], Any]]:
    made = numpyro_target(target, args, kwargs)
    return made, made.constrain


def _named(target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], is_density: bool) -> Any:
    """The arguments (without z) by the names of the function's parameters; raises TargetError if they do not match."""
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
    """Error suffix that lists the arguments with NaN; empty if there are none."""
    found = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(named):
        if isinstance(leaf, float | np.ndarray | jax.Array) and jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            count, size = int(np.isnan(np.asarray(leaf)).sum()), np.size(leaf)
            name = ".".join(str(getattr(part, "key", getattr(part, "idx", part))) for part in path)
            found += [f"{name} ({count} of {size} values)"] if count else []
    return f"; the data contain NaN, in {', '.join(found)}: impute it, or drop the rows" if found else ""


def _finite_somewhere(target: Target) -> bool:
    z = jax.random.uniform(jax.random.key(0), (STARTS, target.dim), minval=-2, maxval=2)
    return bool(np.isfinite(jax.jit(jax.vmap(lambda one: target.log_prob(one)))(z)).any())
