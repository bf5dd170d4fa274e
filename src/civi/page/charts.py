"""Charts as data for `assets/chart.js` and `assets/contour.js`, which draw them as SVG in the browser."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

import numpy as np

from civi.page.data import embedded, packed
from civi.page.elements import Html, tag

Kind = Literal["line", "area", "band", "points"]
Scale = Literal["linear", "log", "symlog"]


class Pen(TypedDict):
    """A CSS colour, and lengths of dashes and gaps in pixels as in SVG (empty for a solid line)."""

    colour: str
    dash: str


@dataclass(frozen=True)
class Series:
    """One curve. Series of the same name share an entry of the legend and are switched together.

    Attributes:
        name: its name in the legend.
        x: coordinates.
        y: values; for a band the lower edge.
        high: the upper edge of a band.
        kind: line, area (filled down to 0), band or points.
        colour: a CSS colour.
        dash: lengths of dashes and gaps in pixels, as in SVG; empty for a solid line.
        width: width of the line in pixels.
        labels: a label of each point, shown when the pointer is on it.
    """

    name: str
    x: Any
    y: Any
    high: Any = None
    kind: Kind = "line"
    colour: str = "var(--accent)"
    dash: str = ""
    width: float = 1.8
    labels: Sequence[str] = ()

    def spec(self) -> dict[str, Any]:
        """The series as JSON values."""
        spec = {name: getattr(self, name) for name in ("name", "kind", "colour", "dash", "width")}
        spec |= {"x": packed(self.x), "y": packed(self.y)}
        if self.high is not None:
            spec["high"] = packed(self.high)
        return spec | ({"labels": list(self.labels)} if self.labels else {})


@dataclass(frozen=True)
class View:
    """What a chart shows at a time, chosen by name if there are several.

    Attributes:
        name: its name in the choice.
        series: the curves.
        x_label: title of the x axis.
        y_label: title of the y axis.
        x_scale: linear, log or symlog.
        y_scale: linear, log or symlog.
        y_range: limits of the y axis before the reader zooms; None: all data.
        marks: vertical lines, (x, label).
        levels: horizontal lines, (y, label).
    """

    name: str
    series: list[Series]
    x_label: str
    y_label: str
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    y_range: tuple[float, float] | None = None
    marks: list[tuple[float, str]] = field(default_factory=list)
    levels: list[tuple[float, str]] = field(default_factory=list)

    def spec(self) -> dict[str, Any]:
        """The view as JSON values."""
        names = ("name", "x_label", "y_label", "x_scale", "y_scale")
        spec: dict[str, Any] = {name: getattr(self, name) for name in names}
        usable = self.y_range is not None and all(math.isfinite(end) for end in self.y_range)
        spec["y_range"] = [float(end) for end in self.y_range or ()] if usable else None
        for name in ("marks", "levels"):
            spec[name] = [[float(at), label] for at, label in getattr(self, name) if math.isfinite(at)]
        return spec | {"series": [series.spec() for series in self.series]}


@dataclass(frozen=True)
class Chart:
    """Curves with axes, a legend that switches them, values under the pointer, and zoom.

    Attributes:
        name: identifier in the page.
        title: title of the figure.
        caption: what is seen, in a sentence or two.
        views: what it can show; the first one is shown first.
        choice: what one chooses among the views, such as parameter.
    """

    name: str
    title: str
    caption: Any
    views: list[View]
    choice: str = "view"

    def element(self) -> Html:
        """The figure."""
        spec = {"kind": "chart", "choice": self.choice, "views": [view.spec() for view in self.views]}
        return _figure(self.name, self.title, self.caption, spec)


@dataclass(frozen=True)
class Grid:
    """A density on a regular grid, drawn as regions or as lines that contain given fractions of its mass.

    Attributes:
        name: its name in the legend.
        values: the density, (rows from low to high y, columns).
        x: first and last coordinate of the columns.
        y: first and last coordinate of the rows.
        masses: fractions of the mass.
        filled: whether regions are filled; otherwise lines are drawn.
        colour: a CSS colour.
        dash: as in `Series`.
    """

    name: str
    values: np.ndarray
    x: tuple[float, float]
    y: tuple[float, float]
    masses: tuple[float, ...] = (0.95, 0.8, 0.6, 0.4, 0.2)
    filled: bool = False
    colour: str = "var(--accent)"
    dash: str = ""

    def spec(self) -> dict[str, Any]:
        """The grid as JSON values."""
        names = ("name", "masses", "filled", "colour", "dash", "x", "y")
        return {name: getattr(self, name) for name in names} | {"values": packed(self.values)}


@dataclass(frozen=True)
class Contours:
    """Contours of densities in a plane, and points.

    Attributes:
        name: identifier in the page.
        title: title of the figure.
        caption: what is seen.
        grids: the densities; filled ones are drawn first.
        points: points on top of them.
        labels: titles of the two axes.
    """

    name: str
    title: str
    caption: Any
    grids: list[Grid]
    points: list[Series] = field(default_factory=list)
    labels: tuple[str, str] = ("x", "y")

    def element(self) -> Html:
        """The figure."""
        grids, points = [grid.spec() for grid in self.grids], [series.spec() for series in self.points]
        spec = {"kind": "contours", "grids": grids, "points": points, "labels": list(self.labels)}
        return _figure(self.name, self.title, self.caption, spec)


@dataclass(frozen=True)
class Cloud:
    """Draws of one source for `Joint`: (draw, variable), with a weight for each draw or None.

    Attributes:
        name: its name in the legend.
        draws: the draws.
        weights: weights of the draws.
        filled: whether regions are filled; otherwise lines are drawn.
        colour: a CSS colour.
        dash: as in `Series`.
    """

    name: str
    draws: np.ndarray
    weights: np.ndarray | None = None
    filled: bool = False
    colour: str = "var(--accent)"
    dash: str = ""


@dataclass(frozen=True)
class Joint:
    """The joint distribution of two variables that the reader chooses: regions with 90 % and 50 % of the draws.

    Attributes:
        name: identifier in the page.
        title: title of the figure.
        caption: what is seen.
        variables: names of the columns of the draws.
        sources: the draws; filled ones are drawn first.
        chosen: the two variables that are shown first.
    """

    name: str
    title: str
    caption: Any
    variables: Sequence[str]
    sources: list[Cloud]
    chosen: tuple[int, int] = (0, 1)

    def element(self) -> Html:
        """The figure. Sources that share their draws, with and without weights, share the data too."""
        arrays: list[np.ndarray] = []
        sources = []
        for source in self.sources:
            known = [i for i, array in enumerate(arrays) if array is source.draws]
            if not known:
                arrays.append(source.draws)
            spec = {name: getattr(source, name) for name in ("name", "filled", "colour", "dash")}
            spec["draws"] = known[0] if known else len(arrays) - 1
            sources.append(spec | ({} if source.weights is None else {"weights": packed(source.weights)}))
        content = {"kind": "joint", "variables": list(self.variables), "chosen": list(self.chosen), "sources": sources}
        columns = [[packed(column) for column in array.T] for array in arrays]
        return _figure(self.name, self.title, self.caption, content | {"arrays": columns})


def _figure(name: str, title: str, caption: Any, spec: dict[str, Any]) -> Html:
    return tag(
        "figure",
        tag("figcaption", tag("h3", title, id=f"{name}-title"), tag("p", caption) if caption else None),
        tag("div", class_="controls"),
        tag("div", class_="plot", role="group", tabindex="0", aria_labelledby=f"{name}-title"),
        tag("p", class_="reading", aria_live="polite"),
        tag("noscript", "This chart is drawn by a script, which the browser does not run."),
        embedded(spec | {"title": title}),
        id=name,
        class_="chart",
    )
