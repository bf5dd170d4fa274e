"""Shell completion of names, and `civi --version`."""

import pytest
from typer.testing import CliRunner

import civi
from civi.bench.command import PARTS
from civi.cli import completion
from civi.cli.main import app
from civi.experiment.recipes import METHODS
from civi.experiment.tasks import OWN_DATA, TASKS


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("run ban", ["banana"]),
        ("run star --solver nmc-", ["nmc-adam", "nmc-rmsprop", "nmc-sgd"]),
        ("compare star --solvers civi,sc", ["civi,scgd"]),
        ("fit model.py:model --solver uiv", ["uivi"]),
        ("bench vae", ["vae-step"]),
        ("data fetch bin", ["binarized-mnist-static"]),
    ],
)
def test_a_shell_completes_names(words, expected):
    line = f"civi {words}"
    asked = {"_CIVI_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    result = CliRunner().invoke(app, prog_name="civi", env=asked)
    assert result.stdout.split() == expected


def test_names_are_complete():
    assert completion.solver_names("") == list(METHODS)
    assert completion.bench_parts("") == [*PARTS, "all"]
    assert [name for name, _ in completion.task_names("")] == [*TASKS, *OWN_DATA]


def test_version():
    assert CliRunner().invoke(app, ["--version"]).stdout == f"civi {civi.__version__}\n"
