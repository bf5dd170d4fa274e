"""Interrupts by Ctrl-C, SIGTERM and SIGHUP: one line, exit code 130, and no file left half-written.

The handlers of `handled` raise `Interrupted` in the main thread, which unwinds as any other error does. Three cases
need more than that:

- An exception can be lost if it is raised inside a callback of the garbage collector (JAX has one). Therefore a thread
  repeats the interrupt until the program leaves.
- A compiled program cannot be interrupted. If the main thread has not reacted for GRACE seconds, the thread ends the
  process; nothing is being written at such a time.
- JAX leaves its compilation threads running, which crash when Python's interpreter is taken down. Therefore an
  interrupted program ends with `leave`, without the interpreter's own shutdown.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

EXIT_CODE = 130
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
REPEAT, GRACE = 1.0, 10.0


class Interrupted(BaseException):
    """The process was told to stop. Not a KeyboardInterrupt, which libraries for command lines handle themselves."""


@dataclass
class _State:
    """What is known about interrupts in this process; `reacted` is the time at which a handler last ran."""

    received: bool = False
    leaving: bool = False
    writing: int = 0
    reacted: float = 0.0
    line: str = "civi: interrupted"
    left: threading.Event = field(default_factory=threading.Event)
    last: list[Callable[[], None]] = field(default_factory=list)


_state = _State()


@contextmanager
def handled() -> Iterator[None]:
    """Raise `Interrupted` on SIGINT, SIGTERM and SIGHUP; signals that this process inherited as ignored stay ignored.

    For the main thread of a program. Nothing is raised before `begin`, which the program calls where it handles an
    `Interrupted`; `leave` must follow.
    """
    outside = _state.writing
    _state.writing += 1
    before: dict[int, Any] = {}
    for number in _numbers():
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, _on_signal)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_repeat, args=(reader,), daemon=True).start()
    try:
        yield
    finally:
        _state.writing += 1
        signal.set_wakeup_fd(wakeup)
        _state.left.set()
        os.close(writer)
        for number, handler in before.items():
            signal.signal(number, handler)
        _state.writing = outside


def begin() -> None:
    """Raise `Interrupted` from now on, and at once if a signal came before."""
    _state.writing -= 1
    check()


def _numbers() -> list[int]:
    """The signals of SIGNALS that this platform has."""
    return [int(getattr(signal, name)) for name in SIGNALS if hasattr(signal, name)]


def _on_signal(number: int, frame: Any) -> None:
    _state.received, _state.reacted = True, time.monotonic()
    if not (_state.leaving or _state.writing):
        raise Interrupted


def _repeat(reader: int) -> None:
    """Wait for the first signal, then repeat it until the main thread leaves; end the process if it does not react."""
    number = 0
    while number not in _numbers():
        read = os.read(reader, 1)
        if not read:
            return
        number = read[0]
    _state.reacted = max(_state.reacted, time.monotonic())
    while not _state.left.wait(REPEAT):
        if time.monotonic() - _state.reacted > GRACE and not _state.writing:
            leave(_state.line)
        if not _state.leaving:
            _thread.interrupt_main(signal.Signals(number))


@contextmanager
def postponed() -> Iterator[None]:
    """Postpone interrupts to the end of the block, which writes a file or a checkpoint."""
    _state.writing += 1
    try:
        yield
    finally:
        _state.writing -= 1
    check()


def check() -> None:
    """Raise `Interrupted` if a signal was received; for loops, in case that the first exception was lost."""
    if _state.received and not (_state.leaving or _state.writing):
        raise Interrupted


def advise(advice: str) -> None:
    """Set what an interrupted program prints after "civi: interrupted; ", for example how to resume it."""
    _state.line = f"civi: interrupted; {advice}"


def at_leave(action: Callable[[], None]) -> None:
    """Call this when an interrupted program leaves, before its line is printed."""
    _state.last.append(action)


def acknowledge() -> str:
    """Ignore all further signals, because the program is about to leave; returns the line to print."""
    _state.leaving = True
    return _state.line


def was_interrupted() -> bool:
    """Whether the program is leaving because of a signal."""
    return _state.received and _state.leaving


def leave(line: str = "", code: int = EXIT_CODE) -> NoReturn:
    """Print a line, unless it is empty, and end the process without the interpreter's shutdown."""
    acknowledge()
    try:
        for action in _state.last:
            action()
        if line:
            print(line, file=sys.stderr)
        sys.stderr.flush()
        sys.stdout.flush()
    except (OSError, ValueError):
        code = code or 1
    os._exit(code)
