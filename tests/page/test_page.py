"""Pages: well-formed, self-contained, and not broken by any text."""

import numpy as np
import pytest

from civi.errors import OutputError
from civi.page import Chart, Column, Contours, Grid, Section, Series, Table, View, image, page, tag, write_page
from civi.page.data import packed, unpacked
from page_reader import PageReader, rows_of

HOSTILE = ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b", "]]>", "\x00\ud800", "<!--"]


def chart(name: str, label: str = "civi") -> Chart:
    series = [Series(label, [0, 1, 2], [1.0, np.nan, 3.0]), Series(label, [0, 1, 2], [0, 1, 2], [1, 2, 3], "band")]
    return Chart(name, label, label, [View(label, series, label, label, marks=[(1.0, label)])])


def whole(text: str = "plain") -> str:
    table = Table("numbers", text, [Column(text, numeric=False), Column("value")], [[text, 1.23456], [text, None]])
    grid = Grid(text, np.ones((4, 3)), (0.0, 1.0), (0.0, 2.0))
    plane = Contours("plane", text, text, [grid])
    parts = [tag("p", text, title=text), chart("curves", text).element(), plane.element(), table.element()]
    return page(text, tag("p", text), [Section("one", text, parts)])


@pytest.mark.parametrize("text", HOSTILE)
def test_text_is_shown_as_it_is_and_never_becomes_markup(text):
    plain, hostile = PageReader(whole()), PageReader(whole(text))
    assert [tag for tag, _, _ in hostile.elements] == [tag for tag, _, _ in plain.elements]
    assert [sorted(attrs) for _, attrs, _ in hostile.elements] == [sorted(attrs) for _, attrs, _ in plain.elements]
    shown = text.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")
    assert hostile.all("h1")[0][1] == shown
    if "\x00" not in text:
        assert hostile.figures["curves"]["views"][0]["series"][0]["name"] == text
        assert hostile.all("p", title=text)


def test_a_page_needs_nothing_from_outside():
    document = PageReader(whole())
    policy = document.all("meta", **{"http-equiv": "Content-Security-Policy"})[0][0]["content"]
    assert policy.startswith("default-src 'none'")
    for _, attrs, _ in document.elements:
        for name in ("src", "href"):
            assert attrs.get(name, "#").startswith(("#", "data:"))
    assert "url(http" not in whole()
    assert "import(" not in whole()


def test_the_contents_link_to_the_sections_and_identifiers_are_unique():
    document = PageReader(whole())
    assert {attrs["href"] for attrs, _ in document.all("a")} == {"#one", "#content"}
    assert len(document.ids) == len(set(document.ids))
    assert len(document.all("h1")) == 1
    assert document.all("html")[0][0]["lang"] == "en"


def test_a_table_shows_four_digits_and_a_dash_for_what_is_missing():
    assert rows_of(whole(), "numbers") == [["plain", "1.235"], ["plain", "-"]]


@pytest.mark.parametrize(
    "values", [np.linspace(-3, 5, 101), np.array([1e300, -1e300, 0.0]), np.array([2.0, 2.0]), np.zeros((0,))]
)
def test_packed_numbers_come_back_within_half_a_step(values):
    again = unpacked(packed(values))
    assert again.shape == values.shape
    step = (values.max(initial=0) / 2 - values.min(initial=0) / 2) / 32_767
    np.testing.assert_allclose(again, values, rtol=1e-12, atol=0.51 * step)


def test_numbers_that_are_not_finite_become_gaps():
    again = unpacked(packed([[1.0, np.nan], [np.inf, 3.0]]))
    np.testing.assert_array_equal(again, [[1.0, np.nan], [np.nan, 3.0]])
    assert np.isnan(unpacked(packed([np.nan, -np.inf]))).all()


def test_a_page_that_is_too_large_is_refused(tmp_path):
    large = page("large", None, [Section("one", "one", [tag("p", "x" * 3_000_000)])])
    with pytest.raises(OutputError, match=r"would have 3.0 MB, but at most 3 MB are allowed"):
        write_page(tmp_path / "large.html", large)
    assert list(tmp_path.iterdir()) == []
    write_page(tmp_path / "small.html", page("ü", None, []))
    assert "ü" in (tmp_path / "small.html").read_text(encoding="utf-8")


def test_an_image_is_embedded_with_its_description():
    (attrs, _), *_ = PageReader(image(b"\x89PNG", "title", "what is seen")).all("img")
    assert attrs == {"src": "data:image/png;base64,iVBORw==", "alt": "what is seen"}
