"""`civi fit`: the files of a fit, and errors in one line that write nothing."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray
from typer.testing import CliRunner

import civi
from civi.cli import main as cli
from civi.errors import DataError, OutputError
from civi.experiment.report.run_report import loading_fit
from civi.inference import fit as fitting
from civi.inference import program_files
from civi.inference.diagnose.trust import Finding
from civi.inference.posterior import Diagnosis, Elbo, SemiImplicitPosterior
from exact_posterior import X, Y, exact, line
from page_reader import PageReader, rows_of

MODEL = """
import numpyro
import numpyro.distributions as dist

NUMBER = 3

def line(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(slope * x, 1), obs=y)
"""


@pytest.fixture(autouse=True)
def in_a_folder_with_a_model(tmp_path, monkeypatch):
    """The programs of these tests are not kept, because that is a setting of the whole process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(program_files, "keep_programs", lambda: None)
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "good.json").write_text(json.dumps({"x": X.tolist(), "y": Y.tolist()}))


@pytest.mark.filterwarnings("ignore")
def test_a_fit_writes_its_files_and_shows_the_summary(monkeypatch, tmp_path):
    given = {}

    def stub(model, *args, key, **options):
        given.update(name=model.__name__, args=args, **options)
        return exact(line, *args)

    trust = Diagnosis([Finding("k_hat", 0.8, "doubtful", "A sentence.")])
    monkeypatch.setattr(fitting, "fit", stub)
    monkeypatch.setattr(SemiImplicitPosterior, "diagnose", lambda self, key, progress: trust)
    monkeypatch.setattr(SemiImplicitPosterior, "elbo", lambda self, key, progress: Elbo(-1.5, 0.25))
    command = ["fit", "model.py:line", "--data", "good.json", "--out", "out", "--steps", "7", "--draws", "500"]
    result = CliRunner().invoke(cli.app, command)
    assert result.exit_code == 0, result.output
    assert (given["name"], given["steps"], given["solver"], given["seconds"]) == ("line", 7, "civi", None)
    np.testing.assert_array_equal(given["args"], [X, Y])
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "config.json", "draws.nc", "metrics.json", "posterior.civi", "report.civi", "report.html",
    ]  # fmt: skip
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert [row[0] for row in rows_of(page, "parameters-table")] == ["a", "b", "end"]
    assert "The fit is doubtful" in PageReader(page).all("div", class_="verdict doubtful")[0][1]
    assert {"predictive-chart", "loo-chart", "joint-chart"} <= set(PageReader(page).figures)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config == {
        **{"model": "model.py:line", "data": "good.json", "solver": "civi"},
        **{"seed": 0, "seconds": None, "steps": 7, "reparam": True, "draws": 500},
    }
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics == {
        **{"dim": 2, "elbo": -1.5, "elbo_se": 0.25, "converged": True, "message": "exact", "seconds": 0.1},
        **{"verdict": "doubtful", "findings": [trust.findings[0]._asdict()]},
    }
    assert "the fit is doubtful" in result.output
    assert "elbo -1.5000 ± 0.2500; exact; files are in out, the report is out/report.html" in result.output
    draws = xarray.load_datatree(tmp_path / "out" / "draws.nc", engine="h5netcdf")
    assert draws.posterior["end"].shape == (1, 500)
    assert draws.log_likelihood["y"].shape == (1, 500, len(Y))
    assert f"{float(draws.posterior['a'].mean()):.4g}" in result.output
    loaded = civi.load(tmp_path / "out" / "posterior.civi", line, X, Y)
    np.testing.assert_array_equal(
        loaded.sample(jax.random.key(1), 5)["a"], exact(line, X, Y).sample(jax.random.key(1), 5)["a"]
    )


@pytest.mark.parametrize("data", ["good.json", "good.csv"])
def test_the_code_of_a_report_loads_the_fit(tmp_path, capsys, data):
    """The code is executed as it stands, in the folder of the command."""
    (tmp_path / "model.py").write_text("from exact_posterior import line\n")
    (tmp_path / "good.csv").write_text("x,y\n" + "\n".join(f"{x},{y}" for x, y in zip(X, Y, strict=True)))
    (tmp_path / "out").mkdir()
    exact(line, X, Y).save(tmp_path / "out" / "posterior.civi")
    found = {}
    exec(loading_fit(Path("out"), "model.py:line", data), found)
    np.testing.assert_array_equal(found["posterior"].sample(1, 5)["a"], exact(line, X, Y).sample(1, 5)["a"])
    assert capsys.readouterr().out


MISTAKES = {
    "absent.json": (None, "there is no file absent.json"),
    "half.json": ("{", "half.json is not a JSON file that can be read"),
    "list.json": ("[1]", "list.json must contain a JSON object"),
    "null.json": ('{"x": [1, null, 3], "y": [1, 2, 3]}', "x has 1 of 3 values missing, NaN or infinite (row 2)"),
    "nan.json": (
        '{"x": [1, 2, 3], "y": [NaN, 2, Infinity]}',
        "y has 2 of 3 values missing, NaN or infinite (row 1, 3)",
    ),
    "text.json": ('{"x": ["a", "b"], "y": [1, 2]}', "x is not made of numbers"),
    "ragged.json": ('{"x": [[1], [1, 2]]}', "x has rows of different lengths"),
    "few.json": ('{"y": [1]}', "the model line(x, y) needs x: few.json has no such column or member"),
    "many.json": ('{"x": [1], "z": [1]}', "the model line(x, y) does not take z of many.json"),
    "nan.csv": ("x,y\n1,2\n,3\n", "missing values: x (1, first in row 2)"),
    "text.csv": ("x,y\n1,2\nb,3\n", "not numbers: x ('b' in row 2)"),
    "empty.csv": ("x,y\n", "empty.csv has no rows"),
    "data.txt": ("1", "data.txt must be a .json or a .csv file"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_data_that_cannot_be_used_is_one_line(failing, tmp_path, name):
    text, message = MISTAKES[name]
    if text is not None:
        (tmp_path / name).write_text(text)
    assert message in failing("fit", "model.py:line", "--data", name, "--out", "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("file", "model", "message"),
    [
        ("", "absent.py:line", "there is no file absent.py"),
        ("", "model.py", "'model.py' is not of the form FILE.py:NAME"),
        (MODEL, "mine.py:lien", "unknown model in mine.py 'lien': did you mean 'line'?"),
        (MODEL, "mine.py:NUMBER", "NUMBER in mine.py is not a function"),
        (
            "import numpy\n1 / 0",
            "mine.py:line",
            "mine.py failed when it was executed: ZeroDivisionError: division by zero (line 2)",
        ),
        ("def f(:", "mine.py:f", "mine.py failed when it was executed: SyntaxError"),
        ("raise SystemExit(3)", "mine.py:f", "mine.py failed when it was executed: SystemExit: 3"),
        (MODEL, "mine.py:line", "the model line(x, y) needs x: give them with --data"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_one_line(failing, tmp_path, file, model, message):
    (tmp_path / "mine.py").write_text(file)
    assert message in failing("fit", model, "--out", "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_a_fit_is_kept(failing, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "posterior.civi").write_text("mine")
    message = failing("fit", "model.py:line", "--data", "good.json", "--out", "out")
    assert message == "out already holds a run (posterior.civi): choose another --out, or replace it with --force"
    assert (tmp_path / "out" / "posterior.civi").read_text() == "mine"


def test_a_fit_that_fails_keeps_the_old_one(failing, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "posterior.civi").write_text("mine")
    (tmp_path / "mine.py").write_text("def nothing():\n    pass")
    assert "no latent sites" in failing("fit", "mine.py:nothing", "--out", "out", "--force")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["posterior.civi"]


def test_columns_of_a_csv_file_are_arguments_and_whole_numbers_stay_whole(tmp_path):
    from civi.experiment.data.arguments import bind_arguments, read_arguments

    (tmp_path / "table.csv").write_text("y,x\n1.5,2\n2.5,3\n")
    (tmp_path / "object.json").write_text('{"y": [[1, 2], [3, 4]], "x": 7}')
    (x, y), named = bind_arguments(line, "line", None, read_arguments(tmp_path / "table.csv"))
    assert (x.dtype, y.dtype, named) == (np.int32, np.float32, {})
    np.testing.assert_array_equal([x, y], [[2, 3], [1.5, 2.5]])
    (x, y), _ = bind_arguments(line, "line", None, read_arguments(tmp_path / "object.json"))
    assert (type(x), x, y.shape) == (int, 7, (2, 2))


def test_help_says_that_the_file_is_executed():
    assert "The file is executed" in " ".join(
        CliRunner().invoke(cli.app, ["fit", "--help"], env={"COLUMNS": "200"}).output.split()
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("options", "kept"), [([], 1), (["--no-program-cache"], 0)])
def test_programs_are_kept_unless_told_not_to_and_a_bad_folder_does_not_end_the_fit(monkeypatch, options, kept):
    asked = []

    def refuse():
        asked.append(1)
        raise OutputError("others can write to it")

    def stop(*args, **kwargs):
        raise DataError("this is as far as the test goes")

    monkeypatch.setattr(program_files, "keep_programs", refuse)
    monkeypatch.setattr(fitting, "fit", stop)
    result = CliRunner().invoke(cli.app, ["fit", "model.py:line", "--data", "good.json", *options])
    assert isinstance(result.exception, DataError)
    assert len(asked) == kept
    assert ("the fit goes on without" in result.output) == bool(kept)
