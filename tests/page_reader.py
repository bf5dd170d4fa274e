"""Reading of a page in tests: elements with their attributes and text, the data of figures, and cells of tables."""

import json
from html.parser import HTMLParser

VOID = {"img", "input", "meta", "br", "hr", "link"}


class PageReader(HTMLParser):
    """The elements of a page in order, as (name, attributes, text)."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict, list[str]]] = []
        self._open: list[tuple[str, dict, list[str]]] = []
        self.feed(page)
        self.close()
        assert not self._open, f"{self._open[-1][0]} is not closed"

    def handle_starttag(self, tag, attrs):
        element = (tag, dict(attrs), [])
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag):
        opened = self._open.pop()
        assert opened[0] == tag, f"{opened[0]} is closed by {tag}"

    def handle_data(self, data):
        for element in self._open:
            element[2].append(data)

    def all(self, name: str, **attributes: str) -> list[tuple[dict, str]]:
        """Attributes and text of all elements of this name with these attributes."""
        wanted = {key.rstrip("_"): value for key, value in attributes.items()}
        found = [(attrs, "".join(text)) for tag, attrs, text in self.elements if tag == name]
        return [(attrs, text) for attrs, text in found if wanted.items() <= attrs.items()]

    @property
    def ids(self) -> list[str]:
        return [attrs["id"] for _, attrs, _ in self.elements if "id" in attrs]

    @property
    def figures(self) -> dict[str, dict]:
        """The data of each chart, by its identifier."""
        names = [attrs["id"] for attrs, _ in self.all("figure", class_="chart")]
        specs = [json.loads(text) for _, text in self.all("script", type="application/json")]
        return dict(zip(names, specs, strict=True))


def rows_of(page: str, name: str) -> list[list[str]]:
    """The cells of the table with this identifier, without its titles."""
    start = page.index(f'id="{name}"')
    table = page[start : page.index("</table>", start)]
    body = table[table.index("<tbody>") : table.index("</tbody>") + len("</tbody>")]
    rows = [PageReader(row + "</tr>") for row in body.removeprefix("<tbody>").split("</tr>")[:-1]]
    return [["".join(text) for tag, _, text in row.elements if tag in ("td", "th")] for row in rows]
