"""Where and how a run happens, apart from what is run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from civi.errors import require
from civi.parallel.team import SINGLE_PROCESS, Team


@dataclass(frozen=True)
class RunContext:
    """The folder and console of a run, its processes and devices, and its checkpoints.

    force replaces a run that is in the folder, resume goes on from its last checkpoint. checkpoint_every is the number
    of steps between checkpoints (None: by the default of `civi.experiment.checkpoint`).
    """

    folder: Path
    console: Console
    force: bool = False
    resume: bool = False
    checkpoint_every: int | None = None
    team: Team = SINGLE_PROCESS

    def __post_init__(self) -> None:
        every = self.checkpoint_every
        require(every is None or every >= 1, f"--checkpoint-every must be at least 1, not {every}")
