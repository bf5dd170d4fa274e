"""The check of `make docs` that pages load nothing from the network."""

import importlib.util

import pytest

from doc_pages import DOCS


@pytest.fixture(scope="module")
def offline():
    spec = importlib.util.spec_from_file_location("offline", DOCS / "extensions" / "offline.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "text",
    [
        '<script defer="defer" src="https://a.org/b.js"></script>',
        "<img alt='' src=http://a.org/b.png>",
        '<link href="//a.org/b.css" rel="stylesheet" />',
        '<link rel="stylesheet" href="https://a.org/b.css">',
        "@font-face { src: url(https://a.org/b.woff2) }",
        '@import "https://a.org/b.css";',
    ],
)
def test_what_a_page_would_load_is_found(offline, text, tmp_path):
    (tmp_path / "page.html").write_text(text)
    (found,) = offline.check_site(tmp_path)
    assert found.startswith("page.html: ")
    assert "//a.org/b." in found


def test_links_and_own_files_are_allowed(offline):
    page = (
        '<a href="https://a.org">a</a><script src="_static/a.js"></script><link rel="stylesheet" href="a.css">'
        '<link rel="canonical" href="https://a.org/"><img src="data:image/png;base64,//8=">'
        '<math xmlns="http://www.w3.org/1998/Math/MathML"></math>'
    )
    assert offline.loaded_from_network(page) == []
