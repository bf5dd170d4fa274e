"""Bayesian logistic regressions as tasks: measured against NUTS, and on test rows where there are some."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from civi.errors import SettingError
from civi.experiment.tasks.base import Draws, Task
from civi.experiment.tasks.posterior import LogDensityOfQ, PosteriorTask

if TYPE_CHECKING:
    import numpy as np

    from civi.experiment.data.regression import RegressionData
    from civi.inference.diagnose import Bounds
    from civi.inference.nuts import Reference

REFERENCE_SEED, REFERENCE_DRAWS, REFERENCE_ROWS = 1_000_000, 5000, 20_000
PREDICTIVE_DRAWS = 4000


def published(name: str, summary: str) -> Task:
    """One of the regressions of the published comparisons."""

    @cache
    def load() -> RegressionData:
        from civi.experiment.data import regression

        return regression.nodal("sivi") if name == "nodal-25" else getattr(regression, name)()

    return _task(name, summary, load, {})


def own_table(path: Path | None, target: str | None, hold_out: float) -> Task:
    """A regression on the user's own CSV file."""
    if path is None or target is None:
        raise SettingError("task 'regression' needs your own data: --data FILE.csv --target COLUMN")
    from civi.experiment.data.table import read_table

    data = read_table(path, target, hold_out)
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    options = {"data": str(path), "sha256": checksum, "target": target, "hold_out": hold_out}
    return _task("regression", f"{path} on {target}", lambda: data, options)


def _task(name: str, summary: str, load: Callable[[], RegressionData], options: dict[str, Any]) -> Task:
    def make() -> Any:
        import jax.numpy as jnp

        from civi.problem.target import LogisticRegression

        return LogisticRegression(jnp.asarray(load().x_train), jnp.asarray(load().y_train))

    def measure(target: Any, draws: np.ndarray, bounds: Bounds | None) -> dict[str, Any]:
        from civi.inference.diagnose.agreement import agreement

        found: dict[str, Any] = {"data": load().source}
        reference = reference_of(name, target)
        if reference is None:
            found["reference"] = f"none, as there are more than {REFERENCE_ROWS} rows"
        else:
            found |= {"reference_r_hat": float(reference.r_hat.max()), **agreement(draws, reference.draws)}
        if name == "waveform" and bounds is None:
            found |= _against_gibbs(draws)
        return found | _on_test_rows(load(), draws)

    def compared(target: Any, draws: Draws, folder: Path) -> list[Path]:
        from civi.experiment.report.regression_figure import draw_marginals, draw_pairs, draw_predictive

        reference = reference_of(name, target)
        known = {} if reference is None else {"nuts": reference.pooled(len(next(iter(draws.values()))))}
        shown = known | {solver: values for solver, values in draws.items() if solver != "nuts" or not known}
        data = load()
        return [
            draw_marginals(shown, data.columns, folder / "marginals.png", name),
            draw_pairs(shown, data.columns, folder / "pairs.png", name),
            draw_predictive(shown, data, folder / "predictive.png"),
        ]

    def draw(target: Any, log_q: LogDensityOfQ | None, draws: Draws, folder: Path) -> list[Path]:
        return compared(target, draws, folder)

    return PosteriorTask(
        name,
        summary,
        make,
        rank_by="sliced_wasserstein",
        draws=20_000,
        options=options,
        measure=measure,
        picture=draw,
        pictures=compared,
    )


def reference_of(name: str, target: Any) -> Reference | None:
    """NUTS draws of this posterior, made once and cached; none for data so large that NUTS would take hours."""
    from civi.inference.nuts import Nuts

    if target.rows > REFERENCE_ROWS:
        return None
    return Nuts(draws=REFERENCE_DRAWS).cached(name, target, REFERENCE_SEED)


def _against_gibbs(draws: np.ndarray) -> dict[str, float]:
    """NUTS against the 250 Gibbs draws that came with the published waveform data, where these are at hand."""
    from civi.experiment.data.regression import waveform_gibbs
    from civi.inference.diagnose.agreement import moment_errors

    gibbs = waveform_gibbs()
    return {} if gibbs is None else {f"gibbs_{name}": value for name, value in moment_errors(draws, gibbs).items()}


def _on_test_rows(data: RegressionData, draws: np.ndarray) -> dict[str, float]:
    from civi.inference.diagnose.predictive import predictive, scores

    if not len(data.y_test):
        return {}
    every = max(1, len(draws) // PREDICTIVE_DRAWS)
    probability, _ = predictive(data.x_test, draws[::every])
    return {f"test_{name}": value for name, value in scores(probability, data.y_test).items()}
