"""Tasks by name. This module is cheap to import: the module of a task is loaded when the task is used."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from civi.errors import SettingError, unknown

if TYPE_CHECKING:
    from civi.experiment.tasks.base import Task


class Entry(NamedTuple):
    """A task in the registry: its one-line summary, and the module and function that make it from its name."""

    summary: str
    module: str
    function: str

    def make(self, name: str) -> Task:
        """Make the task."""
        return getattr(importlib.import_module(f"civi.experiment.tasks.{self.module}"), self.function)(name)


def _toy(summary: str) -> Entry:
    return Entry(summary, "toy", "toy")


def _regression(summary: str) -> Entry:
    return Entry(summary, "regression", "published")


def _images(summary: str) -> Entry:
    return Entry(summary, "images", "images")


def _network(summary: str) -> Entry:
    return Entry(summary, "network", "network")


TASKS: dict[str, Entry] = {
    "two-modal": _toy("0.5 N((-2, 0), I) + 0.5 N((2, 0), I)"),
    "star": _toy("0.5 N(0, [[2, 1.8], [1.8, 2]]) + 0.5 N(0, [[2, -1.8], [-1.8, 2]])"),
    "banana": _toy("(a, b - a^2 - 1) with (a, b) ~ N(0, [[1, 0.9], [0.9, 1]])"),
    "eight-gaussians": _toy("a ring of eight separated modes: N(m, 0.25 I) with the m on a circle of radius 4"),
    "student": _toy("heavy tails: A t, where t has independent Student t entries with 2 degrees of freedom"),
    "spam": _regression("logistic regression, z in R^3: 2,000 e-mails of UCI spambase, two word frequencies"),
    "nodal": _regression("logistic regression, z in R^6: nodal involvement of 53 patients"),
    "nodal-25": _regression("as nodal, with the published split: 25 patients to train, 28 to test"),
    "waveform": _regression("logistic regression, z in R^22: 400 waves of 21 measurements"),
    "diffusion": Entry("diffusion in a double well, path z in R^100 given 20 observations", "diffusion", "diffusion"),
    "bnn-boston": _network("Bayesian neural network, first layer, z in R^701: 506 suburbs of Boston"),
    "bnn-concrete": _network("Bayesian neural network, first layer, z in R^451: strength of 1,030 concretes"),
    "bnn-power": _network("Bayesian neural network, first layer, z in R^251: 9,568 hours of a power plant"),
    "bnn-wine": _network("Bayesian neural network, first layer, z in R^601: quality of 1,599 red wines"),
    "bnn-yacht": _network("Bayesian neural network, first layer, z in R^351: resistance of 308 yachts"),
    "bnn-protein": _network("Bayesian neural network, first layer, z in R^501: structure of 45,730 proteins"),
    "bnn-ksivi-boston": _network("as bnn-boston, with all weights in z, R^752, as KSIVI trains it"),
    "bnn-ksivi-concrete": _network("as bnn-concrete, with all weights in z, R^502, as KSIVI trains it"),
    "bnn-ksivi-power": _network("as bnn-power, with all weights in z, R^302, as KSIVI trains it"),
    "bnn-ksivi-wine": _network("as bnn-wine, with all weights in z, R^652, as KSIVI trains it"),
    "bnn-ksivi-yacht": _network("as bnn-yacht, with all weights in z, R^402, as KSIVI trains it"),
    "bnn-ksivi-protein": _network("as bnn-protein, with all weights in z, R^552, as KSIVI trains it"),
    "bnn-pvi-concrete": _network("Bayesian neural network as PVI trains it: 10 hidden units, z in R^101: concrete"),
    "bnn-pvi-yacht": _network("as bnn-pvi-concrete, z in R^81: resistance of yachts"),
    "bnn-pvi-protein": _network("as bnn-pvi-concrete, z in R^111: structure of proteins"),
    "mnist": _images("autoencoder, z in R^10: 50,000 handwritten digits, static binarisation"),
    "mnist-dynamic": _images("as mnist, with 60,000 digits binarised anew in every batch"),
    "fashion-mnist": _images("autoencoder, z in R^10: 60,000 pieces of clothing"),
    "ptb": Entry("autoencoder of text, z in R^20: 42,068 sentences of the Penn Treebank", "sentences", "sentences"),
}
OWN_DATA = {"regression": "logistic regression on your own table, of any size: --data FILE --target COLUMN"}


def find_task(
    name: str,
    *,
    data: Path | None = None,
    target: str | None = None,
    hold_out: float = 0.0,
    stream: bool | None = None,
) -> Task:
    """Find a task by name.

    Args:
        name: one of TASKS, or one of OWN_DATA, which need the user's data.
        data: the user's CSV, Parquet or Arrow file, or a folder of such files.
        target: the column of the file to predict.
        hold_out: fraction of the rows to keep for testing.
        stream: whether the rows are read from disk while training; None: if they are too many.
    """
    if name in OWN_DATA:
        regression = importlib.import_module("civi.experiment.tasks.regression")
        return regression.own_table(data, target, hold_out, stream)
    if name not in TASKS:
        raise unknown("task", name, [*TASKS, *OWN_DATA])
    if data is not None or target is not None or hold_out or stream is not None:
        options = "--data, --target, --hold-out, --stream and --in-memory"
        raise SettingError(f"task '{name}' has its own data: {options} are for 'regression'")
    return TASKS[name].make(name)
