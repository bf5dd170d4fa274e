"""`import civi` and `civi --help` are fast: heavy packages are imported only when they are needed."""

import json
import subprocess
import sys

import pytest

import civi

CHECK = """
import json, sys

HEAVY = ("jax", "numpy", "equinox", "optax", "orbax", "matplotlib", "arviz")
loaded = {}

def look(moment):
    loaded[moment] = [name for name in HEAVY if name in sys.modules]

import civi
look("import civi")
version = civi.__version__
look("civi.__version__")
import civi.cli.main
look("import civi.cli.main")
from typer.testing import CliRunner
codes = [CliRunner().invoke(civi.cli.main.app, arguments).exit_code for arguments in (["--help"], ["tasks"])]
look("--help and tasks")
civi.SemiImplicit
look("civi.SemiImplicit")
print(json.dumps([codes, loaded]))
"""


def test_nothing_heavy_is_imported_before_it_is_needed():
    done = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, timeout=120, check=True)
    codes, loaded = json.loads(done.stdout)
    assert codes == [0, 0]
    assert "jax" in loaded.pop("civi.SemiImplicit")
    assert loaded == {"import civi": [], "civi.__version__": [], "import civi.cli.main": [], "--help and tasks": []}


def test_every_public_name_is_what_it_says():
    assert len(civi.__all__) == len(set(civi.__all__)) >= 9
    for name in set(civi.__all__) - {"__version__"}:
        assert getattr(civi, name).__name__ == name
    assert dir(civi) == sorted(civi.__all__)
    assert issubclass(civi.CiviError, Exception)


def test_the_version_is_that_of_the_package():
    from importlib.metadata import version

    assert civi.__version__ == version("civi")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'civi' has no attribute 'SemiExplicit'"):
        _ = civi.SemiExplicit
    assert not hasattr(civi, "fitt")
