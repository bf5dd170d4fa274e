"""Checks of the data that a user passes to a log density or model, and the parts of error messages that name them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from civi.errors import CALLED_IN_JIT, SettingError, TargetError
from civi.problem.target.explain import GIVE_DIM


def named_arguments(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], is_density: bool
) -> dict[Any, Any]:
    """The arguments (without z) by the names of the function's parameters; raises TargetError if they do not match."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return {**dict(enumerate(args)), **kwargs}
    try:
        bound = signature.bind(*((None,) if is_density else ()), *args, **kwargs).arguments
    except TypeError as error:
        what = "log density (of z and these arguments)" if is_density else "model"
        advice = "" if is_density else GIVE_DIM
        raise TargetError(f"the {what} cannot be called with the arguments given: {error}{advice}") from error
    return dict(list(bound.items())[1:]) if is_density else dict(bound)


def check_data(named: Mapping[Any, Any]) -> None:
    """Refuse traced values, iterators and arrays without rows."""
    for name, leaf in _leaves(named):
        if isinstance(leaf, jax.core.Tracer):
            raise SettingError(CALLED_IN_JIT)
        if isinstance(leaf, Iterator):
            raise TargetError(
                f"the data {name} are an iterator, which can be read once only: give an array, or batches of rows by "
                "civi.Rows.from_batches"
            )
        shape = getattr(leaf, "shape", None)
        if isinstance(shape, tuple) and shape and shape[0] == 0:
            raise TargetError(f"the data {name} are empty (an array of shape {shape}): give at least one row")
        if isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind in "iuf":
            _check_range(name, leaf)


def _check_range(name: str, values: Any) -> None:
    """Refuse numbers that JAX would change in silence, because without double precision it uses 32 bits."""
    kind = jax.dtypes.canonicalize_dtype(values.dtype)
    if kind == values.dtype:
        return
    largest = np.finfo(kind).max if kind.kind == "f" else np.iinfo(kind).max
    smallest = -largest if kind.kind == "f" else np.iinfo(kind).min
    changed = np.atleast_1d(np.isfinite(values) & ((values > largest) | (values < smallest)))
    if changed.any():
        row = np.argwhere(changed)[0]
        value = np.atleast_1d(values)[tuple(row)]
        raise TargetError(
            f"the data {name} contain {value} (row {row[0] + 1}), which does not fit in {kind}: rescale or recode "
            "them, or use double precision (jax_enable_x64)"
        )


def with_nan(named: Mapping[Any, Any]) -> str:
    """Error suffix that lists the arguments with NaN; empty if there are none."""
    found = []
    for name, leaf in _leaves(named):
        if isinstance(leaf, float | np.ndarray | jax.Array) and jnp.issubdtype(np.asarray(leaf).dtype, jnp.floating):
            count, size = int(np.isnan(np.asarray(leaf)).sum()), np.size(leaf)
            found += [f"{name} ({count} of {size} values)"] if count else []
    return f"; the data contain NaN, in {', '.join(found)}: impute it, or drop the rows" if found else ""


def with_unusable(named: Mapping[Any, Any]) -> str:
    """Error suffix that lists the arguments which JAX cannot compute with: text, and tables of pandas."""
    texts = sorted({name.split(".")[0] for name, leaf in _leaves(named) if _is_text(name, leaf)})
    tables = [name for name, leaf in _leaves(named) if type(leaf).__module__.startswith(("pandas", "polars"))]
    suffix = f"; the data contain text, in {', '.join(texts)}: code it as whole numbers" if texts else ""
    return suffix + "".join(f"; {name} is a table: give {name}.to_numpy()" for name in tables if name not in texts)


def _is_text(name: str, leaf: Any) -> bool:
    """Whether this is an array of text, or an element of a list with text; a single word may be an option."""
    if isinstance(leaf, str):
        return "." in name
    return getattr(getattr(leaf, "dtype", None), "kind", None) in tuple("USOT")


def _leaves(named: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """The arguments by name; the elements of lists of plain values are found under the name of the list."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(named, is_leaf=lambda leaf: isinstance(leaf, Iterator)):
        yield ".".join(str(getattr(part, "key", getattr(part, "idx", part))) for part in path), leaf
