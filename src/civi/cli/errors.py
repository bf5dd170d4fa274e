"""How commands end: with one line and exit code 2 for an error of the user, 130 for an interrupt."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from civi import interrupts
from civi.errors import CiviError, SettingError

OUT_OF_MEMORY = (
    "not enough memory: make samples.inner, samples.outer, problem.batch or --draws smaller, or use a larger machine"
)


@contextmanager
def stoppable(advice: str = "nothing was written") -> Iterator[None]:
    """Exit with a line if the command is interrupted.

    Args:
        advice: what the line says until `interrupts.advise` is called with something else.
    """
    interrupts.advise(advice)
    try:
        yield
    except (KeyboardInterrupt, interrupts.Interrupted):
        typer.echo(interrupts.acknowledge(), err=True)
        raise typer.Exit(interrupts.EXIT_CODE) from None


def exit_code_of(command: Callable[[], Any]) -> int:
    """Run a command; an error that the user can correct prints one line and gives code 2."""
    try:
        ended = command()
        sys.stdout.flush()
        return ended if isinstance(ended, int) else 0
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # type: ignore[attr-defined]
            return 2
        line = error_line(error)
        if line is None:
            raise
        print(f"civi: error: {line}", file=sys.stderr)
        return 2


def error_line(error: Exception) -> str | None:
    """The message of an error that the user can correct, in one line; None for a bug, which shows its traceback."""
    if isinstance(error, CiviError):
        return _one_line(str(error))
    if hasattr(error, "format_message"):
        return _usage_line(error)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error) or "Out of memory" in str(error):
        return OUT_OF_MEMORY
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return _one_line(f"{place}{error.strerror or error}")
    return None


def _usage_line(error: Any) -> str:
    """The message of a wrong option or argument, with the command whose --help describes it."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "civi"
    message = _one_line(error.format_message()).rstrip(".")
    return f"{message[:1].lower()}{message[1:]}: see `{command} --help`"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def folder_of(out: str | None, default: str) -> Path:
    """The folder that --out names; an empty text, which Python takes for the current folder, is refused."""
    if out is not None and not out.strip():
        raise SettingError("--out must not be empty: name a folder, or leave the option out")
    return Path(default if out is None else out)
