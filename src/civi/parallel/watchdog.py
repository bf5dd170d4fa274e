"""What a process of many says when it ends.

JAX's runtime ends a process at once (abort, with a C++ stack trace) when another one is gone or was never met, and
Python is not asked. So a shell waits beside the process and says what happened, and what C++ libraries print goes to a
file of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import NoReturn, TextIO, cast

LISTEN = 'said=; while IFS= read -r line; do said=$line; done; [ -z "$said" ] || echo "$said" >&2'


@dataclass(frozen=True)
class LastWords:
    """A shell that prints the last line it was told when this process is no more; an empty line: nothing."""

    shell: subprocess.Popen[str]
    log: str
    streams: tuple[TextIO, TextIO]

    @classmethod
    def prepare(cls) -> LastWords:
        """Start the shell, and leave file descriptors 1 and 2 to C++: Python's streams get copies of them."""
        descriptor, log = tempfile.mkstemp(prefix="civi-", suffix=".log")
        out, error = os.dup(1), os.dup(2)
        shell = subprocess.Popen(["/bin/sh", "-c", LISTEN], stdin=subprocess.PIPE, stderr=error, text=True)
        streams = sys.stdout, sys.stderr
        _flush()
        sys.stdout, sys.stderr = (os.fdopen(copy, "w", buffering=1, encoding="utf-8") for copy in (out, error))
        for place in (1, 2):
            os.dup2(descriptor, place)
        os.close(descriptor)
        return cls(shell, log, streams)

    @property
    def are_said(self) -> bool:
        """Whether the shell has been sent home."""
        return cast(TextIO, self.shell.stdin).closed

    def will_be(self, line: str) -> None:
        """What the shell is to print if this process ends without a word."""
        pipe = cast(TextIO, self.shell.stdin)
        pipe.write(f"{line} (JAX's own words are in {self.log})\n")
        pipe.flush()

    def all_is_well(self) -> None:
        """Nothing is left to be said: the shell goes home, and every stream is what it was."""
        self.shell.communicate("\n")
        _flush()
        for place, stream in ((1, sys.stdout), (2, sys.stderr)):
            os.dup2(stream.fileno(), place)
        sys.stdout, sys.stderr = self.streams
        os.unlink(self.log)

    def say(self, line: str, code: int) -> NoReturn:
        """Print this line and end at once: a clean end would wait for processes that are gone."""
        print(line, file=sys.stderr, flush=True)
        self.all_is_well()
        os._exit(code)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
