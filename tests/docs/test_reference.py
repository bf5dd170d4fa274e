"""The API reference has every public name, and every public name has an example that runs."""

import ast
import doctest
import inspect
import re
import textwrap

import pytest

import civi
import civi.compositional
from doc_pages import DOCS

LISTED = ("family", "tracker", "update", "solver", "problem", "settings", "errors")
PUBLIC = {f"civi.{name}": getattr(civi, name) for name in civi.__all__ if name != "__version__"} | {
    f"civi.compositional.{name}": getattr(civi.compositional, name)
    for name in civi.compositional.__all__
    if name != "METHODS"
}
# These train, or change settings of the process: `make docs` runs them.
LONG = {"civi.fit", "civi.fit_many", "civi.sbc", "civi.train", "civi.keep_programs"}


def reference() -> str:
    return "\n".join(page.read_text() for page in sorted((DOCS / "reference").glob("*.md")))


def documented(name: str, text: str) -> bool:
    """Whether the reference documents a name with a directive of its own, or as a member of its module."""
    module, _, last = name.rpartition(".")
    alone = re.search(rf"^\.\. (?:auto\w+|py:\w+):: {re.escape(name)}(?:\(.*\))?$", text, re.MULTILINE)
    listed = re.search(rf"^\.\. automodule:: {re.escape(module)}\n   :members:(.*)$", text, re.MULTILINE)
    return bool(alone or (listed and (not listed[1].strip() or last in re.findall(r"\w+", listed[1]))))


@pytest.mark.parametrize("name", [*PUBLIC, "civi.__version__", "civi.compositional.METHODS"])
def test_every_public_name_is_in_the_reference(name):
    assert documented(name, reference())


def test_a_name_that_is_not_in_the_reference_is_found():
    text = reference()
    assert not documented("civi.fitt", text)
    assert not documented("civi.compositional.minimize", text)
    assert documented("civi.compositional.minimise", text)


@pytest.mark.parametrize("package", LISTED)
def test_packages_below_are_listed_with_all_their_members(package):
    assert re.search(rf"^\.\. automodule:: civi\.{package}\n   :members:$", reference(), re.MULTILINE)


def test_all_methods_of_a_posterior_are_listed():
    assert re.search(r"^\.\. autoclass:: civi\.Posterior\(\)\n   :members:$", reference(), re.MULTILINE)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_argument_of_a_public_function_is_documented(name):
    if not inspect.isfunction(PUBLIC[name]):
        return
    lines = textwrap.dedent(inspect.getdoc(PUBLIC[name]) or "")
    for argument in inspect.signature(PUBLIC[name]).parameters.values():
        stars = {argument.VAR_POSITIONAL: r"\*", argument.VAR_KEYWORD: r"\*\*"}.get(argument.kind, "")
        if argument.name not in ("block_seconds",):
            assert re.search(rf"^    {stars}{argument.name}: ", lines, re.MULTILINE), argument.name


def examples(name: str) -> list[doctest.DocTest]:
    return [found for found in doctest.DocTestFinder(recurse=False).find(PUBLIC[name], name) if found.examples]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example_that_runs(name):
    (example,) = examples(name)
    if name in LONG:
        for line in example.examples:
            ast.parse(line.source)
        return
    assert doctest.DocTestRunner().run(example).failed == 0


def test_a_wrong_example_fails():
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3", {}, "wrong", None, 0)
    assert doctest.DocTestRunner().run(wrong, out=lambda text: None).failed == 1
