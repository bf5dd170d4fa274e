"""Runs on several devices, of this process or of several processes connected by JAX's distributed runtime.

All processes run the same program with the same settings. Process 0 is the leader: it alone writes files and prints.
After training the other processes exit, and the leader evaluates the result alone.
"""

from __future__ import annotations

import hashlib
import json
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.experimental.multihost_utils import broadcast_one_to_all
from jax.sharding import Mesh
from rich.console import Console

from civi.errors import CiviError, DistributedError, require
from civi.interrupts import EXIT_CODE, Interrupted, acknowledge
from civi.parallel.mesh import make_mesh
from civi.parallel.watchdog import Watchdog

HEARTBEAT_TIMEOUT = 30
SHUTDOWN_TIMEOUT = 60
CONNECT_MARGIN = 60
MAX_ERROR_BYTES = 400
LONGEST_WAIT = 86_400
PROCESS_LOST = "civi: error: a process of this run has failed: restart all processes with --resume"
NOTHING_TO_DISTRIBUTE = (
    "--distributed found no cluster and only one device: start it under SLURM, Open MPI or Kubernetes, give "
    "--coordinator HOST:PORT --processes N --process I, or leave --distributed out"
)


@dataclass(frozen=True)
class Address:
    """How a process joins the others; if all fields are None, JAX detects the cluster.

    Attributes:
        coordinator: HOST:PORT of process 0.
        processes: number of processes.
        process: index of this process, from 0.
    """

    coordinator: str | None = None
    processes: int | None = None
    process: int | None = None

    def __post_init__(self) -> None:
        given = {"--coordinator": self.coordinator, "--processes": self.processes, "--process": self.process}
        missing = [name for name, value in given.items() if value is None]
        if len(missing) == len(given):
            return
        require(not missing, f"--coordinator, --processes and --process go together: give {' and '.join(missing)} too")
        host, _, port = str(self.coordinator).rpartition(":")
        good = bool(host) and port.isdecimal() and 0 < int(port) < 65536
        require(good, f"--coordinator must be HOST:PORT with a port from 1 to 65535, not '{self.coordinator}'")
        count, index = int(self.processes or 0), int(self.process or 0)
        require(count >= 1, f"--processes must be at least 1, not {count}")
        require(0 <= index < count, f"--process must be 0 to {count - 1}, as there are {count} processes, not {index}")

    def __str__(self) -> str:
        return f"at {self.coordinator}" if self.coordinator else "to the cluster that JAX detected"


@dataclass(frozen=True)
class Team:
    """The processes and devices of a run; by default one process on one device.

    Attributes:
        mesh: the device mesh; None on a single device.
        watchdog: the watchdog of this process; None if there are no other processes.
        whole_data: whether every device keeps all rows of data, so that drawing a batch needs no communication.
    """

    mesh: Mesh | None = None
    watchdog: Watchdog | None = None
    whole_data: bool = False

    @property
    def is_leader(self) -> bool:
        """Whether this process writes the files and prints."""
        return self.watchdog is None or jax.process_index() == 0

    @property
    def has_others(self) -> bool:
        """Whether there are other processes."""
        return self.watchdog is not None

    def console(self, console: Console) -> Console:
        """This console on the leader; on other processes, a console that prints nothing."""
        return console if self.is_leader else Console(quiet=True)

    def training(self) -> AbstractContextManager[Any]:
        """Context manager for training: sets the mesh, if there is one."""
        return nullcontext() if self.mesh is None else jax.set_mesh(self.mesh)

    def check_same(self, *options: Any) -> None:
        """Raise an error if this process was started with options that differ from the leader's."""
        digest = hashlib.sha256(json.dumps(options, default=str).encode()).digest()
        if self.has_others and _from_leader(digest) != digest:
            raise DistributedError("this process and process 0 have different options: start all with the same")

    def run_on_leader(self, action: Callable[[], None]) -> None:
        """Run this on the leader while the others wait; if it fails, all processes raise the leader's error."""
        if not self.has_others:
            return action()
        text = b""
        if self.is_leader:
            try:
                action()
            except CiviError as error:
                text = str(error).encode()[:MAX_ERROR_BYTES]
        if received := _from_leader(text.ljust(MAX_ERROR_BYTES)).rstrip():
            raise DistributedError(received.decode(errors="ignore"))
        return None

    def leave(self) -> None:
        """Leave the distributed runtime after training, together with all other processes."""
        if self.watchdog:
            jax.distributed.shutdown()
            self.watchdog.stop()


SINGLE_PROCESS = Team()


def _from_leader(content: bytes) -> bytes:
    """The leader's bytes, broadcast to all processes; all must pass the same number of bytes."""
    return np.asarray(broadcast_one_to_all(np.frombuffer(content, np.uint8))).tobytes()


@contextmanager
def join_team(address: Address, inner: int = 1, wait: int = 50, *, whole_data: bool = False) -> Iterator[Team]:
    """A team of all processes and devices.

    If there are other processes, an error exits immediately with one line (a bug: with its traceback), because a normal
    exit would wait for processes that no longer exist.

    Args:
        address: how to find the other processes.
        inner: number of devices along the inner axis of the mesh.
        wait: seconds to wait for the other processes.
        whole_data: whether every device keeps all rows of data.
    """
    require(1 <= wait <= LONGEST_WAIT, f"--wait must be from 1 to {LONGEST_WAIT} seconds, not {wait}")
    watchdog = Watchdog.start()
    try:
        yield replace(_join(address, inner, wait, watchdog), whole_data=whole_data)
    except BaseException as error:
        if watchdog.stopped:
            raise
        watchdog.exit_with(*_exit_line(error))


def _join(address: Address, inner: int, wait: int, watchdog: Watchdog) -> Team:
    """Connect to the other processes, if there are any, and make a mesh of all devices."""
    unconnected = (
        f"civi: error: the processes did not connect {address} within {wait} s: start all of them with the same "
        "--coordinator and --processes, and check that each can reach the address"
    )
    watchdog.set_message(unconnected)
    with _time_limit(wait, lambda: watchdog.exit_with(unconnected, 2)):
        has_others = _connect(address, wait + CONNECT_MARGIN)
    if has_others:
        watchdog.set_message(PROCESS_LOST)
        _connect_devices()
    else:
        watchdog.stop()
    if jax.device_count() == 1:
        raise DistributedError(NOTHING_TO_DISTRIBUTE)
    return Team(make_mesh(inner), watchdog if has_others else None)


def _connect_devices() -> None:
    """Exchange one byte, which connects the devices of all processes.

    Gloo waits only 30 s for this, and later one process may read its share of the data for much longer than another.
    """
    _from_leader(b"\0")


@contextmanager
def _time_limit(seconds: float, action: Callable[[], None]) -> Iterator[None]:
    """Call `action` in another thread if the block takes longer than this. JAX's own time limits abort the process."""
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _connect(address: Address, wait: int) -> bool:
    """Start JAX's distributed runtime; False if no cluster was found.

    The runtime installs a SIGTERM handler that ignores the signal. The one before is restored, so SIGTERM ends the run.
    """
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        jax.distributed.initialize(
            address.coordinator,
            address.processes,
            address.process,
            initialization_timeout=wait,
            heartbeat_timeout_seconds=HEARTBEAT_TIMEOUT,
            shutdown_timeout_seconds=SHUTDOWN_TIMEOUT,
        )
    except (RuntimeError, ValueError) as error:
        if str(error).startswith("coordinator_address"):
            return False
        reason = " ".join(str(error).split())
        raise DistributedError(f"the distributed runtime did not start ({reason}): is the port free?") from error
    signal.signal(signal.SIGTERM, on_sigterm or signal.SIG_DFL)
    return True


def _exit_line(error: BaseException) -> tuple[str, int]:
    """The message and exit code of a process that ends with this error."""
    if isinstance(error, CiviError):
        return f"civi: error: {error}", 2
    if isinstance(error, KeyboardInterrupt | Interrupted):
        acknowledge()
        return "civi: interrupted; to resume, restart all processes with --resume", EXIT_CODE
    reason = " ".join(str(error).split())
    lost = isinstance(error, jax.errors.JaxRuntimeError) or (isinstance(error, ValueError) and "Gloo" in reason)
    if not lost or "RESOURCE_EXHAUSTED" in reason:
        return traceback.format_exc().rstrip(), 1
    return f"{PROCESS_LOST} ({reason[:200]})", 1


def check_divides(samples: Mapping[str, int], devices: Mapping[str, int]) -> None:
    """Raise an error if a number of samples is not a multiple of the devices along its axis.

    Args:
        samples: number of samples by mesh axis.
        devices: number of devices by mesh axis.
    """
    for axis, count in samples.items():
        sharing = devices[axis]
        near = max(sharing, round(count / sharing) * sharing)
        message = (
            f"samples.{axis} ({count}) must be a multiple of the {sharing} devices that share it, for example {near}"
        )
        require(count % sharing == 0, message)
