"""Regression with Bayesian neural networks on the UCI tables, evaluated by predictions of test rows.

bnn-TABLE: the model of KSIVI: 50 hidden units, the 90/10 split of random_state 42, and the precision of the weights
    that its authors publish for each table. The output layer is integrated out in closed form (`MarginalNetwork`), so
    that every solver approximates the posterior of the first layer and of the noise alone, on all rows.
bnn-ksivi-TABLE: the same model with all weights in z, and mini-batches, as its authors train it.
bnn-pvi-TABLE: the protocol of PVI. 10 hidden units, an 80/20 split, noise of standard deviation 0.01 and weights of
    standard deviation 5, both fixed. PVI reports the RMSE of standardised targets (`rmse_standardised`).

The authors of KSIVI fix the precision of the noise, at a value for targets in their own units, but train with it on
standardised targets; here it is part of z, with a Gamma(1, 0.1) prior. They keep 10 % of the training rows to choose
the precisions; here all training rows are used. Networks are trained on standardised targets; predictions and their
standard deviations are rescaled to the units of y before they are scored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from civi.experiment.data.uci import SplitTable, uci_table
from civi.experiment.report import DrawsBySolver
from civi.experiment.report.network_figure import draw_predictions
from civi.experiment.tasks.posterior import LogDensityOfQ, PosteriorTask
from civi.inference.diagnose import Bounds
from civi.inference.diagnose.regression import regression_scores
from civi.inference.posterior import Posterior
from civi.inference.report.content import fingerprints
from civi.problem.target import BayesianNetwork, MarginalNetwork

Network = BayesianNetwork | MarginalNetwork


class Protocol(NamedTuple):
    """How a comparison sets up its networks.

    Attributes:
        hidden: number of hidden units.
        test: fraction of test rows.
        weight_sd: standard deviation of the prior of the weights.
        noise_sd: standard deviation of the noise; None: it is part of z.
        marginal: whether the output layer is integrated out.
    """

    hidden: int
    test: float
    weight_sd: float
    noise_sd: float | None = None
    marginal: bool = False


PVI = Protocol(10, 0.2, 5.0, 0.01)
LOG_WEIGHT_PRECISIONS = {
    "boston": -1.003870,
    "concrete": -0.814072,
    "power": -0.901769,
    "wine": -0.857776,
    "yacht": -0.768671,
    "protein": -0.788991,
}
SEED = 42


def ksivi_protocol(table: str) -> Protocol:
    """The protocol of KSIVI, whose weights have their own precision for every table."""
    return Protocol(50, 0.1, math.exp(-0.5 * LOG_WEIGHT_PRECISIONS[table]))


@cache
def _load(table: str, test: float) -> SplitTable:
    return uci_table(table, test, SEED)


@dataclass(frozen=True)
class NetworkTask(PosteriorTask):
    """A Bayesian neural network on a table.

    Attributes:
        table: name of the table.
        protocol: the protocol of a published comparison.
    """

    table: str = ""
    protocol: Protocol = PVI
    primary_metric: str = "nll"
    secondary_metric: str = "rmse"
    draws: int = 1000
    outer: int = 200
    inner: int = 2000
    quick_outer: int = 50
    quick_inner: int = 200

    def source(self) -> Network:
        data, protocol = self.data(), self.protocol
        rows = (jnp.asarray(data.x_train, float), jnp.asarray(data.y_train, float))
        if protocol.marginal:
            return MarginalNetwork(*rows, protocol.hidden, protocol.weight_sd)
        return BayesianNetwork(*rows, protocol.hidden, protocol.noise_sd, protocol.weight_sd)

    def data(self) -> SplitTable:
        """The table with its training and test rows."""
        return _load(self.table, self.protocol.test)

    def measure(self, draws: np.ndarray, bounds: Bounds | None) -> dict[str, Any]:
        data = self.data()
        scores = regression_scores(*self.predictions(draws), data.y_test)
        rows = {"train_rows": len(data.y_train), "test_rows": len(data.y_test)}
        return scores | {"rmse_standardised": scores["rmse"] / data.y_sd} | rows

    def truth(self, posterior: Posterior) -> dict[str, Any]:
        return {"fingerprints": fingerprints(self.data())}

    def predictions(self, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predictions of the test rows, (draw, row), and the sd of y given each draw, both in the units of y."""
        data = self.data()
        found = _predict(self.source(), jnp.asarray(draws, float), jnp.asarray(data.x_test, float))
        mean, sd = (np.asarray(part, np.float64) for part in found)
        return data.y_mean + data.y_sd * mean, data.y_sd * sd

    def picture(self, log_q: LogDensityOfQ | None, draws: DrawsBySolver, folder: Path) -> list[Path]:
        return [self._figure(draws, folder)]

    def draw_comparison(self, draws: DrawsBySolver, folder: Path) -> None:
        self._figure(draws, folder)

    def _figure(self, draws: DrawsBySolver, folder: Path) -> Path:
        predicted = {solver: self.predictions(values) for solver, values in draws.items()}
        return draw_predictions(predicted, self.data().y_test, folder / "predictions.png", self.name)


@eqx.filter_jit
def _predict(target: Network, draws: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jax.lax.map(lambda z: target.predictive(z, x), draws)


def network(name: str) -> NetworkTask:
    """The task of this name: bnn-TABLE, bnn-ksivi-TABLE or bnn-pvi-TABLE."""
    variant, table = name.removeprefix("bnn-").rpartition("-")[::2]
    protocol = PVI if variant == "pvi" else ksivi_protocol(table)._replace(marginal=not variant)
    return NetworkTask(name, table=table, protocol=protocol)
