"""Sphinx configuration. `make docs` builds the site; every warning is an error."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
CACHE = DOCS / "_cache"

sys.path[:0] = [str(ROOT / "src"), str(DOCS / "extensions")]

from sphinx.util.inspect import TypeAliasForwardRef  # noqa: E402

import civi  # noqa: E402 the package of this checkout


def source_digest() -> str:
    """A digest of the package and its pinned dependencies: outputs of executed pages are kept for this version only."""
    files = [*sorted((ROOT / "src").rglob("*.py")), ROOT / "constraints.txt"]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


project = "civi"
author = "The civi authors"
project_copyright = author
release = version = civi.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.doctest",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxcontrib.bibtex",
    "formulas",
    "offline",
]
exclude_patterns = ["_build", "_cache", "extensions", "figures"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!civi\.\w+$).*")]
default_role = "code"
highlight_language = "none"

# Pages: Markdown (MyST); those with a jupytext header are executed.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"
nb_execution_mode = "cache"
nb_execution_cache_path = str(CACHE / "pages" / source_digest())
nb_execution_timeout = 1800
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_ipywidgets_js = {}  # no page has widgets, whose scripts would come from the network

# Executed pages use the commands of this environment and share their compiled programs.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(DOCS / "figures"), os.environ.get("PYTHONPATH", "")])
os.environ["JAX_COMPILATION_CACHE_DIR"] = os.environ["CIVI_CACHE_DIR"] = str(CACHE / "programs")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
os.environ["COLUMNS"] = "80"
os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

# API reference
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_type_aliases = {"KeyOrSeed": "KeyOrSeed", "PRNGKeyArray": "PRNGKeyArray"}
TypeAliasForwardRef.__repr__ = lambda alias: alias.name  # an alias within Callable[...] is shown by its name
python_maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

# Appearance
html_theme = "sphinx_book_theme"
html_title = "civi"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_math_renderer = "mathml"
html_context = {"default_mode": "auto"}
html_theme_options = {"show_toc_level": 2, "home_page_in_toc": False, "use_download_button": False}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"


def escape_bars(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape the bars of absolute values, which reStructuredText takes for substitutions."""
    lines[:] = [line.replace("|", r"\|") for line in lines]


def plain_defaults(app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: Any) -> Any:
    """Show a default that is made by a function as dots, instead of Python's name of that function."""
    return None if signature is None else (re.sub(r"<(factory|function \w+)>", "...", signature), returns)


def setup(app: Any) -> None:
    """Register the changes of docstrings and signatures."""
    app.connect("autodoc-process-docstring", escape_bars)
    app.connect("autodoc-process-signature", plain_defaults)
