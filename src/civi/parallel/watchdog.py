"""A watchdog that prints one readable line if JAX's runtime aborts a process of a distributed run.

When another process fails or never connects, JAX's runtime aborts this one immediately, with a C++ stack trace and
without running any Python code. So a small shell process waits beside this one and prints the error message, and the
output of C++ libraries is redirected to a log file. `abort` ends this process with an exit code instead of a signal, so
that no shell reports a crash and no core is dumped.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TextIO, cast

from civi.interrupts import at_leave

PRINT_LAST_LINE = (
    'trap "" INT HUP TERM; said=; while IFS= read -r line; do said=$line; done; [ -z "$said" ] || echo "$said" >&2'
)


@dataclass(frozen=True)
class Watchdog:
    """A shell that prints the last line it has received when this process ends; it prints nothing for an empty line.

    Attributes:
        shell: the waiting shell process.
        log: path of the file that receives the output of C++ libraries.
        streams: Python's own stdout and stderr, restored by `stop`.
        on_abort: the handler of SIGABRT before this one, restored by `stop`; None is the default.
    """

    shell: subprocess.Popen[str]
    log: str
    streams: tuple[TextIO, TextIO]
    on_abort: int | None

    @classmethod
    def start(cls) -> Watchdog:
        """Start the shell and redirect file descriptors 1 and 2 to the log; Python's streams use copies of them."""
        descriptor, log = tempfile.mkstemp(prefix="civi-", suffix=".log")
        out, error = os.dup(1), os.dup(2)
        shell = subprocess.Popen(["/bin/sh", "-c", PRINT_LAST_LINE], stdin=subprocess.PIPE, stderr=error, text=True)
        streams = sys.stdout, sys.stderr
        _flush()
        sys.stdout, sys.stderr = (os.fdopen(copy, "w", buffering=1, encoding="utf-8") for copy in (out, error))
        for number in (1, 2):
            os.dup2(descriptor, number)
        os.close(descriptor)
        exit_in_c = ctypes.cast(ctypes.CDLL(None)._exit, ctypes.c_void_p).value
        watchdog = cls(shell, log, streams, _handle_abort(exit_in_c))
        at_leave(watchdog.stop)
        return watchdog

    @property
    def stopped(self) -> bool:
        """Whether the watchdog has been stopped."""
        return cast(TextIO, self.shell.stdin).closed

    def set_message(self, line: str) -> None:
        """Set the line that is printed if this process is aborted from now on."""
        pipe = cast(TextIO, self.shell.stdin)
        pipe.write(f"{line} (JAX's own messages are in {self.log})\n")
        pipe.flush()

    def stop(self) -> None:
        """End the shell without a message, restore all streams and delete the log, unless that has been done."""
        if self.stopped:
            return
        self._finish("")
        for number, stream in ((1, sys.stdout), (2, sys.stderr)):
            os.dup2(stream.fileno(), number)
        sys.stdout, sys.stderr = self.streams
        _handle_abort(self.on_abort)

    def exit_with(self, text: str, code: int) -> NoReturn:
        """Print this text and exit immediately: a normal exit would wait for processes that no longer exist.

        The shell prints the last line, so there is one message even if JAX aborts this process at the same moment.
        """
        *before, last = text.splitlines()
        if self.shell.poll() is not None:
            before, last = [*before, last], ""
        for line in before:
            print(line, file=sys.stderr)
        self._finish(last)
        os._exit(code)

    def _finish(self, last: str) -> None:
        _flush()
        self.shell.communicate(f"{last}\n")
        Path(self.log).unlink(missing_ok=True)


def _handle_abort(handler: int | None) -> int | None:
    """Let C call this function on SIGABRT, and return the address of the one before.

    The function is C's own `_exit`, whose argument is the signal, so the exit code is 6. A function in Python could
    wait for the interpreter for ever, because JAX aborts in a thread of its own.
    """
    function = ctypes.CDLL(None).signal
    function.argtypes, function.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    return cast("int | None", function(signal.SIGABRT, handler))


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
