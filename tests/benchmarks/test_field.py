"""The table of the field: its cells, the number of steps for a time, and the page."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import field_measure
from civi.errors import OutputError
from civi.experiment.plan import Plan
from field_measure import POSTERIORS, Cell, cells, has_settings, measured, steps_in
from field_page import BEGIN, END, PUBLISHED, draw_field, ordered, table, values, write_page


def result(solver, kl, diverged=None, **others):
    """A result of three seeds on the star; the KLs are around `kl`."""
    rows = [{"kl": kl * (1 + 0.1 * i), "sliced_wasserstein": 0.2, "sliced_wasserstein_floor": 0.1} for i in range(3)]
    content = {"task": "star", "solver": solver, "kind": "equal", "measures": rows, "steps": 100, "seconds": 30.0}
    return content | {"diverged": diverged or [None] * 3} | others


def test_a_cell_for_every_task_solver_and_kind():
    found = cells(["star", "diffusion"], ["civi", "nuts"], ["equal", "paper"])
    assert [cell.file for cell in found[:3]] == [
        "star--civi--equal.json",
        "star--civi--paper.json",
        "star--nuts--equal.json",
    ]
    assert len(found) == 6
    assert "mnist" not in POSTERIORS
    assert {"banana", "waveform", "diffusion", "bnn-boston"} <= set(POSTERIORS)


def test_a_solver_without_settings_is_recorded_and_not_run():
    cell = Cell("diffusion", "civi", "paper")
    assert not has_settings(cell)
    refused = measured(cell, 1.0, 1)
    assert refused["refused"] == "the paper has no settings for task 'diffusion': use --recipe default"


def test_the_number_of_steps_fits_the_seconds(monkeypatch):
    """10 slow first steps and 40 of 0.05 s each: 30 s are 600 steps."""

    seconds = np.concatenate([np.full(10, 9.0), 9 + 0.05 * np.arange(1, 41)])
    trained = SimpleNamespace(history={"step": np.arange(1, 51), "seconds": seconds})
    monkeypatch.setattr(field_measure, "train", lambda *_, **__: trained)
    plan = Plan.make("star", "civi", "default", 0, None, ())
    assert steps_in(plan, 30.0) == 600
    assert steps_in(plan, 1.0) == field_measure.FEWEST


def test_the_table_has_the_best_first_and_leaves_diverged_seeds_out():
    good, bad = result("civi", 0.01), result("sivi", 0.1, diverged=[None, 7, None])
    refused = {"task": "star", "solver": "x", "kind": "equal", "refused": "no"}
    assert [one["solver"] for one in ordered([bad, refused, good], "kl")] == ["civi", "sivi"]
    np.testing.assert_allclose(values(bad, "kl"), [0.1, 0.12])
    np.testing.assert_allclose(values(good, "sliced_wasserstein / floor"), [2, 2, 2])
    lines = table("star", [bad, refused, good]).splitlines()
    assert lines[0] == "| solver | settings | kl | sliced_wasserstein / floor | steps | seconds | diverged |"
    assert lines[2] == "| civi | equal | 0.011 (0.001) | 2 (0) | 100 | 30.0 | - |"
    assert lines[3].endswith("| 1 of 3 |")


def test_the_page_keeps_its_text_and_has_published_figures_beside_ours(tmp_path):
    page, results = tmp_path / "field.md", [result("civi", 0.01), result("sivi", 0.1)]
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        write_page(results, page, "figures/field.png", 30.0, 3)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    assert text.count("### star") == 1
    assert "| KSIVI | KL(q \\|\\| p) | .479 | rerun by VincentWangzt/StatComp |" in text
    draw_field(results, tmp_path / "field.png")
    assert (tmp_path / "field.png").stat().st_size > 5000
    page.write_text("nothing")
    with pytest.raises(OutputError, match="lacks the lines"):
        write_page(results, page, "figures/field.png", 30.0, 3)


def test_published_figures_have_known_tasks_and_sources():
    assert set(PUBLISHED["figures"]) | set(PUBLISHED["remarks"]) <= set(POSTERIORS)
    rows = [row for rows in PUBLISHED["figures"].values() for row in rows]
    assert all(set(row) == {"method", "figure", "value", "source"} for row in rows)
    assert json.loads(json.dumps(PUBLISHED)) == PUBLISHED
