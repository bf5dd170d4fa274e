"""Every page of the documentation site, except source code, in a real browser, if `make docs` has built it."""

import pytest

from doc_pages import DOCS

SITE = DOCS / "_build" / "html"
PAGES = sorted(page for page in SITE.rglob("*.html") if not page.relative_to(SITE).parts[0].startswith("_"))


@pytest.mark.skipif(not PAGES, reason="there is no site: run `make docs` first")
@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_is_shown_without_errors_requests_or_sideways_scrolling(opened, width):
    wrong = []
    for path in PAGES:
        page, seen = opened(path, width)
        wide = page.evaluate("document.documentElement.scrollWidth")
        lost = page.evaluate("[...document.images].filter((one) => one.complete && !one.naturalWidth).length")
        asked = [one for one in seen.addresses if not one.startswith(("file:", "data:"))]
        if wide > width or lost or asked or seen.errors:
            wrong.append((str(path.relative_to(SITE)), wide, lost, asked, seen.errors))
        page.context.close()
    assert wrong == []
