"""Figure of ranks: empirical distribution minus the uniform one, inside of a simultaneous envelope."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from civi.inference.ranks import cut_points, envelope

COLUMNS = 3


class ShownFigure(Figure):
    """A figure that a notebook shows by itself, also if pyplot is not used."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.savefig(content, format="png", dpi=100)
        return content.getvalue()


def rank_figure(ranks: Mapping[str, np.ndarray], draws: int, level: float) -> ShownFigure:
    """One panel for each parameter.

    Args:
        ranks: the ranks by parameter.
        draws: number of draws, which is the largest rank.
        level: the probability to leave the envelope, in one panel.
    """
    rows = -(-len(ranks) // COLUMNS)
    figure = ShownFigure(figsize=(4 * min(COLUMNS, len(ranks)), 2.6 * rows), layout="constrained")
    panels = figure.subplots(rows, min(COLUMNS, len(ranks)), squeeze=False, sharex=True, sharey=True)
    bounds = envelope(len(next(iter(ranks.values()))), draws, level)
    for panel, (name, of_name) in zip(panels.flat, ranks.items(), strict=False):
        _draw(panel, name, of_name, draws, bounds)
    for panel in list(panels.flat)[len(ranks) :]:
        panel.set_visible(False)
    figure.supxlabel("rank / number of draws")
    figure.supylabel("ECDF minus uniform")
    return figure


def _draw(panel: Any, name: str, ranks: np.ndarray, draws: int, bounds: tuple[np.ndarray, np.ndarray]) -> None:
    cuts, count = cut_points(draws), len(ranks)
    shares = cuts / (draws + 1)
    lower, upper = bounds
    below = np.array([(ranks < cut).sum() for cut in cuts])
    panel.fill_between(shares, lower / count - shares, upper / count - shares, color="0.85", step="mid")
    panel.step(shares, below / count - shares, where="mid", color="tab:blue")
    panel.axhline(0, color="0.5", linewidth=0.8)
    panel.set_title(name, fontsize="medium")
