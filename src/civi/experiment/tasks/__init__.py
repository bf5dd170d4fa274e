"""Tasks by name: a target, what is measured on it, and its figures. Cheap to import; JAX is loaded when one is used."""

from __future__ import annotations

from pathlib import Path

from civi.errors import SettingError, unknown
from civi.experiment.tasks.base import Task
from civi.experiment.tasks.images import images
from civi.experiment.tasks.regression import own_table, published
from civi.experiment.tasks.sentences import sentences
from civi.experiment.tasks.toy import toy

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        toy("two-modal", "0.5 N((-2, 0), I) + 0.5 N((2, 0), I)"),
        toy("star", "0.5 N(0, [[2, 1.8], [1.8, 2]]) + 0.5 N(0, [[2, -1.8], [-1.8, 2]])"),
        toy("banana", "(a, b - a^2 - 1) with (a, b) ~ N(0, [[1, 0.9], [0.9, 1]])"),
        published("spam", "logistic regression, z in R^3: 2,000 mails of UCI spambase, two word frequencies"),
        published("nodal", "logistic regression, z in R^6: nodal involvement of 53 patients"),
        published("nodal-25", "as nodal, with the published split: 25 patients to train, 28 to test"),
        published("waveform", "logistic regression, z in R^22: 400 waves of 21 measurements"),
        images("mnist", "autoencoder, z in R^10: 50,000 handwritten digits, static binarisation", "static_mnist"),
        images("mnist-dynamic", "as mnist, 60,000 digits binarised afresh in every batch", "grey_mnist"),
        images("fashion-mnist", "autoencoder, z in R^10: 60,000 pieces of clothing", "fashion_mnist"),
        sentences("ptb", "autoencoder of text, z in R^20: 42,068 sentences of the Penn Treebank", "penn_treebank"),
    )
}
OWN_DATA = {"regression": "logistic regression on your own table: --data FILE.csv --target COLUMN"}


def find_task(name: str, *, data: Path | None = None, target: str | None = None, hold_out: float = 0.0) -> Task:
    """The task of this name (on the user's own data, if it is one of these), or an error with the nearest one."""
    if name in OWN_DATA:
        return own_table(data, target, hold_out)
    if name not in TASKS:
        raise unknown("task", name, [*TASKS, *OWN_DATA])
    if data is not None or target is not None or hold_out:
        raise SettingError(f"task '{name}' brings its own data: --data, --target and --hold-out are for 'regression'")
    return TASKS[name]
