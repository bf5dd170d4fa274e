"""Reports of comparisons and of several folders; what is missing or damaged is said on the page."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from civi.cli.main import app
from civi.experiment.report.comparison_report import write_comparison_report
from civi.experiment.report.run_report import write_run_report
from civi.experiment.report.side_by_side import DIFFERENT
from civi.experiment.solver_result import Curve, SolverResult
from civi.files import write_json
from civi.inference.diagnose.trust import Finding
from civi.inference.report.content import Content
from civi.inference.report.looks import LOOKS
from civi.inference.run_curve import curve_of
from civi.page import LARGEST
from civi.page.data import unpacked
from civi.solver import SOLVERS
from page_reader import PageReader, rows_of

POINTS, SEEDS = 21, 5
LAST = list(LOOKS)[-1]


def result(solver: str, kl: float, diverged=None) -> dict:
    values = (np.linspace(3, kl, POINTS)[:, None] * np.linspace(0.9, 1.1, SEEDS)).tolist()
    measures = [{"kl": kl * (1 + 0.1 * i), "sliced_wasserstein": 0.1} for i in range(SEEDS)]
    curve = Curve(list(range(0, 2100, 100)), np.linspace(0, 4, POINTS).tolist(), values)
    ended = diverged or [None] * SEEDS
    return SolverResult(solver, measures, curve, ended, 4.0, 1.0, 2000, {"steps": "2000"}, np.zeros((2, 2))).as_json()


@pytest.fixture
def folder(tmp_path):
    results = [result(name, 0.01 * (i + 1)) for i, name in enumerate(LOOKS) if name != "nuts"]
    results[-1]["diverged"] = [None, 700, None, None, 1400]
    results[-1]["curve"]["neg_elbo"][-1][1] = float("nan")
    content = {"task": "banana", "rank_by": "kl", "secondary": "sliced_wasserstein", "seeds": list(range(SEEDS))}
    write_json(tmp_path / "comparison.json", content | {"solvers": results})
    return tmp_path


def test_all_solvers_fit_into_a_page_with_their_own_colours(folder):
    page = write_comparison_report(folder).read_text(encoding="utf-8")
    assert len(page.encode()) < LARGEST / 10
    views = PageReader(page).figures["curves-chart"]["views"]
    assert [view["name"] for view in views] == ["steps", "seconds"]
    lines = {one["name"]: one for one in views[0]["series"] if one["kind"] == "line"}
    assert set(lines) == set(SOLVERS)
    for name, line in lines.items():
        assert line["colour"] == LOOKS[name].colour
    np.testing.assert_allclose(unpacked(lines["civi"]["y"]), np.linspace(3, 0.02, POINTS), atol=1e-3)


def test_the_ranking_has_the_spread_and_the_divergences_their_steps(folder):
    page = write_comparison_report(folder).read_text(encoding="utf-8")
    first = rows_of(page, "ranking-table")[0]
    values = 0.02 * (1 + 0.1 * np.arange(SEEDS))
    assert first[:6] == ["civi", "1", *(f"{v:.4g}" for v in (values.mean(), values.std(ddof=1), 0.02, 0.028))]
    assert rows_of(page, "divergence-table") == [
        [LAST, "1", "700", "2000", "35%"],
        [LAST, "4", "1400", "2000", "70%"],
    ]
    assert "civi has the lowest kl" in page


def finished(folder, title, solver="civi", names=("a", "b")):
    folder.mkdir()
    rng = np.random.default_rng(0)
    history = {"step": np.arange(1.0, 50), "seconds": np.arange(1.0, 50), "neg_elbo": rng.normal(size=49)}
    findings = [Finding("k_hat", 0.1, "good", "Fine.")]
    content = Content(title=title, solver=solver, findings=findings, names=list(names), runs=[curve_of(history)],
                      draws=rng.normal(size=(100, 2)), measures={"kl": "0.1"})  # fmt: skip
    write_run_report(content, folder)
    return folder


def test_several_folders_stand_side_by_side(folder, tmp_path):
    one, two = finished(tmp_path / "one", "first"), finished(tmp_path / "two", "second", "sivi")
    out = tmp_path / "all.html"
    answer = CliRunner().invoke(app, ["report", str(one), str(two), str(folder), "--out", str(out)])
    assert (answer.exit_code, answer.output) == (0, f"the report is {out}\n")
    page = out.read_text(encoding="utf-8")
    figures = PageReader(page).figures
    assert {one["name"] for one in figures["curves-chart"]["views"][0]["series"]} == {"first", "second"}
    assert [view["name"] for view in figures["marginals-chart"]["views"]] == ["a", "b"]
    assert ["kl", "0.1", "0.1"] in rows_of(page, "results-table")
    assert len(rows_of(page, "folder2-ranking-table")) == len(SOLVERS)
    assert DIFFERENT not in page
    third = finished(tmp_path / "three", "third", names=("c", "d"))
    assert CliRunner().invoke(app, ["report", str(one), str(third), "--out", str(out)]).exit_code == 0
    assert DIFFERENT in out.read_text(encoding="utf-8")


def test_one_folder_gives_the_page_that_the_run_wrote(tmp_path):
    folder = finished(tmp_path / "one", "first")
    before = (folder / "report.html").read_text(encoding="utf-8")
    assert CliRunner().invoke(app, ["report", str(folder), "--out", str(tmp_path / "again.html")]).exit_code == 0
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == before


def half_written(folder):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"task": "banana", "solver": "sivi", "settings": {"steps": "9"}}))
    (folder / "history.csv").write_text("step,neg_elbo,seconds\n1,2.5,0.1\n2,,0.2\n")
    (folder / "metrics.json").write_text("{")
    (folder / "draws.nc").write_bytes(b"not a file")


def test_a_half_written_folder_gives_a_page_that_says_what_is_missing(tmp_path):
    half_written(tmp_path / "half")
    answer = CliRunner().invoke(app, ["report", str(tmp_path / "half")])
    assert answer.exit_code == 0, answer.output
    page = PageReader((tmp_path / "half" / "report.html").read_text(encoding="utf-8"))
    lines = page.all("div", class_="missing")[0][1]
    for line in (
        "report.civi is missing",
        "posterior.civi is missing",
        "metrics.json is damaged",
        "draws.nc is damaged",
    ):
        assert line in lines
    assert page.all("h1")[0][1] == "banana with sivi"
    assert "training-chart" in page.figures


@pytest.mark.parametrize("text", ["{", "[]", '{"task": "a", "rank_by": "kl", "seeds": [0], "solvers": [{}]}'])
def test_a_damaged_comparison_gives_a_page_that_says_so(tmp_path, text):
    (tmp_path / "comparison.json").write_text(text)
    assert CliRunner().invoke(app, ["report", str(tmp_path)]).exit_code == 0
    assert "comparison.json is damaged" in (tmp_path / "report.html").read_text()


def test_a_damaged_content_falls_back_to_the_other_files(tmp_path):
    folder = finished(tmp_path / "one", "first")
    (folder / "report.civi").write_bytes(b"PK")
    assert CliRunner().invoke(app, ["report", str(folder)]).exit_code == 0
    assert "not a civi report, or it is damaged" in (folder / "report.html").read_text()
