"""Atomic writing of files: each is written to a temporary file in the same folder and then renamed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from civi.errors import OutputError, require
from civi.interrupts import postponed


def as_path(path: Any) -> Path:
    """The path that a user gave as a text or a Path; raises SettingError if it is something else, or empty."""
    require(isinstance(path, str | Path), f"a path must be a text or a Path, not of type {type(path).__name__}")
    require(path != "", "the path is empty: name a file or a folder")
    return Path(path)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON; numbers that are not finite become null."""
    atomically(path, lambda part: part.write_text(json.dumps(_finite(content), indent=2, allow_nan=False) + "\n"))


def write_text(path: Path, content: str) -> None:
    """Write plain text."""
    atomically(path, lambda part: part.write_text(content))


def make_folder(path: Path) -> Path:
    """Create a folder, unless it exists."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write to {path}: {error.strerror or error}") from error
    return path


def atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file atomically; an interrupt waits until it is written.

    Args:
        path: the file.
        write: writes the content to the temporary path that it is given.
    """
    part = path.with_name(f".{path.name}.part")
    with postponed():
        try:
            write(part)
            part.replace(path)
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
        finally:
            _remove(part)


def _remove(part: Path) -> None:
    """Delete the temporary file if it is still there; a folder that cannot be changed has none."""
    with suppress(OSError):
        part.unlink(missing_ok=True)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
