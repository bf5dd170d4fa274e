"""The device mesh and the sharding of samples and data. Without a mesh, the sharding constraints here do nothing.

    outer   devices that share the outer samples (K1), and with them the batch of an autoencoder
    inner   devices that share the inner samples (K2) of the same outer samples, and the batch of rows of a regression

The code only declares how samples are sharded; XLA divides the work and inserts the collectives. Random numbers do not
depend on the sharding (JAX's partitionable Threefry), so a run on many devices draws the same numbers as on one.
"""

from __future__ import annotations

from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.experimental.multihost_utils import broadcast_one_to_all, process_allgather
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from civi.errors import require
from civi.parts import is_rows

AXES = ("outer", "inner")
Tree = TypeVar("Tree")


def make_mesh(inner: int = 1) -> Mesh:
    """Make a mesh of all devices of all processes.

    Args:
        inner: number of devices along the inner axis. Neighbouring devices are used, of one process where possible.
    """
    devices = np.asarray(jax.devices())
    fine = inner >= 1 and devices.size % inner == 0
    require(fine, f"--inner-devices must divide the number of devices ({devices.size}), not {inner}")
    return Mesh(devices.reshape(-1, inner), AXES)


def shard(tree: Tree, axis: str) -> Tree:
    """Shard the first axis of every array over this mesh axis; an array that does not divide evenly is left alone."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return tree
    return jax.tree.map(lambda leaf: leaf if len(leaf) % mesh.shape[axis] else _constrained(leaf, axis), tree)


def replicate(tree: Tree) -> Tree:
    """Replicate every array on all devices of the current mesh."""
    if jax.sharding.get_abstract_mesh().empty:
        return tree
    return jax.tree.map(_constrained, tree)


def _constrained(leaf: Array, *axes: str) -> Array:
    return jax.lax.with_sharding_constraint(leaf, PartitionSpec(*axes))


def broadcast_scalar(value: float) -> float:
    """Process 0's value, broadcast to all processes; without a mesh or other processes, the value itself."""
    if jax.sharding.get_abstract_mesh().empty or jax.process_count() == 1:
        return value
    return float(broadcast_one_to_all(np.float32(value)))


def gather_bytes(content: bytes) -> list[bytes]:
    """The bytes of every process, in the order of the processes; without other processes, these bytes alone."""
    if jax.process_count() == 1:
        return [content]
    sizes = np.asarray(process_allgather(np.array([len(content)], np.int32))).reshape(-1)
    padded = np.frombuffer(content.ljust(int(sizes.max()), b"\0"), np.uint8)
    every = np.asarray(process_allgather(padded)).reshape(len(sizes), -1)
    return [row[:size].tobytes() for row, size in zip(every, sizes, strict=True)]


def own_share(count: int) -> range:
    """The numbers below `count` that this process works on; every number belongs to one process."""
    return range(jax.process_index(), count, jax.process_count())


def place(model: Tree, mesh: Mesh, *, rows: bool) -> Tree:
    """Place a model that every process has built on the mesh; all processes get process 0's values.

    Args:
        model: the model. If `rows` is set, the memory of its data on a single device is freed.
        mesh: the device mesh.
        rows: whether to shard the rows of data over all devices. Otherwise they are replicated, as all other arrays.
    """

    declared = is_rows(model)
    data, rest = eqx.partition(model, declared if rows else jax.tree.map(lambda _: False, declared))
    numbers, other = eqx.partition(rest, eqx.is_array)
    numbers = on_host(numbers) if jax.process_count() == 1 else broadcast_one_to_all(numbers)
    sharded = jax.tree.map(lambda leaf: shard_rows(leaf, mesh), data)
    jax.tree.map(lambda leaf: leaf.delete(), data)
    return eqx.combine(sharded, replicate_to_mesh(numbers, mesh), other)


def replicate_to_mesh(tree: Tree, mesh: Mesh) -> Tree:
    """Turn arrays that are equal in all processes into global arrays that are replicated on every device."""
    return jax.tree.map(lambda leaf: _replicate_leaf(leaf, NamedSharding(mesh, PartitionSpec())), tree)


def _replicate_leaf(leaf: Any, sharding: NamedSharding) -> Any:
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(
            _replicate_leaf(jax.random.key_data(leaf), sharding), impl=jax.random.key_impl(leaf)
        )
    values = np.asarray(leaf)
    return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])


def shard_rows(rows: Array, mesh: Mesh) -> Array:
    """Shard rows of data over all devices, padded with zeros at the end; each device receives only its own rows."""
    values = np.asarray(rows)
    shape = (-(-len(values) // mesh.size) * mesh.size, *values.shape[1:])

    def part(index: tuple[slice, ...] | None) -> np.ndarray:
        first, last, _ = (index or (slice(None),))[0].indices(shape[0])
        own = values[first:last]
        return np.concatenate([own, np.zeros((last - first - len(own), *shape[1:]), own.dtype)])

    return jax.make_array_from_callback(shape, NamedSharding(mesh, PartitionSpec(AXES)), part)


def on_host(tree: Tree) -> Tree:
    """JAX arrays, fully available in this process, as NumPy arrays."""
    return jax.tree.map(lambda leaf: np.array(leaf) if isinstance(leaf, jax.Array) else leaf, tree)


def on_device(tree: Tree) -> Tree:
    """NumPy arrays as JAX arrays that are local to this process."""
    return jax.tree.map(lambda leaf: jax.numpy.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, tree)
