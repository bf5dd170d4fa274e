"""The page of a posterior: the data in it are those of the content; what is missing leaves no trace; size limits."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from civi.errors import DataError
from civi.inference.diagnose.trust import Finding, Mode
from civi.inference.loo import loo_of
from civi.inference.report.compose import report_page
from civi.inference.report.content import Content, Plane, fingerprint, fingerprints, flattened
from civi.inference.report.content_file import load_content, save_content
from civi.inference.report.glossary import meaning_of
from civi.inference.report.summary import moments
from civi.inference.run_curve import RunCurve, curve_of
from civi.page import LARGEST
from civi.page.data import unpacked
from page_reader import PageReader, rows_of

RNG = np.random.default_rng(1)
GOOD = Finding("k_hat", 0.2, "good", "The fit covers the tails.", "tail")
BAD = Finding("mean_shift", 0.5, "bad", "The mean of a is 0.5 sd off.", "location", "Use refine(key).")


def content(dim: int = 3, **changes) -> Content:
    names = [f"theta[{i}]" for i in range(dim)]
    draws = RNG.normal(size=(500, dim))
    history = {"step": np.arange(1.0, 601), "seconds": np.linspace(0, 2, 600), "neg_elbo": 3 + RNG.normal(size=600)}
    data = RNG.normal(size=8).astype(np.float32)
    made = Content(
        title="a fit",
        findings=[GOOD],
        modes=[Mode(-3.0, 1.0, False), Mode(-9.0, 0.002, True)],
        elbo=(-3.1, 0.01),
        runs=[curve_of(history, 300), curve_of(history, chosen=False)],
        names=names,
        draws=draws,
        log_ratios=0.1 * RNG.normal(size=500),
        reference=RNG.normal(size=(400, dim)),
        observed={"y": data},
        predictive={"y": RNG.normal(size=(50, 8)).astype(np.float32)},
        loo=loo_of({"y": RNG.normal(size=(500, 8))}, np.zeros(500)),
        phases={"pilot": 1.0, "training": 3.0},
        settings={"solver": "civi"},
        versions={"civi": "0"},
        fingerprints={"y": fingerprint(data)},
        code="import civi",
    )
    return replace(made, **changes)


def test_the_verdict_and_what_to_do_next_come_first():
    page = report_page(content(findings=[GOOD, BAD]))
    first = PageReader(page).all("div", class_="verdict bad")[0][1]
    assert first.startswith("The fit is bad")
    assert "location: The mean of a is 0.5 sd off. Use refine(key)." in first
    assert page.index("verdict bad") < page.index("<nav") < page.index("<section")
    good = PageReader(report_page(content())).all("div", class_="verdict good")[0][1]
    assert "Next: use the draws" in good


def test_the_table_has_the_moments_of_the_draws():
    made = content()
    rows = rows_of(report_page(made), "parameters-table")
    ours, truth = moments(made.draws), moments(made.reference)
    assert [row[0] for row in rows] == made.names
    for i, row in enumerate(rows):
        values = [ours.mean[i], ours.sd[i], *np.quantile(made.draws[:, i], (0.05, 0.5, 0.95)), ours.mean_error[i]]
        assert row[1:7] == [f"{value:.4g}" for value in values]
        assert row[11:13] == [f"{truth.mean[i]:.4g}", f"{truth.sd[i]:.4g}"]


def test_the_charts_have_the_numbers_of_the_content():
    made = content()
    figures = PageReader(report_page(made)).figures
    steps, seconds = figures["training-chart"]["views"]
    kept = [one for one in steps["series"] if one["name"] == "run 1 (kept)" and one["kind"] == "line"]
    np.testing.assert_allclose(unpacked(kept[0]["y"]), made.runs[0].neg_elbo, atol=1e-3)
    assert steps["marks"] == [[300.0, "stopped improving"]]
    assert seconds["marks"][0][0] == pytest.approx(1.0, abs=0.02)
    joint = figures["joint-chart"]
    assert [source["filled"] for source in joint["sources"]] == [True, False, False]
    np.testing.assert_allclose(unpacked(joint["arrays"][1][2]), made.draws[:, 2], atol=1e-3)
    assert {view["name"] for view in figures["marginals-chart"]["views"]} == set(made.names)
    k_hats = unpacked(figures["loo-chart"]["views"][0]["series"][0]["y"])
    np.testing.assert_allclose(k_hats, made.loo.k_hats["y"], atol=1e-4)


def test_the_weights_of_the_tail_are_the_sorted_ratios():
    made = content()
    raw = PageReader(report_page(made)).figures["weights-chart"]["views"][0]["series"][0]
    weights = np.exp(made.log_ratios)
    assert unpacked(raw["x"]).max() == pytest.approx(weights.max() / weights.mean(), rel=1e-6)
    assert unpacked(raw["y"]).min() == pytest.approx(1 / 500, rel=1e-6)


def test_a_page_without_anything_but_a_title_is_still_a_page():
    document = PageReader(report_page(Content(title="half a run"), missing=["metrics.json is missing."]))
    assert "not judged" in document.all("div", class_="verdict none")[0][1]
    assert "metrics.json is missing." in document.all("div", class_="missing")[0][1]
    assert document.figures == {}


def test_results_say_what_they_are():
    rows = rows_of(report_page(content(measures={"kl": "0.1", "own_measure": "2"})), "measures-table")
    assert rows == [["kl", "0.1", meaning_of("kl")], ["own_measure", "2", ""]]
    assert meaning_of("kl").startswith("KL(q || p)")


def test_the_note_about_training_follows_the_caption():
    note = "Before step 1,000 values are higher."
    captions = [text for _, text in PageReader(report_page(content(training_note=note))).all("figcaption")]
    assert sum(note in caption for caption in captions) == 1


def test_arrays_inside_of_data_have_fingerprints():
    class Part(NamedTuple):
        words: np.ndarray

    class Data(NamedTuple):
        train: Part
        test: np.ndarray
        source: str

    found = fingerprints(Data(Part(np.arange(3)), np.zeros((2, 2)), "here"))
    assert found == {"train.words": fingerprint(np.arange(3)), "test": fingerprint(np.zeros((2, 2)))}
    assert fingerprints(Data(Part(np.arange(1, 4)), np.zeros((2, 2)), "here"))["train.words"] != found["train.words"]


def test_a_check_that_was_not_possible_has_a_dash_and_no_verdict():
    unknown = Finding("spread", float("nan"), "good", "There was only one run to look at.")
    rows = rows_of(report_page(content(findings=[GOOD, unknown])), "checks-table")
    assert [row[:3] for row in rows] == [[GOOD.name, f"{GOOD.value:.4g}", "good"], ["spread", "-", "not checked"]]


def test_draws_that_are_not_finite_do_not_break_the_page():
    draws = RNG.normal(size=(50, 2))
    draws[3:20, 0] = np.nan
    ratios = np.full(50, np.nan)
    made = content(2, draws=draws, log_ratios=ratios, reference=None, predictive={}, loo=None)
    page = report_page(made)
    assert "50 of 50 weights p / q are not finite" in page
    assert rows_of(page, "parameters-table")[0][1] == "not finite"


def test_hostile_names_stay_text():
    name = "</script><script>alert(1)</script>"
    made = content(2, names=[name, "b"], title=name)
    document = PageReader(report_page(made))
    assert name in document.figures["joint-chart"]["variables"]
    assert sum("alert" in text for _, text in document.all("script") if "figure.chart" in text) == 0


def test_thousands_of_parameters_fit_into_a_page():
    dim = 3000
    draws = RNG.normal(size=(600, dim))
    names = [f"a_rather_long_name_of_a_site[{i}]" for i in range(dim)]
    made = content(dim, names=names, draws=draws, log_ratios=np.zeros(600), reference=draws[:300] + 0.1)
    page = report_page(made)
    assert len(page.encode()) < LARGEST
    assert "There are 3000 parameters; the page has the worst" in page
    assert len(PageReader(page).figures["marginals-chart"]["views"]) == 250


def test_the_content_comes_back_from_its_file(tmp_path):
    plane = Plane((0.0, 1.0), (0.0, 2.0), np.ones((3, 4)), None)
    made = content(2, plane=plane, latents=RNG.normal(size=(3, 20, 4)))
    save_content(made, tmp_path / "report.civi")
    assert report_page(load_content(tmp_path / "report.civi")) == report_page(made)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": 3}, "cannot be read: "),
        ({"draws": np.ones((3, 1))}, "draws do not fit"),
        ({"log_ratios": np.ones(3)}, "log_ratios do not fit the draws"),
        ({"findings": [("a", 1)]}, "cannot be read: "),
        ({"findings": [GOOD._replace(verdict="great")]}, "a finding is wrong"),
        ({"elbo": (1.0,)}, "cannot be read: "),
        ({"runs": [RunCurve(np.ones(2), np.ones(2), np.ones(3), np.ones(2))]}, "a learning curve has a wrong shape"),
        ({"names": ["a", 3]}, "cannot be read: "),
        ({"phases": {"pilot": "long"}}, "cannot be read: "),
        ({"predictive": {"x": np.ones((2, 8))}}, "replicated data do not have the shape of the data"),
        ({"plane": Plane((0.0,), (0.0, 1.0), np.ones((2, 2)), None)}, "the grid has no limits"),
    ],
)
def test_forged_contents_are_refused(tmp_path, change, message):
    """Types are also checked when tests read the file, so that some are refused before the checks of the content."""
    made = content(2)
    for name, value in change.items():
        object.__setattr__(made, name, value)
    save_content(made, tmp_path / "report.civi")
    with pytest.raises(DataError, match=message):
        load_content(tmp_path / "report.civi")


def test_names_of_arrays_have_their_indices():
    names, columns = flattened({"a": np.arange(6.0).reshape(1, 6), "b": np.arange(24.0).reshape(1, 6, 2, 2)}, lead=2)
    assert names == ["a", "b[0][0]", "b[0][1]", "b[1][0]", "b[1][1]"]
    np.testing.assert_array_equal(columns[1], [1, 4, 5, 6, 7])
