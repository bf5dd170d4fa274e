"""The sections of a report about importance weights and about the regions that the pilot found."""

from __future__ import annotations

import numpy as np

from civi.inference.diagnose.importance import smooth_weights
from civi.inference.report.content import Content
from civi.inference.report.looks import look_of
from civi.page import Chart, Column, Section, Series, Table, View, tag
from civi.page.elements import facts

POINTS = 400


def weights(content: Content) -> Section | None:
    """k-hat, the effective number of draws, and the tail of the weights p / q."""
    if content.log_ratios is None:
        return None
    ratios = np.asarray(content.log_ratios, np.float64)
    if not np.isfinite(ratios).all():
        lost = f"{int((~np.isfinite(ratios)).sum())} of {len(ratios)} weights p / q are not finite."
        return Section("weights", "Importance weights", [tag("p", lost, class_="missing")])
    smoothed = smooth_weights(ratios)
    count = len(ratios)
    k_hat = next((finding.value for finding in content.findings if finding.name == "k_hat"), smoothed.k_hat)
    numbers = [
        ("k-hat", f"{k_hat:.2f} (reliable below 0.7)"),
        ("effective draws", f"{smoothed.effective_size:.0f} of {count}"),
        ("largest weight", f"{100 * np.exp(smoothed.log_weights.max()):.2g} % of the total"),
    ]
    raw = np.exp(ratios - ratios.max())
    return Section("weights", "Importance weights", [facts(numbers), _tail(content, raw, np.exp(smoothed.log_weights))])


def _tail(content: Content, raw: np.ndarray, smoothed: np.ndarray) -> object:
    """The share of draws with a larger weight, against the weight; 1 is the weight of an exact fit."""
    colour = look_of(content.solver).colour
    series = [
        Series("weights p / q", *_exceeded(raw / raw.mean()), kind="points", colour=colour),
        Series("Pareto-smoothed", *_exceeded(smoothed / smoothed.mean()), colour=colour),
    ]
    labels = "weight / mean weight", "share of draws with a larger weight"
    view = View("tail", series, *labels, x_scale="log", y_scale="log", marks=[(1.0, "exact fit")])
    caption = (
        "With an exact fit all weights are 1. A long straight tail to the right is heavy: its slope is -1 / k-hat."
    )
    return Chart("weights-chart", "Tail of the weights", caption, [view]).element()


def _exceeded(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights and the share of draws with a larger one, at places that are dense in the tail."""
    falling = np.sort(weights)[::-1]
    count = len(falling)
    rank = np.unique(np.geomspace(1, count, POINTS).astype(int))
    return falling[rank - 1][::-1], (rank / count)[::-1]


def modes(content: Content) -> Section | None:
    """The regions that the pilot found from its starts, and about how much of the posterior each holds."""
    if not content.modes:
        return None
    order = sorted(content.modes, key=lambda mode: -mode.elbo)
    rows = [[str(i + 1), m.elbo, m.share, "no" if m.missing else "yes"] for i, m in enumerate(order)]
    columns = [
        Column("start", numeric=False),
        Column("ELBO", "of the Gaussian that the pilot found there"),
        Column("share of the posterior, at most", "exp(ELBO of this Gaussian - ELBO of the fit), at most 1"),
        Column("covered by the fit", numeric=False),
    ]
    styles = {(i, 3): "bad" if mode.missing and mode.share > 0.1 else "" for i, mode in enumerate(order)}
    text = (
        "Each start of the pilot ended in a region of the posterior. Starts in the same region have about the same "
        "ELBO, so the shares do not add up to 1. A region that the fit does not cover matters if its share is large."
    )
    table = Table("modes-table", "Where the starts of the pilot ended, best first", columns, rows, styles=styles)
    return Section("modes", "Modes", [tag("p", text), table.element()])
