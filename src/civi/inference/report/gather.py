"""The content of a report, from a posterior with its draws, checks and ELBO."""

from __future__ import annotations

from typing import Any

import numpy as np

from civi.inference.labelled import Groups
from civi.inference.loo import Loo, loo_of
from civi.inference.report.content import Content, fingerprint, flattened, versions
from civi.inference.run_curve import curve_of

MOST_DRAWS, PREDICTIVE_DRAWS, MOST_OBSERVATIONS, MOST_PREDICTED = 4000, 200, 2000, 20_000
LOAD = """import civi

posterior.save("fit.civi")
posterior = civi.load("fit.civi", model, *data)  # the target and its data, as given to civi.fit
draws = posterior.sample(0, 4000)"""


def gathered(posterior: Any, groups: Groups, title: str, **more: Any) -> Content:
    """The content of the report of a posterior.

    Args:
        posterior: the posterior.
        groups: its draws, their statistics and the data, in the schema of ArviZ.
        title: title of the page.
        **more: further fields of `Content`, which replace those that are found here.
    """
    names, draws = flattened(groups["posterior"], lead=2)
    some = np.unique(np.linspace(0, len(draws) - 1, min(MOST_DRAWS, len(draws))).astype(int))
    stats = {name: values.reshape(-1) for name, values in groups.get("sample_stats", {}).items()}
    ratios = stats["lp"] - stats["log_q_upper"] if "log_q_upper" in stats else None
    count = sum(int(np.prod(values.shape[2:])) for values in groups.get("log_likelihood", {}).values())
    found = {
        **recorded(posterior, title),
        "names": names,
        "draws": draws[some].astype(np.float32),
        "log_ratios": None if ratios is None else ratios[some],
        "loo": _loo(groups, ratios) if 0 < count <= MOST_OBSERVATIONS else None,
        "too_many": count if count > MOST_OBSERVATIONS else 0,
        **_of_data(groups),
    }
    return Content(**found | more)


def recorded(posterior: Any, title: str) -> dict[str, Any]:
    """The fields that every posterior has: learning curves, how training ended, phases and versions."""
    known = {"step", "seconds", "neg_elbo"} <= set(posterior.history)
    runs = getattr(posterior, "runs", []) or ([curve_of(posterior.history)] if known else [])
    record = {"message": posterior.message, "runs": runs, "phases": dict(posterior.phases), "versions": versions()}
    return {"title": title, "code": LOAD, **record}


def _loo(groups: Groups, ratios: np.ndarray | None) -> Loo:
    likelihoods = {site: _joined(values).astype(np.float64) for site, values in groups["log_likelihood"].items()}
    count = len(next(iter(likelihoods.values())))
    return loo_of(likelihoods, np.zeros(count) if ratios is None else ratios)


def _of_data(groups: Groups) -> dict[str, Any]:
    """The observed data, replicated data (of the first observations if there are very many), and fingerprints."""
    observed = groups.get("observed_data", {})
    numbers = {site: values for site, values in observed.items() if values.dtype.kind in "biuf" and values.size}
    shown, made = {}, {}
    for site, values in groups.get("posterior_predictive", {}).items():
        if site not in numbers:
            continue
        flat = _joined(values)
        every = max(1, len(flat) // PREDICTIVE_DRAWS)
        rows = slice(None, MOST_PREDICTED if flat.ndim > 1 else None)
        shown[site] = numbers[site].reshape(-1)[rows].astype(np.float32)
        made[site] = flat[::every].reshape(-1, numbers[site].size)[:, rows].astype(np.float32)
    prints = {site: fingerprint(values) for site, values in observed.items()}
    return {"observed": shown, "predictive": made, "fingerprints": prints}


def _joined(values: np.ndarray) -> np.ndarray:
    """The draws of all chains along one axis."""
    return values.reshape(-1, *values.shape[2:])
