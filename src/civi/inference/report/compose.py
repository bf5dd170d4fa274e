"""The report of one posterior as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from civi.inference.report.content import Content
from civi.inference.report.parameters import parameters
from civi.inference.report.planes import density, latent_plane
from civi.inference.report.predictive import loo, predictive
from civi.inference.report.provenance import provenance
from civi.inference.report.training import training
from civi.inference.report.verdict import checks, lead, measures
from civi.inference.report.weights import modes, weights
from civi.page import Html, Section, page, tag, write_page

BUILDERS = (measures, density, training, parameters, weights, modes, predictive, loo, latent_plane, checks)


def sections_of(content: Content, extra: Sequence[Section] = ()) -> list[Section]:
    """The sections for which there is something to show; `extra` ones come before those about the origin."""
    made = [build(content) for build in BUILDERS]
    return [*(section for section in made if section is not None), *extra, provenance(content)]


def report_page(content: Content, extra: Sequence[Section] = (), missing: Sequence[str] = ()) -> Html:
    """The page of one posterior.

    Args:
        content: what it shows.
        extra: further sections, such as pictures.
        missing: what could not be shown, one sentence each.
    """
    head = [lead(content), missing_list(missing)]
    return page(content.title, head, sections_of(content, extra), FOOTER)


def missing_list(missing: Sequence[str]) -> Html | None:
    """What could not be shown."""
    if not missing:
        return None
    return tag(
        "div", tag("p", "Missing in this report:"), tag("ul", [tag("li", line) for line in missing]), class_="missing"
    )


FOOTER = tag("p", "Made by civi. This file is complete: it needs no network and can be sent as it is.")


def write_report(content: Content, path: Path) -> None:
    """Write the page of one posterior."""
    write_page(path, report_page(content))
