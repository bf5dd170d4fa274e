"""The skeleton of a page: header, contents, sections, and the embedded style and scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from civi.errors import OutputError
from civi.files import atomically
from civi.page.elements import Html, tag

LARGEST = 3_000_000
SCRIPTS = ("data.js", "axes.js", "chart.js", "contour.js", "table.js", "page.js")
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


@dataclass(frozen=True)
class Section:
    """A part of the page with an entry in the table of contents.

    Attributes:
        name: identifier, which links can point to.
        title: its title.
        content: the elements.
    """

    name: str
    title: str
    content: Sequence[Any]

    def element(self) -> Html:
        """The section."""
        return tag("section", tag("h2", self.title), list(self.content), id=self.name)


def page(title: str, lead: Any, sections: Sequence[Section], footer: Any = None) -> Html:
    """A complete HTML document.

    Args:
        title: title of the page.
        lead: what stands above the table of contents.
        sections: the sections.
        footer: what stands below them.
    """
    links = [tag("li", tag("a", section.title, href=f"#{section.name}")) for section in sections]
    theme = tag("button", "Light or dark", type="button", id="theme")
    body = [
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("header", tag("div", tag("h1", title), theme, class_="title"), lead),
        tag("nav", tag("ul", links), aria_label="Contents"),
        tag("main", [section.element() for section in sections], id="content"),
        tag("footer", footer),
        tag("script", Html("\n".join(_asset(name) for name in SCRIPTS))),
    ]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(_asset("page.css"))),
    ]
    return Html("<!doctype html>\n" + tag("html", tag("head", head), tag("body", body), lang="en") + "\n")


def write_page(path: Path, document: Html) -> None:
    """Write a page atomically; one that is larger than LARGEST is an error."""
    content = document.encode()
    if len(content) > LARGEST:
        limit = f"at most {LARGEST / 1e6:.0f} MB are allowed"
        raise OutputError(f"the report {path} would have {len(content) / 1e6:.1f} MB, but {limit}")
    atomically(path, lambda part: part.write_bytes(content))


@cache
def _asset(name: str) -> str:
    return files("civi.page").joinpath("assets", name).read_text(encoding="utf-8")
