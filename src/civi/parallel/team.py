"""A run on many devices: of this process, or of many processes that JAX's distributed runtime brings together.

Every process runs the same program on the same settings. Process 0 leads: it writes files and prints, and when training
is over the others leave and it measures alone.
"""

from __future__ import annotations

import hashlib
import json
import signal
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
from civi.parallel.mesh import make_mesh
from civi.parallel.watchdog import LastWords

HEARTBEAT, FAREWELL, LONGEST = 30, 60, 400
GONE = "civi: error: a process of this run is gone, so this one ends too: restart all processes with --resume"
ALONE_HINT = (
    "--distributed found no cluster and one device only: start it under SLURM, Open MPI or Kubernetes, give "
    "--coordinator HOST:PORT --processes N --process I, or leave --distributed out"
)


@dataclass(frozen=True)
class Address:
    """Where the processes meet, how many they are and which one this is; all None: as JAX detects it."""

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
        return f"at {self.coordinator}" if self.coordinator else "of the cluster that JAX detected"


@dataclass(frozen=True)
class Team:
    """The processes and devices of a run; by default one process on one device.

    whole_data: every device keeps all rows of data, so that a batch of them needs no communication.
    """

    mesh: Mesh | None = None
    words: LastWords | None = None
    whole_data: bool = False

    @property
    def leads(self) -> bool:
        """Whether this process writes files and prints."""
        return self.words is None or jax.process_index() == 0

    @property
    def is_many(self) -> bool:
        """Whether there are other processes."""
        return self.words is not None

    def console(self, console: Console) -> Console:
        """The leader's console; the others' prints nothing."""
        return console if self.leads else Console(quiet=True)

    def training(self) -> AbstractContextManager[Any]:
        """While training, arrays lie on the mesh."""
        return nullcontext() if self.mesh is None else jax.set_mesh(self.mesh)

    def check_same(self, *options: Any) -> None:
        """Refuse processes that were started with other options than the leader."""
        digest = hashlib.sha256(json.dumps(options, default=str).encode()).digest()
        if self.is_many and _from_leader(digest) != digest:
            raise DistributedError("this process was started with other options than process 0: give all the same ones")

    def first(self, action: Callable[[], None]) -> None:
        """The leader does this before anyone goes on; its error is everyone's."""
        if not self.is_many:
            return action()
        text = b""
        if self.leads:
            try:
                action()
            except CiviError as error:
                text = str(error).encode()[:LONGEST]
        if told := _from_leader(text.ljust(LONGEST)).rstrip():
            raise DistributedError(told.decode(errors="ignore"))
        return None

    def leave(self) -> None:
        """Training is over: all processes leave the runtime together, and each is on its own from here."""
        if self.words:
            jax.distributed.shutdown()
            self.words.all_is_well()


ALONE = Team()


def _from_leader(content: bytes) -> bytes:
    """The leader's bytes, as many as this process has."""
    return np.asarray(broadcast_one_to_all(np.frombuffer(content, np.uint8))).tobytes()


@contextmanager
def joined(address: Address, inner: int = 1, wait: int = 50, *, whole_data: bool = False) -> Iterator[Team]:
    """A team of all processes and devices. What ends one of many ends it at once and in a line; a bug keeps its trace.

    An end as usual would wait for processes that are gone.
    """
    words = LastWords.prepare()
    try:
        yield replace(_join(address, inner, wait, words), whole_data=whole_data)
    except BaseException as error:
        if words.are_said:
            raise
        words.say(*_farewell(error))


def _join(address: Address, inner: int, wait: int, words: LastWords) -> Team:
    """Meet the other processes, if there are any, and make a mesh of all devices."""
    words.will_be(
        f"civi: error: the processes did not meet {address} within {wait} s: start all of them, with the same "
        "--coordinator and --processes, and check that the address can be reached from each"
    )
    many = _meet(address, wait)
    if many:
        words.will_be(GONE)
    else:
        words.all_is_well()
    if jax.device_count() == 1:
        raise DistributedError(ALONE_HINT)
    return Team(make_mesh(inner), words if many else None)


def _meet(address: Address, wait: int) -> bool:
    """Start JAX's runtime; False where there is no cluster to be found.

    The runtime would catch SIGTERM and let it pass; here it ends the process, as it does everywhere else.
    """
    try:
        jax.distributed.initialize(
            address.coordinator,
            address.processes,
            address.process,
            initialization_timeout=wait,
            heartbeat_timeout_seconds=HEARTBEAT,
            shutdown_timeout_seconds=FAREWELL,
        )
    except (RuntimeError, ValueError) as error:
        if str(error).startswith("coordinator_address"):
            return False
        reason = " ".join(str(error).split())
        raise DistributedError(f"the distributed runtime did not start ({reason}): is the port free?") from error
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return True


def _farewell(error: BaseException) -> tuple[str, int]:
    """The line and exit code for what has ended a process of many."""
    if isinstance(error, CiviError):
        return f"civi: error: {error}", 2
    if isinstance(error, KeyboardInterrupt):
        return "civi: interrupted: restart all processes with --resume", 130
    reason = " ".join(str(error).split())
    if not isinstance(error, jax.errors.JaxRuntimeError) or "RESOURCE_EXHAUSTED" in reason:
        return traceback.format_exc().rstrip(), 1
    return f"{GONE} ({reason[:200]})", 1


def check_divides(samples: Mapping[str, int], devices: Mapping[str, int]) -> None:
    """Refuse numbers of samples that do not divide among the devices along their axis."""
    for axis, count in samples.items():
        sharing = devices[axis]
        near = max(sharing, round(count / sharing) * sharing)
        message = (
            f"samples.{axis} ({count}) must be a multiple of the {sharing} devices that share it, for example {near}"
        )
        require(count % sharing == 0, message)
