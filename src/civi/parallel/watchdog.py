"""A watchdog that prints one readable line if JAX's runtime aborts a process of a distributed run.

When another process fails or never connects, JAX's runtime aborts this one immediately, with a C++ stack trace and
without running any Python code. So a small shell process waits beside this one and prints the error message, and the
output of C++ libraries is redirected to a log file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import NoReturn, TextIO, cast

PRINT_LAST_LINE = 'said=; while IFS= read -r line; do said=$line; done; [ -z "$said" ] || echo "$said" >&2'


@dataclass(frozen=True)
class Watchdog:
    """A shell that prints the last line it has received when this process ends; it prints nothing for an empty line.

    Attributes:
        shell: the waiting shell process.
        log: path of the file that receives the output of C++ libraries.
        streams: Python's own stdout and stderr, restored by `stop`.
    """

    shell: subprocess.Popen[str]
    log: str
    streams: tuple[TextIO, TextIO]

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
        return cls(shell, log, streams)

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
        """End the shell without a message, restore all streams and delete the log."""
        self.shell.communicate("\n")
        _flush()
        for number, stream in ((1, sys.stdout), (2, sys.stderr)):
            os.dup2(stream.fileno(), number)
        sys.stdout, sys.stderr = self.streams
        os.unlink(self.log)

    def exit_with(self, line: str, code: int) -> NoReturn:
        """Print this line and exit immediately: a normal exit would wait for processes that no longer exist."""
        print(line, file=sys.stderr, flush=True)
        self.stop()
        os._exit(code)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
