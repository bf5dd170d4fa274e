"""The figures of a run or comparison as pictures of its report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from civi.page import Html, Section, image, tag

MOST_BYTES = 2_000_000
TITLES = {
    "reconstructions.png": ("Reconstructions", "test images, and below each the decoded draw of its posterior"),
    "prior.png": ("Draws from the prior", "images that the decoder makes from draws of the prior"),
    "walk.png": ("Interpolations", "rows of images between the latents of two test images"),
    "latents.png": ("Posteriors of single data points", "clouds of posterior draws of six test data points"),
    "draws.png": ("Draws side by side", "draws of each solver on filled contours of the target"),
    "pairs.png": ("All pairs of coordinates", "regions with 90 % and 50 % of the draws for all pairs of coordinates"),
    "marginals.png": ("Marginals side by side", "a violin of the draws for each coordinate and solver"),
    "predictive.png": ("Predictions", "means and standard deviations of predicted probabilities, and calibration"),
}


def pictures(folder: Path, names: Sequence[str] = tuple(TITLES)) -> list[Section]:
    """A section with the known figures in a folder, as far as they fit into a page; none if there are none.

    Args:
        folder: the folder of the figures.
        names: files to show, in this order.
    """
    shown: list[Html] = []
    left, left_out = MOST_BYTES, list[str]()
    for name in names:
        png = _read(folder / name)
        if png is None:
            continue
        size = len(png) * 4 // 3
        if size > left:
            left_out.append(name)
            continue
        left -= size
        title, description = TITLES[name]
        shown.append(image(png, title, f"{title}: {description}."))
    text = f"Too large for this page: {', '.join(left_out)} in {folder}." if left_out else None
    note = [tag("p", text, class_="missing")] if text else []
    return [Section("pictures", "Pictures", [*shown, *note])] if shown or note else []


def _read(path: Path) -> bytes | None:
    """The content of a PNG file; None if it is missing or not one."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return content if content.startswith(b"\x89PNG\r\n\x1a\n") else None
