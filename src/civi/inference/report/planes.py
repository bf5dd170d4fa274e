"""The sections of a report about two-dimensional pictures: the contours of a toy, and the latent plane."""

from __future__ import annotations

import numpy as np

from civi.inference.report.content import Content
from civi.inference.report.looks import REFERENCE, look_of, looks_of
from civi.page import Chart, Contours, Grid, Section, Series, View

SHOWN, CLOUDS, LATENTS = 600, 6, 250


def density(content: Content) -> Section | None:
    """Contours of a target with two parameters: the target filled, the fit as lines, and draws."""
    plane = content.plane
    if plane is None:
        return None
    look = look_of(content.solver)
    grids = [Grid("target", plane.p, plane.x, plane.y, filled=True, colour=REFERENCE.colour)]
    if plane.q is not None:
        grids.append(Grid(content.solver, plane.q, plane.x, plane.y, **look.svg))
    points = []
    if content.draws is not None and content.draws.shape[1] == 2:
        some = content.draws[:SHOWN]
        points = [Series("draws", some[:, 0], some[:, 1], kind="points", colour=look.colour)]
    labels = (content.names[0], content.names[1]) if len(content.names) == 2 else ("z[0]", "z[1]")
    caption = "Regions that contain 95, 80, 60, 40 and 20 % of the mass. Filled: the target. Lines: the fit."
    chart = Contours("density-chart", "Target and fit", caption, grids, points, labels)
    return Section("density", "Density", [chart.element()])


def latent_plane(content: Content) -> Section | None:
    """Posterior draws of single data points in their first two principal components."""
    z = content.latents
    if z is None or z.shape[2] < 2:
        return None
    z = np.asarray(z[:CLOUDS, :LATENTS], np.float64)
    centred = (z - z.mean((0, 1))).reshape(-1, z.shape[2])
    _, directions = np.linalg.eigh(centred.T @ centred)
    plane = (centred @ directions[:, ::-1][:, :2]).reshape(len(z), -1, 2)
    names = [f"datum {i + 1}" for i in range(len(z))]
    series = [
        Series(name, cloud[:, 0], cloud[:, 1], kind="points", colour=look.colour)
        for name, cloud, look in zip(names, plane, looks_of(names), strict=True)
    ]
    view = View("plane", series, "first principal component", "second principal component")
    caption = f"Draws of the posteriors of {len(z)} test data points."
    return Section("latents", "Latent plane", [Chart("latents-chart", "Latent plane", caption, [view]).element()])
