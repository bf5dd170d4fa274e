"""Writing of figures."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from civi.files import atomically


def save_figure(figure: Figure, path: Path, dpi: int) -> None:
    """Write a figure as PNG, atomically."""
    atomically(path, lambda part: figure.savefig(part, dpi=dpi, format="png"))
