"""Bayesian logistic regressions, compared with NUTS and, if there are test rows, evaluated by their predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from civi.errors import SettingError
from civi.experiment.data import regression
from civi.experiment.data.own_table import OwnTable
from civi.experiment.data.regression import RegressionData, waveform_gibbs
from civi.experiment.report import DrawsBySolver
from civi.experiment.report.regression_figure import draw_marginals, draw_pairs, draw_predictive
from civi.experiment.tasks.posterior import LogDensityOfQ, PosteriorTask
from civi.inference.diagnose import Bounds
from civi.inference.diagnose.agreement import agreement, moment_errors
from civi.inference.diagnose.predictive import predictive, scores
from civi.inference.nuts import Nuts, Reference
from civi.inference.posterior import Posterior, SampledPosterior
from civi.inference.report.content import fingerprints
from civi.problem.target import LogisticRegression
from civi.problem.target.streamed import RegressionStream, StreamedRegression

REFERENCE_SEED = 1_000_000
BATCH = 1000
LOADERS: dict[str, Callable[[], RegressionData]] = {
    "spam": cache(regression.spam),
    "nodal": cache(regression.nodal),
    "nodal-25": cache(partial(regression.nodal, "sivi")),
    "waveform": cache(regression.waveform),
}


@dataclass(frozen=True)
class RegressionTask(PosteriorTask):
    """A logistic regression, compared with a cached reference run of NUTS.

    Attributes:
        load: function that loads the data; if they are streamed, a sample of them.
        stream: function that opens the table if its rows are read from disk while training; None: they are in memory.
        reference_draws: draws per chain of the reference.
        reference_rows: largest number of rows with a reference; for more rows, NUTS would take hours.
        predictive_draws: approximate number of draws for predictions.
        reference_shown: number of reference draws in a report.
    """

    load: Callable[[], RegressionData] = field(kw_only=True)
    stream: Callable[[], RegressionStream] | None = field(default=None, kw_only=True)
    primary_metric: str = "sliced_wasserstein"
    secondary_metric: str = "mean_error_max"
    draws: int = 20_000
    reference_draws: int = 5000
    reference_rows: int = 20_000
    predictive_draws: int = 4000
    reference_shown: int = 8000

    def source(self) -> LogisticRegression | StreamedRegression:
        if self.stream is not None:
            return StreamedRegression.of(self.stream())
        data = self.load()
        return LogisticRegression(jnp.asarray(data.x_train), jnp.asarray(data.y_train))

    def reference(self) -> Reference | None:
        """The reference draws of NUTS; None if the rows are streamed, or more than `reference_rows`."""
        if self.stream is not None:
            return None
        target = self.source()
        if target.rows > self.reference_rows:
            return None
        return Nuts(draws=self.reference_draws).cached(self.name, target, REFERENCE_SEED)

    def measure(self, draws: np.ndarray, bounds: Bounds | None) -> dict[str, Any]:
        found: dict[str, Any] = {"data": self.load().source}
        reference = self.reference()
        if self.stream is not None:
            found |= {"reference": "none, as the rows are read from disk", "neg_elbo_rows": len(self.load().y_train)}
        elif reference is None:
            found["reference"] = f"none, as there are more than {self.reference_rows} rows"
        else:
            found |= {"reference_r_hat": float(reference.r_hat.max()), **agreement(draws, reference.draws)}
        if self.name == "waveform" and bounds is None:
            found |= _against_gibbs(draws)
        return found | self._on_test_rows(draws)

    def truth(self, posterior: Posterior) -> dict[str, Any]:
        reference = self.reference()
        data = self.load()
        known: dict[str, Any] = {"names": list(data.columns), "fingerprints": fingerprints(data)}
        own = isinstance(posterior, SampledPosterior)
        return known if reference is None or own else known | {"reference": reference.pooled(self.reference_shown)}

    def picture(self, log_q: LogDensityOfQ | None, draws: DrawsBySolver, folder: Path) -> list[Path]:
        return self._figures(draws, folder)

    def draw_comparison(self, draws: DrawsBySolver, folder: Path) -> None:
        self._figures(draws, folder)

    def _figures(self, draws: DrawsBySolver, folder: Path) -> list[Path]:
        reference, data = self.reference(), self.load()
        known = {} if reference is None else {"nuts": reference.pooled(len(next(iter(draws.values()))))}
        shown = known | {solver: values for solver, values in draws.items() if solver != "nuts" or not known}
        return [
            draw_marginals(shown, data.columns, folder / "marginals.png", self.name),
            draw_pairs(shown, data.columns, folder / "pairs.png", self.name),
            draw_predictive(shown, data, folder / "predictive.png"),
        ]

    def _on_test_rows(self, draws: np.ndarray) -> dict[str, float]:
        data = self.load()
        if not len(data.y_test):
            return {}
        every = max(1, len(draws) // self.predictive_draws)
        probability, _ = predictive(data.x_test, draws[::every])
        return {f"test_{name}": value for name, value in scores(probability, data.y_test).items()}


def published(name: str) -> RegressionTask:
    """A regression of the published comparisons, by name."""
    return RegressionTask(name, load=LOADERS[name])


def own_table(path: Path | None, target: str | None, hold_out: float, stream: bool | None = None) -> RegressionTask:
    """A regression on the user's own table.

    Args:
        path: a CSV, Parquet or Arrow file, or a folder of such files.
        target: the column to predict.
        hold_out: fraction of the rows to keep for testing.
        stream: whether to read the rows from disk while training; None: if they are too many.
    """
    if path is None or target is None:
        raise SettingError("task 'regression' needs your own data: --data FILE --target COLUMN")
    table = OwnTable.open(path, target, hold_out, stream)
    if table.stream is None:
        return RegressionTask("regression", load=table.load, options=table.options)
    settings = (f"problem.batch={BATCH}",)
    return RegressionTask("regression", load=table.load, stream=table.stream, options=table.options, settings=settings)


def _against_gibbs(draws: np.ndarray) -> dict[str, float]:
    """Compare NUTS with the 250 Gibbs draws published with the waveform data; empty if these are not available."""
    gibbs = waveform_gibbs()
    return {} if gibbs is None else {f"gibbs_{name}": value for name, value in moment_errors(draws, gibbs).items()}
