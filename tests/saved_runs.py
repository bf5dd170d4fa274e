"""What a run has left on disk."""

from pathlib import Path

import numpy as np
import orbax.checkpoint as ocp


def arrays(folder: Path, step: int) -> dict[str, np.ndarray]:
    """Everything in a checkpoint, by name, except the seconds."""
    manager = ocp.CheckpointManager((folder / "checkpoints").resolve())
    saved = manager.restore(step, args=ocp.args.Composite(run=ocp.args.StandardRestore()))["run"]
    manager.close()
    named = {f"{part}.{name}": np.asarray(saved[part][name]) for part in ("state", "history") for name in saved[part]}
    del named["history.seconds"]
    return named
