"""The result of one solver in a file, so that an interrupted comparison keeps the solvers that have finished."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from civi.errors import CheckpointError
from civi.experiment.solver_result import Curve, SolverResult
from civi.files import atomically
from civi.inference.nuts import UNREADABLE
from civi.settings import differences


def write_result(path: Path, result: SolverResult, options: dict[str, Any]) -> None:
    """Write a result, without pickle.

    Args:
        path: the .npz file.
        result: the result.
        options: everything that determines the result, as JSON values; `read_result` compares it.
    """
    content = json.dumps({"options": options, "result": result.as_json()})

    def write(part: Path) -> None:
        with part.open("wb") as file:
            np.savez(file, content=np.array(content), draws=result.draws)

    atomically(path, write)


def read_result(path: Path, options: dict[str, Any]) -> SolverResult | None:
    """The result in a file; None if there is none or if it is damaged, and an error if it has other options."""
    try:
        with np.load(path, allow_pickle=False) as saved:
            content, draws = json.loads(str(saved["content"])), saved["draws"]
        result = dict(content["result"])
        found = SolverResult(**result | {"curve": Curve(**result["curve"]), "draws": draws})
        saved_options = content["options"]
    except UNREADABLE:
        return None
    changed = "; ".join(differences(saved_options, json.loads(json.dumps(options))))
    if changed:
        folder = path.parent.parent
        raise CheckpointError(f"{folder} was started with different settings ({changed}): resume with the same ones")
    return found
