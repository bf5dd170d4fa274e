"""The recipe `fit`: the settings of `civi.fit` for a task, as a single run without restarts."""

from __future__ import annotations

from civi.errors import SettingError
from civi.experiment.recipes.default import AUTOENCODERS
from civi.experiment.tasks import OWN_DATA, find_task
from civi.inference.recipe import fit_settings
from civi.inference.settings import Settings


def fit(task: str, solver: str) -> Settings:
    """The settings that `civi.fit` would choose for the task's target."""
    if task in AUTOENCODERS:
        raise SettingError(f"civi.fit has no settings for autoencoders such as '{task}': use --recipe default")
    if task in OWN_DATA:
        raise SettingError(f"--recipe fit is for the named tasks, not for '{task}': use --recipe default")
    return fit_settings(solver, find_task(task).source().dim)
