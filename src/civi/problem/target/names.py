"""Names of the entries of the unconstrained vector."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from civi.problem.target.space import TreeSpace
from civi.problem.target.traced import ModelSpace


def parameter_names(space: Callable[[Array], Any], dim: int) -> tuple[str, ...]:
    """A name for each entry of z, such as tau or theta[3]. Those of a model are of its unconstrained sites.

    Args:
        space: maps z to the user's space.
        dim: number of entries.
    """
    if isinstance(space, ModelSpace) and space.origin is not None:
        shapes = {name: leaf.shape for name, leaf in space.origin.sites.unconstrained.items()}
        named = [entry for name in sorted(shapes) for entry in _entries(name, shapes[name])]
    elif isinstance(space, TreeSpace):
        tree = jax.tree.unflatten(space.structure, [np.zeros(shape) for shape in space.shapes])
        leaves = jax.tree_util.tree_leaves_with_path(tree)
        labels = [jax.tree_util.keystr(path, simple=True, separator=".") or "z" for path, _ in leaves]
        parts = zip(labels, space.shapes, strict=True)
        named = [entry for label, shape in parts for entry in _entries(label, shape)]
    else:
        named = []
    return tuple(named) if len(named) == dim else tuple(f"z[{i}]" for i in range(dim))


def name_of(space: Callable[[Array], Any]) -> str:
    """What the posterior is of: the name of the NumPyro model, or a log density."""
    origin = space.origin if isinstance(space, ModelSpace) else None
    return "a log density" if origin is None else str(getattr(origin.model, "__name__", "a model"))


def _entries(name: str, shape: tuple[int, ...]) -> list[str]:
    if not shape:
        return [name]
    return [name + "".join(f"[{i}]" for i in np.unravel_index(flat, shape)) for flat in range(math.prod(shape))]
