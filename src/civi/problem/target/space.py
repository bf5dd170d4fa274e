"""From a vector in R^dim to what the user asked for: the vector itself, or a pytree of arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from civi.errors import TargetError


@dataclass(frozen=True)
class VectorSpace:
    """z as it is."""

    def __call__(self, z: Array) -> Array:
        """z."""
        return z


@dataclass(frozen=True)
class TreeSpace:
    """A vector cut into the leaves of a pytree, in its order; of any precision."""

    structure: Any
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def like(cls, example: Any) -> TreeSpace:
        """The structure and shapes of this pytree."""
        leaves, structure = jax.tree.flatten(example)
        return cls(structure, tuple(jnp.shape(leaf) for leaf in leaves))

    @property
    def sizes(self) -> list[int]:
        """Numbers in each leaf."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def dim(self) -> int:
        """Numbers in all leaves."""
        return sum(self.sizes)

    def __call__(self, z: Array) -> Any:
        """The pytree of this vector."""
        ends = [sum(self.sizes[: i + 1]) for i in range(len(self.shapes))]
        parts = jnp.split(z, ends[:-1])
        leaves = [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return jax.tree.unflatten(self.structure, leaves)


@dataclass(frozen=True)
class UnknownSpace:
    """The space of a posterior that was loaded without the model it belongs to."""

    def __call__(self, z: Array) -> Any:
        """There is no way to the user's space without the user's code."""
        raise TargetError(
            "draws in the names and space of the target need the target: load with civi.load(path, target, *args), or "
            "take sample_unconstrained"
        )
