"""The table of all settings of a run, printed by `civi run TASK --help-settings`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from civi.errors import unknown
from civi.experiment.recipes import settings_for
from civi.experiment.tasks import OWN_DATA, TASKS
from civi.progress import console
from civi.settings import Setting

WIDE = 1000  # characters; no setting needs a longer line


def show_settings(task: str, solver: str, recipe: str, steps: int | None, assignments: Sequence[str]) -> None:
    """Print the settings of a solver on a task; nothing is run, and the user's data are not needed.

    If the output goes to a file or a pipe, each setting is on one line.

    Args:
        task: name of the task.
        solver: name of the solver, or nuts.
        recipe: name of the recipe that the values come from.
        steps: number of training steps; None: the recipe's.
        assignments: overrides of settings as name=value; the table shows the resulting values.
    """
    if task not in TASKS and task not in OWN_DATA:
        raise unknown("task", task, [*TASKS, *OWN_DATA])
    settings = settings_for(task, solver, recipe).changed(steps, assignments)
    table = settings_table(settings.listing(), f"{task} with {solver}, recipe {recipe}: change with --set NAME=VALUE")
    screen = console()
    if not screen.is_terminal:
        screen.width = WIDE
    screen.print(table, highlight=False)


def settings_table(rows: Sequence[Setting], title: str) -> Table:
    """A table with one row per setting; in a narrow terminal, type and meaning are wrapped."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("setting", no_wrap=True)
    table.add_column("type")
    table.add_column("value", overflow="fold")
    table.add_column("meaning")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
