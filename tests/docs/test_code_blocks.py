"""Python code of the documentation compiles, and its names of civi exist. `make docs` executes most of it."""

import ast
import importlib

import pytest

import civi
from doc_pages import PAGES, ROOT, blocks


def missing_names(code: str) -> list[str]:
    """Names that the code imports from civi, or takes from `civi.`, and that do not exist."""
    tree = ast.parse(code)
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imported if (node.module or "").split(".")[0] == "civi"]
    pairs = [(node.module, alias.name) for node in ours for alias in node.names]
    if not any(alias.name == "civi" for node in imported for alias in node.names):
        pairs += [
            ("civi", node.attr)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "civi"
        ]
    return [f"{module}.{name}" for module, name in pairs if not _exists(module, name)]


def _exists(module: str, name: str) -> bool:
    if hasattr(importlib.import_module(module), name):
        return True
    return importlib.util.find_spec(f"{module}.{name}") is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_of_a_page_compiles_and_its_names_exist(page):
    for block in blocks(page):
        if block.is_python:
            assert missing_names(block.code) == [], block.text


def test_a_name_that_does_not_exist_is_found():
    assert missing_names("import civi\ncivi.fitt()") == ["civi.fitt"]
    assert missing_names("from civi.tracker import Bnak") == ["civi.tracker.Bnak"]
    assert missing_names("from civi.compositional import civi\ncivi(c_alpha=0.1)") == []
    assert civi.fit is not None
