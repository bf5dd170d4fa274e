"""Reports in a real browser: no error, no request, every figure drawn, switches that work, and no serious fault."""

from pathlib import Path

import pytest

pytest.importorskip("axe_playwright_python", reason="pip install axe-playwright-python, then run `make browser`")
from axe_playwright_python.sync_playwright import Axe

KINDS = ("toy", "regression", "fit", "autoencoder", "comparison")
WIDTHS = (1280, 390)
SERIOUS = ("serious", "critical")
FIGURES = {
    "toy": {"density-chart", "training-chart", "marginals-chart", "joint-chart", "weights-chart"},
    "regression": {"training-chart", "marginals-chart", "joint-chart", "weights-chart"},
    "fit": {"training-chart", "marginals-chart", "joint-chart", "weights-chart", "predictive-chart", "loo-chart"},
    "autoencoder": {"training-chart", "latents-chart"},
    "comparison": {"spread-chart", "curves-chart"},
}
MARKS = "svg path.line, svg path.area, svg path.band, svg path.points, svg path.region"


def drawn(page, chart: str) -> list[str]:
    """The outlines of everything that a chart shows."""
    return page.eval_on_selector_all(f"#{chart} .plot :is({MARKS})", "all => all.map((one) => one.getAttribute('d'))")


def faults(page) -> list[str]:
    """Serious and critical findings of axe-core."""
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in SERIOUS]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_report_is_drawn_without_errors_requests_or_faults(reports, opened, kind, width):
    path = reports(kind)
    for scheme in ("light", "dark"):
        page, seen = opened(path, width, scheme)
        assert page.evaluate("document.documentElement.dataset.ready") == "yes"
        charts = set(page.eval_on_selector_all("figure.chart", "all => all.map((one) => one.id)"))
        assert charts >= FIGURES[kind]
        for chart in charts:
            shapes = drawn(page, chart)
            assert shapes, f"{chart} is empty"
            assert all(shape and "NaN" not in shape for shape in shapes), chart
            for side in ("middle", "end"):
                ticks = page.locator(f"#{chart} .plot text:not([class])[text-anchor={side}]").all_text_contents()
                assert len(set(ticks)) == len(ticks) >= 2, (chart, ticks)
        assert page.evaluate("[...document.images].every((one) => one.complete && one.naturalWidth > 0)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.errors == []
        assert all(address.startswith(("file:", "data:")) for address in seen.addresses)
        assert faults(page) == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_switches_lists_zoom_and_keys_work_in_every_chart(reports, opened, kind, width):
    page, seen = opened(reports(kind), width)
    for chart in page.eval_on_selector_all("figure.chart", "all => all.map((one) => one.id)"):
        _switch(page, chart)
        if page.locator(f"#{chart} select").count():
            _choose(page, chart)
        if page.locator(f"#{chart} .reset").count():
            _zoom(page, chart)
    assert seen.errors == []


def _switch(page, chart: str) -> None:
    button, before = page.locator(f"#{chart} .legend button").first, drawn(page, chart)
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert len(drawn(page, chart)) < len(before)
    button.press("Enter")
    assert button.get_attribute("aria-pressed") == "true"
    assert drawn(page, chart) == before


def _choose(page, chart: str) -> None:
    chosen, before = page.locator(f"#{chart} select").last, page.inner_html(f"#{chart} .plot")
    values = chosen.locator("option").evaluate_all("all => all.map((one) => one.value)")
    start = chosen.input_value()
    chosen.select_option(next(value for value in reversed(values) if value != start))
    assert page.inner_html(f"#{chart} .plot") != before
    chosen.select_option(start)
    assert page.inner_html(f"#{chart} .plot") == before


def _zoom(page, chart: str) -> None:
    plot, reset = page.locator(f"#{chart} .plot"), page.locator(f"#{chart} .reset")
    plot.scroll_into_view_if_needed()
    before, box = drawn(page, chart), plot.bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 110, steps=3)
    page.mouse.up()
    assert reset.is_visible()
    assert drawn(page, chart) != before
    plot.focus()
    page.keyboard.press("ArrowRight")
    assert page.inner_text(f"#{chart} .reading")
    page.keyboard.press("Escape")
    assert not reset.is_visible()
    assert drawn(page, chart) == before


def test_tables_sort_search_and_select_marginals(reports, opened):
    page, _ = opened(reports("fit"), 1280)
    place = "#parameters-table"

    for order, sign in (("ascending", 1), ("descending", -1)):
        page.locator(f"{place} thead button").nth(1).click()
        assert page.locator(f"{place} thead th").nth(1).get_attribute("aria-sort") == order
        means = [float(text) for text in page.locator(f"{place} tbody td:nth-child(2)").all_inner_texts()]
        assert means == sorted(means, reverse=sign < 0)
    page.locator(f"{place} input").fill("theta")
    names = page.locator(f"{place} tbody tr:visible th").all_inner_texts()
    assert sorted(names) == [f"theta[{i}]" for i in range(8)]
    page.locator(f"{place} tbody tr:visible th button").last.click()
    chosen = page.locator("#marginals-chart select").evaluate("one => one.selectedOptions[0].textContent")
    assert chosen == names[-1]


def test_the_theme_can_be_switched_and_print_is_light(reports, opened):
    page, _ = opened(reports("toy"), 1280)

    def ground() -> str:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    assert ground() == "rgb(255, 255, 255)"
    page.locator("#theme").click()
    assert ground() == "rgb(20, 23, 26)"
    page.emulate_media(media="print")
    assert ground() == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()


def test_broken_pages_are_found_out(opened, tmp_path):
    """Each of the checks above fails on a page that is wrong in this way."""
    broken = tmp_path / "broken.html"
    broken.write_text(
        "<!doctype html><html lang=en><title>broken</title><main><h1>broken</h1><img src=http://127.0.0.1:9/a.png>"
        "<p style='color:#ccc;background:#fff'>pale</p><div style='width:900px'>wide</div></main>"
        "<script>undefined.missing</script>",
        encoding="utf-8",
    )
    page, seen = opened(Path(broken), 390)
    page.wait_for_load_state()
    assert seen.errors
    assert any(address.startswith("http:") for address in seen.addresses)
    assert page.evaluate("document.documentElement.scrollWidth") > 390
    found = " ".join(faults(page))
    assert "image-alt" in found
    assert "color-contrast" in found
