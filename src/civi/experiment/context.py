"""The context of a run: folder, console, checkpoints, processes and devices."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from civi.errors import require
from civi.parallel.team import SINGLE_PROCESS, Team


@dataclass(frozen=True)
class RunContext:
    """Everything about a run except what is fitted.

    Attributes:
        folder: where the results are written.
        console: where progress and results are shown.
        force: whether to replace an existing run in the folder.
        resume: whether to resume from the last checkpoint in the folder.
        checkpoint_every: steps between checkpoints; None: the default of `civi.experiment.checkpoint`.
        team: the processes and devices.
        report: whether to write a report at the end.
    """

    folder: Path
    console: Console
    force: bool = False
    resume: bool = False
    checkpoint_every: int | None = None
    team: Team = SINGLE_PROCESS
    report: bool = False

    def __post_init__(self) -> None:
        every = self.checkpoint_every
        require(every is None or every >= 1, f"--checkpoint-every must be at least 1, not {every}")

    def warn(self, line: str) -> None:
        """Show a warning in one line."""
        self.console.print(f"civi: warning: {line}", style="yellow", soft_wrap=True, highlight=False)
