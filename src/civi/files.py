"""Files that are never half written: each is written next to its place and then moved there."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from civi.errors import OutputError


def write_json(path: Path, content: dict[str, Any]) -> None:
    """JSON with null in place of a number that is not finite."""
    atomically(path, lambda part: part.write_text(json.dumps(_finite(content), indent=2, allow_nan=False) + "\n"))


def write_text(path: Path, content: str) -> None:
    """Plain text."""
    atomically(path, lambda part: part.write_text(content))


def atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` make the file beside its place, then move it there."""
    part = path.with_name(f".{path.name}.part")
    try:
        write(part)
        part.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
