"""A user's log density or NumPyro model as a target, with checks before training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from civi.errors import SettingError, TargetError, require
from civi.problem.target.base import Target
from civi.problem.target.explain import explain
from civi.problem.target.numpyro_model import numpyro_target
from civi.problem.target.program import Pool, depends, on_device, trace
from civi.problem.target.purity import pure_trace
from civi.problem.target.space import TreeSpace, VectorSpace
from civi.problem.target.streamed_model import StreamedModel, rows_in, streamed_target
from civi.problem.target.traced import TracedTarget
from civi.problem.target.user_data import check_data, named_arguments, with_nan, with_unusable

STARTS = 16


def user_target(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dim: int | None,
    example: Any,
    *,
    reparam: bool = True,
) -> tuple[Any, Callable[[Array], Any]]:
    """The target in R^dim, and the map from R^dim back to the user's space. Nothing is compiled.

    Args:
        target: a log density with z as its first argument if `dim` or `example` is given, otherwise a NumPyro model.
        args: further positional arguments of `target`.
        kwargs: further keyword arguments of `target`.
        dim: length of the vector z.
        example: a pytree with the structure and shapes of z; give either this or `dim`.
        reparam: whether hierarchical sites of a model get a degree of centring (see `TracedTarget.with_degrees`).
    """
    if dim is not None and example is not None:
        raise SettingError("give dim (for a log density of a vector) or example (of a pytree), not both")
    require(callable(target), f"the target must be a log density or a NumPyro model, not a {type(target).__name__}")
    whole = isinstance(dim, Integral) and not isinstance(dim, bool) and dim >= 1
    require(dim is None or whole, f"dim must be a whole number from 1, not {dim!r}")
    is_density = dim is not None or example is not None
    named = named_arguments(target, args, kwargs, is_density)
    check_data(named)
    missing = with_nan(named)
    try:
        made: tuple[Any, Callable[[Array], Any]]
        if is_density and rows_in(args, kwargs):
            raise TargetError("the rows of a table on disk can be used by a NumPyro model only, in a plate over them")
        if is_density:
            made = _density(target, args, kwargs, dim, example)
        elif rows_in(args, kwargs):
            made = streamed_target(target, args, kwargs, reparam=reparam)
        else:
            made = numpyro_target(target, args, kwargs, reparam=reparam)
    except TargetError as error:
        raise TargetError(f"{error}{with_unusable(named)}{missing}") from error.__cause__
    if isinstance(made[0], TracedTarget) and made[0].is_complex:
        raise TargetError("the log density is complex: use real data, or the absolute value or real part of them")
    if missing and not _finite_somewhere(made[0]):
        raise TargetError(f"the log density is not finite at any point tried near 0{missing}")
    return made


def batch_size(target: Target) -> int | None:
    """The mini-batch size that a NumPyro model's plates ask for; None for all rows."""
    return target.batch_size if isinstance(target, TracedTarget | StreamedModel) else None


def _density(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], dim: int | None, example: Any
) -> tuple[TracedTarget, Callable[[Array], Any]]:
    space: Any = VectorSpace() if dim is not None else TreeSpace.like(example)
    size = space.dim if dim is None else dim
    if not size:
        raise TargetError("the example has no elements: give one value for each parameter")

    def log_density(z: Array, degrees: Array, index: Mapping[str, Array]) -> Any:
        return target(space(z), *args, **kwargs)

    number = jnp.result_type(float)
    inputs: tuple[Any, ...] = (jax.ShapeDtypeStruct((size,), number), jax.ShapeDtypeStruct((0,), number), {})
    _check_shape(log_density, inputs)
    pool = Pool()
    program = pool.program(pure_trace(log_density, *inputs, origin=target), jax.tree.structure(0), target)
    return TracedTarget(program, size, tuple(pool.arrays), on_device(np.ones(0))), space


def _check_shape(log_density: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    """Raise TargetError unless the log density maps z to one number."""
    length = inputs[0].shape[0]
    try:
        traced, structure = trace(log_density, *inputs)
    except Exception as error:
        raise TargetError(f"the log density fails on a vector of length {length}: {explain(error)}") from error
    if structure != jax.tree.structure(0):
        raise TargetError(f"the log density must return one number for one z, not {structure.num_leaves} arrays")
    result = traced.out_avals[0]
    if result.shape != ():
        raise TargetError(f"the log density must return one number for one z, not an array of shape {result.shape}")
    if not jnp.issubdtype(result.dtype, jnp.floating) and depends(traced.jaxpr, 1)[0]:
        raise TargetError(f"the log density must return a floating-point number, not one of type {result.dtype}")


@eqx.filter_jit
def _log_probs(target: Any, z: Array) -> Array:
    return jax.vmap(target.log_prob)(z)


def _finite_somewhere(target: Any) -> bool:
    z = np.random.default_rng(0).uniform(-2, 2, (STARTS, target.dim))
    return bool(np.isfinite(_log_probs(target, on_device(z))).any())
