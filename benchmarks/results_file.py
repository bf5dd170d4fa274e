"""Results of long measurements, one JSON object per line, so that a command can be repeated to continue."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from civi.files import make_folder


def read_results(file: Path, names: Sequence[str]) -> dict[tuple[str, ...], dict[str, Any]]:
    """The results in the file; a later line replaces an earlier one with the same key.

    Args:
        file: the file; it may be missing.
        names: the fields that make up the key.
    """
    lines = file.read_text().splitlines() if file.exists() else []
    results = [json.loads(line) for line in lines]
    return {tuple(result[name] for name in names): result for result in results}


def add_result(file: Path, result: dict[str, Any]) -> None:
    """Append a result as one line, so that two processes can write to the same file."""
    make_folder(file.parent)
    with file.open("a") as lines:
        lines.write(json.dumps(result) + "\n")
