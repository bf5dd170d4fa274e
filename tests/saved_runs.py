"""Access to the files of a run."""

from pathlib import Path

import numpy as np
import orbax.checkpoint as ocp


def arrays(folder: Path, step: int) -> dict[str, np.ndarray]:
    """All arrays of a checkpoint by name, except the times."""
    manager = ocp.CheckpointManager((folder / "checkpoints").resolve())
    saved = manager.restore(step, args=ocp.args.Composite(run=ocp.args.StandardRestore()))["run"]
    manager.close()
    named = {f"{part}.{name}": np.asarray(saved[part][name]) for part in ("state", "history") for name in saved[part]}
    del named["history.seconds"]
    return named
