"""Windows on the devices: a background thread reads the rows of the next exchange while the training runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from civi.parallel.mesh import AXES, replicate_to_mesh
from civi.tables.windows import Windows

AHEAD = 2
Result = TypeVar("Result")


class Window(NamedTuple):
    """Rows in memory, slot after slot, and the weight of a row of each slot (see `Windows.weight`); None if empty."""

    rows: Float[Array, "N C"] | None = None
    weight: Float[Array, " S"] | None = None


EMPTY = Window()


Load = Callable[[int, np.ndarray], np.ndarray]


class Feed:
    """The windows of one training, on one device or on a mesh whose devices share the slots.

    Args:
        windows: which rows are in the window at which step.
        load: reads chosen rows of a group as float32.
        mesh: the device mesh; None for a single device. The number of slots must be a multiple of its devices.
    """

    def __init__(self, windows: Windows, load: Load, mesh: Mesh | None = None) -> None:
        self._windows, self._load, self._mesh = windows, load, mesh
        self._shape = (windows.slots * windows.depth, windows.width)
        self._first_row = self._own_rows()
        self._shards: dict[Any, Array] = {}
        self._exchange = -1
        self._thread = ThreadPoolExecutor(1)
        self._coming: dict[tuple[int, int], Future[np.ndarray]] = {}

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def at(self, done: int) -> tuple[Window, int]:
        """The window after `done` steps, and the number of steps until it changes. Earlier windows become invalid."""
        every = self._windows.every
        exchange = done // every
        if self._exchange < 0 or not self._exchange <= exchange <= self._exchange + self._windows.slots:
            self._fill(exchange)
        while self._exchange < exchange:
            self._advance()
        return self._window(), (exchange + 1) * every - done

    def _own_rows(self) -> dict[Any, tuple[int, int]]:
        """The first and the last row of the window on each device of this process."""
        if self._mesh is None:
            return {None: (0, self._shape[0])}
        index = NamedSharding(self._mesh, PartitionSpec(AXES)).addressable_devices_indices_map(self._shape)
        return {device: (rows or (slice(None),))[0].indices(self._shape[0])[:2] for device, rows in index.items()}

    def _device_of(self, slot: int) -> Any:
        """The device of this process that has the slot; False if it belongs to another process."""
        row = slot * self._windows.depth
        return next((device for device, (first, last) in self._first_row.items() if first <= row < last), False)

    def _fill(self, exchange: int) -> None:
        """Read the whole window of this exchange."""
        for coming in self._coming.values():
            coming.cancel()
        self._coming.clear()
        for device, (first, last) in self._first_row.items():
            slots = range(first // self._windows.depth, last // self._windows.depth)
            rows = np.concatenate([self._piece(slot, self._windows.visit(slot, exchange))() for slot in slots])
            self._shards[device] = jax.device_put(rows, device)
        self._exchange = exchange
        self._read_ahead()

    def _advance(self) -> None:
        self._exchange += 1
        slot = (self._exchange - 1) % self._windows.slots
        device = self._device_of(slot)
        if device is not False:
            key = (slot, self._windows.visit(slot, self._exchange))
            rows = self._coming.pop(key).result()
            first = slot * self._windows.depth - self._first_row[device][0]
            alone = nullcontext() if device is None else jax.set_mesh(Mesh(np.array([device]), ("own",)))
            with alone:
                self._shards[device] = _replaced(self._shards[device], jax.device_put(rows, device), first)
        self._read_ahead()

    def _read_ahead(self) -> None:
        """Read the rows of the next AHEAD exchanges of slots of this process."""
        for exchange in range(self._exchange + 1, self._exchange + self._windows.slots + 1):
            slot = (exchange - 1) % self._windows.slots
            if len(self._coming) < AHEAD and self._device_of(slot) is not False:
                key = (slot, self._windows.visit(slot, exchange))
                if key not in self._coming:
                    self._coming[key] = self._thread.submit(self._piece(*key))

    def _piece(self, slot: int, visit: int) -> Callable[[], np.ndarray]:
        return lambda: self._load(self._windows.group(slot, visit), self._windows.chosen(slot, visit))

    def _window(self) -> Window:
        slots = range(self._windows.slots)
        visits = [self._windows.visit(slot, self._exchange) for slot in slots]
        weight = np.array([self._windows.weight(*pair) for pair in zip(slots, visits, strict=True)], np.float32)
        if self._mesh is None:
            return Window(self._shards[None], jnp.asarray(weight))
        sharding = NamedSharding(self._mesh, PartitionSpec(AXES))
        rows = jax.make_array_from_single_device_arrays(self._shape, sharding, list(self._shards.values()))
        return Window(rows, replicate_to_mesh(jnp.asarray(weight), self._mesh))


@partial(jax.jit, donate_argnums=0)
def _replaced(rows: Array, new: Array, first: Any) -> Array:
    """The rows with `new` in place of those from `first` on, in the same memory."""
    return jax.lax.dynamic_update_slice(rows, new, (first, 0))


def read_ahead(tasks: Iterable[Callable[[], Result]]) -> Iterator[Result]:
    """The results of these functions in order; a background thread is up to AHEAD of them ahead."""
    with ThreadPoolExecutor(1) as thread:
        waiting = iter(tasks)
        coming = [thread.submit(task) for task in islice(waiting, AHEAD)]
        try:
            while coming:
                result = coming.pop(0).result()
                coming += [thread.submit(task) for task in islice(waiting, 1)]
                yield result
        finally:
            thread.shutdown(wait=False, cancel_futures=True)
