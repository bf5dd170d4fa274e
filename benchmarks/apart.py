"""One measurement in a process of its own, so that it starts cold and its peak memory is its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

MARK = "result: "


def measured_apart(script: str, *arguments: str) -> dict[str, Any]:
    """Run a script with these arguments in a new process, and return what it passed to `report`."""
    command = [sys.executable, script, *arguments]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    line = next(line for line in reversed(output.splitlines()) if line.startswith(MARK))
    return dict(json.loads(line.removeprefix(MARK)))


def report(result: dict[str, Any]) -> None:
    """Hand the result to the process that called `measured_apart`."""
    print(MARK + json.dumps(result), flush=True)
