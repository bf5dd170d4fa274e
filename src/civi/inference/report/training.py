"""The section of a report about training: learning curves of all runs by step and by second, and where they ended."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from civi.inference.report.content import Content
from civi.inference.report.looks import REFERENCE, Look, look_of
from civi.inference.run_curve import RunCurve
from civi.page import Chart, Section, Series, View

RUN_DASHES = ((7.0, 3.0), (2.0, 3.0), (9.0, 3.0, 2.0, 3.0))


def training(content: Content) -> Section | None:
    """The learning curves."""
    if not any(len(run.step) for run in content.runs):
        return None
    named = [(f"run {i + 1}{' (kept)' if run.chosen else ''}", run) for i, run in enumerate(content.runs)]
    named = named if len(named) > 1 else [(content.solver, content.runs[0])]
    others = iter(Look(REFERENCE.colour, dash) for dash in RUN_DASHES * len(named))
    looks = [look_of(content.solver) if run.chosen else next(others) for _, run in named]
    views, caption = curve_views(named, looks, content.objective), f"{CAPTION} {content.training_note}".strip()
    chart = Chart("training-chart", "Learning curves", caption, views, "against")
    return Section("training", "Training", [chart.element()])


CAPTION = (
    "Means over blocks of steps; the band is one standard deviation of the single steps. Drag sideways to zoom, "
    "double-click for the whole range; with the keyboard, use the arrows, + and Escape."
)


def curve_views(named: Sequence[tuple[str, RunCurve]], looks: Sequence[Look], objective: str) -> list[View]:
    """Learning curves against steps and against seconds.

    Args:
        named: the runs and their names in the legend.
        looks: the look of each run.
        objective: what is minimised.
    """
    limits = value_range([run.neg_elbo for _, run in named])
    return [
        View(
            name,
            [part for (label, run), look in zip(named, looks, strict=True) for part in _curve(label, run, axis, look)],
            name,
            objective,
            y_range=limits,
            marks=[mark for _, run in named for mark in _marks(run, axis)],
        )
        for name, axis in (("steps", "step"), ("seconds", "seconds"))
    ]


def _curve(label: str, run: RunCurve, axis: str, look: Look) -> list[Series]:
    x = getattr(run, axis)
    band = Series(label, x, run.neg_elbo - run.sd, run.neg_elbo + run.sd, "band", **look.svg)
    return [band, Series(label, x, run.neg_elbo, **look.svg)]


def _marks(run: RunCurve, axis: str) -> list[tuple[float, str]]:
    """Where the ELBO stopped improving, in the run that was kept."""
    if not run.stalled or not run.chosen:
        return []
    at = float(run.stalled) if axis == "step" else float(np.interp(run.stalled, run.step, run.seconds))
    return [(at, "stopped improving")]


def value_range(curves: Sequence[np.ndarray]) -> tuple[float, float] | None:
    """Limits of the y axis that show the last three quarters of every curve, without the first fall."""
    late = [curve[len(curve) // 4 :] for curve in curves if len(curve)]
    finite = np.concatenate([part[np.isfinite(part)] for part in late]) if late else np.zeros(0)
    if not finite.size:
        return None
    low, high = float(finite.min()), float(np.quantile(finite, 0.98))
    room = max(high - low, 1e-3 * abs(high), 1e-6)
    return low - 0.25 * room, high + 0.6 * room
