"""Maps from a vector in R^dim to the user's space: the vector itself, or a pytree of arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from civi.errors import TargetError


@dataclass(frozen=True)
class VectorSpace:
    """The space of vectors: z is returned unchanged."""

    def __call__(self, z: Array) -> Array:
        """z itself."""
        return z


@dataclass(frozen=True)
class TreeSpace:
    """The space of pytrees with a given structure: z is split into the leaves in order, and keeps its dtype."""

    structure: Any
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def like(cls, example: Any) -> TreeSpace:
        """The space of pytrees with the structure and the shapes of `example`.

        Raises TargetError if a leaf is not a number or an array of numbers.
        """
        leaves, structure = jax.tree_util.tree_flatten_with_path(example)
        return cls(structure, tuple(_shape(path, leaf) for path, leaf in leaves))

    @property
    def sizes(self) -> list[int]:
        """Number of elements of each leaf."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def dim(self) -> int:
        """Total number of elements."""
        return sum(self.sizes)

    def __call__(self, z: Array | np.ndarray) -> Any:
        """The pytree that this vector represents."""
        ends = list(accumulate(self.sizes))
        parts = zip(self.sizes, ends, self.shapes, strict=True)
        return jax.tree.unflatten(self.structure, [z[end - size : end].reshape(shape) for size, end, shape in parts])


def _shape(path: Any, leaf: Any) -> tuple[int, ...]:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf.shape
    array = np.asarray(leaf)
    if array.dtype.kind not in "fiubc":
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        where = f" at {name}" if name else ""
        raise TargetError(f"the example must contain numbers only, not {leaf!r}{where}: give one for each parameter")
    return array.shape


@dataclass(frozen=True)
class UnknownSpace:
    """The space of a posterior that was loaded without its model."""

    def __call__(self, z: Array) -> Any:
        """Raise TargetError: the map to the user's space needs the user's code."""
        raise TargetError(
            "draws in the names and space of the target need the target: load with civi.load(path, target, *args), or "
            "use sample_unconstrained"
        )
