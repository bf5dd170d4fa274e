"""Where the axes of a step lie on many devices; without a mesh every function here gives back what it was given.

    outer   devices that share the outer samples (K1), and of an autoencoder the batch of data with them
    inner   devices that share the inner samples (K2) of the same outer samples, and a regression's batch of rows

Computations say only where samples lie; XLA divides the work and puts in the collectives. Random numbers do not depend
on where they are made (JAX's partitionable Threefry), so that a run on many devices draws those of one on one device.
"""

from __future__ import annotations

from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.experimental.multihost_utils import broadcast_one_to_all
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from civi.errors import require
from civi.parts import is_rows

AXES = ("outer", "inner")
Tree = TypeVar("Tree")


def make_mesh(inner: int = 1) -> Mesh:
    """All devices of all processes, `inner` neighbours (of one process, if they can be) along the inner axis."""
    devices = np.asarray(jax.devices())
    fine = inner >= 1 and devices.size % inner == 0
    require(fine, f"--inner-devices must divide the number of devices ({devices.size}), not {inner}")
    return Mesh(devices.reshape(-1, inner), AXES)


def spread(tree: Tree, axis: str) -> Tree:
    """The first axis of every array over this axis of the mesh; an array that does not divide stays whole."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return tree
    return jax.tree.map(lambda leaf: leaf if len(leaf) % mesh.shape[axis] else _constrained(leaf, axis), tree)


def whole(tree: Tree) -> Tree:
    """Every array complete on every device."""
    if jax.sharding.get_abstract_mesh().empty:
        return tree
    return jax.tree.map(_constrained, tree)


def _constrained(leaf: Array, *axes: str) -> Array:
    return jax.lax.with_sharding_constraint(leaf, PartitionSpec(*axes))


def agreed(value: float) -> float:
    """The leading process's number in all of them, where arrays lie on the devices of many."""
    if jax.sharding.get_abstract_mesh().empty or jax.process_count() == 1:
        return value
    return float(_broadcast(np.float32(value)))


def place(model: Tree, mesh: Mesh, *, rows: bool) -> Tree:
    """A model that every process has made, on the mesh: all numbers whole and the leader's, `rows` of data by parts.

    The data's copy on one device is given back.
    """

    declared = is_rows(model)
    data, rest = eqx.partition(model, declared if rows else jax.tree.map(lambda _: False, declared))
    numbers, other = eqx.partition(rest, eqx.is_array)
    numbers = on_host(numbers) if jax.process_count() == 1 else broadcast_one_to_all(numbers)
    divided = jax.tree.map(lambda leaf: by_rows(leaf, mesh), data)
    jax.tree.map(lambda leaf: leaf.delete(), data)
    return eqx.combine(divided, everywhere(numbers, mesh), other)


def everywhere(tree: Tree, mesh: Mesh) -> Tree:
    """Arrays that all processes have alike as global ones, complete on every device."""
    return jax.tree.map(lambda leaf: _everywhere(leaf, NamedSharding(mesh, PartitionSpec())), tree)


def _everywhere(leaf: Any, sharding: NamedSharding) -> Any:
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(
            _everywhere(jax.random.key_data(leaf), sharding), impl=jax.random.key_impl(leaf)
        )
    values = np.asarray(leaf)
    return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])


def by_rows(rows: Array, mesh: Mesh) -> Array:
    """Rows of data over all devices: a device gets its part only, the last ones filled up with zeros."""
    values = np.asarray(rows)
    shape = (-(-len(values) // mesh.size) * mesh.size, *values.shape[1:])

    def part(index: tuple[slice, ...] | None) -> np.ndarray:
        first, last, _ = (index or (slice(None),))[0].indices(shape[0])
        own = values[first:last]
        return np.concatenate([own, np.zeros((last - first - len(own), *shape[1:]), own.dtype)])

    return jax.make_array_from_callback(shape, NamedSharding(mesh, PartitionSpec(AXES)), part)


def on_host(tree: Tree) -> Tree:
    """Arrays that are complete on this process's devices as NumPy's."""
    return jax.tree.map(lambda leaf: np.array(leaf) if isinstance(leaf, jax.Array) else leaf, tree)


def on_device(tree: Tree) -> Tree:
    """NumPy's arrays as JAX's, of this process alone."""
    return jax.tree.map(lambda leaf: jax.numpy.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, tree)
