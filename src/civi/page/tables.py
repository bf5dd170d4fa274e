"""Tables that the reader can sort and search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from civi.page.elements import Html, tag


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        title: its title.
        help: what it means, shown when the pointer is on the title.
        numeric: whether the cells are numbers, which are aligned at the right.
    """

    title: str
    help: str = ""
    numeric: bool = True


@dataclass(frozen=True)
class Table:
    """A table whose first column names the rows.

    Attributes:
        name: identifier in the page.
        caption: what it shows.
        columns: the columns.
        rows: cells; numbers are shown with four digits.
        search: whether there is a field to search the rows.
        shows: identifier of a chart whose view the name of a row selects; empty: none.
        styles: a CSS class for some cells, by (row, column).
        wordy: whether the last column has sentences, which are below the other cells on a narrow screen.
    """

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    search: bool = False
    shows: str = ""
    styles: dict[tuple[int, int], str] = field(default_factory=dict)
    wordy: bool = False

    def element(self) -> Html:
        """The table, which scrolls inside of the page if it is wide or long."""
        head = tag("tr", [self._title(column) for column in self.columns])
        body = [tag("tr", [self._cell(i, j, cell) for j, cell in enumerate(row)]) for i, row in enumerate(self.rows)]
        table = tag("table", tag("caption", self.caption), tag("thead", head), tag("tbody", body))
        place = {"tabindex": "0", "role": "region", "aria_label": self.caption}
        kind = "table wordy" if self.wordy else "table"
        return tag("div", self._search(), tag("div", table, class_="scroll", **place), id=self.name, class_=kind)

    def _search(self) -> Html | None:
        if not self.search:
            return None
        field_id = f"{self.name}-search"
        label = tag("label", "Search ", for_=field_id)
        found = tag("span", f"{len(self.rows)} rows", class_="found", aria_live="polite")
        return tag("p", label, tag("input", type="search", id=field_id), " ", found, class_="search")

    def _title(self, column: Column) -> Html:
        kind = None if column.numeric else "text"
        return tag(
            "th", tag("button", column.title, type="button", title=column.help or None), scope="col", class_=kind
        )

    def _cell(self, i: int, j: int, cell: Any) -> Html:
        style = self.styles.get((i, j))
        if j == 0:
            name = tag("button", cell, type="button", data_shows=self.shows) if self.shows else cell
            return tag("th", name, scope="row", class_=style)
        kind = "" if self.columns[j].numeric else "text"
        return tag("td", shown(cell), class_=" ".join(filter(None, (kind, style))) or None)


def shown(value: Any) -> Any:
    """A cell as it is shown: numbers with four digits, a dash for what is missing."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, int):
        return str(value)
    return f"{value:.4g}" if math.isfinite(value) else "not finite"
