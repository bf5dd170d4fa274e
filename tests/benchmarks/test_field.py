"""The table of the field: its cells, the number of steps for a time, and the page."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import field_measure
from civi.errors import OutputError
from civi.experiment.plan import Plan
from field_measure import POSTERIORS, Cell, cells, has_settings, measured, steps_in
from field_page import BEGIN, END, PUBLISHED, draw_field, lead, ordered, speed, table, values, write_page
from results_file import add_result, read_results


def result(solver, kl, diverged=None, **others):
    """A result of three seeds on the star; the KLs are around `kl`."""
    rows = [{"kl": kl * (1 + 0.1 * i), "sliced_wasserstein": 0.2, "sliced_wasserstein_floor": 0.1} for i in range(3)]
    content = {"task": "star", "solver": solver, "kind": "equal", "measures": rows, "steps": 100, "cpu_seconds": 30.0}
    return content | {"diverged": diverged or [None] * 3} | others


def test_a_cell_for_every_task_solver_and_kind():
    found = cells(["star", "diffusion"], ["civi", "nuts"], ["equal", "paper"])
    assert found[:3] == [("star", "civi", "equal"), ("star", "civi", "paper"), ("star", "nuts", "equal")]
    assert len(found) == 6
    assert "mnist" not in POSTERIORS
    assert {"banana", "waveform", "diffusion", "bnn-boston"} <= set(POSTERIORS)


def test_a_solver_without_settings_is_recorded_and_not_run():
    cell = Cell("diffusion", "civi", "paper")
    assert not has_settings(cell)
    refused = measured(cell, 1.0, 1)
    assert refused["refused"] == "the paper has no settings for task 'diffusion': use --recipe default"


def test_the_number_of_steps_fits_the_seconds(monkeypatch):
    """10 slow first steps, then 0.05 s of CPU time each: 30 s are 600 steps."""

    clock = SimpleNamespace(now=0.0)

    def train(*_, watch, block, **__):
        for done in range(block, 1000, block):
            clock.now += 9.0 if done == block else 0.05 * block
            if watch(SimpleNamespace(done=done), {}):
                return
        raise AssertionError("the probe did not end")

    monkeypatch.setattr(field_measure, "train", train)
    monkeypatch.setattr(field_measure.time, "process_time", lambda: clock.now)
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
    assert (
        lines[0] == "| solver | settings | kl | sliced_wasserstein / floor | steps | CPU s | ms per step | diverged |"
    )
    assert lines[2] == "| civi | equal | 0.011 (0.001) | 2 (0) | 100 | 30.0 | 3e+02 | - |"
    assert lines[3].endswith("| 1 of 3 |")


def test_civi_leads_ties_or_is_behind_by_two_standard_errors():
    def of(solver, *values):
        return result(solver, 1.0) | {"measures": [{"neg_elbo": value} for value in values]}

    ours = of("civi", 0.9, 1.0, 1.1)
    for others, verdict in (((1.4, 1.5, 1.6), "leads"), ((0.95, 1.0, 1.1), "ties"), ((0.4, 0.5, 0.6), "behind")):
        far, slow = of("sivi", 7.0, 7.0, 7.0), result("uivi", 0.1, kind="paper")
        lines = lead([ours, far, of("bsivi", *others), slow]).splitlines()
        assert lines[2].startswith("| star | 1 (0.1) | bsivi |")
        assert lines[2].endswith(f"| {verdict} |")


def test_speed_is_of_published_settings_that_finished():
    published = result("pvi", 0.1, kind="paper", steps=1000, cpu_seconds=2.0)
    stopped, equal = published | {"diverged": [None, 9, None]}, published | {"kind": "equal"}
    assert speed([published, equal, stopped]).splitlines()[2:] == ["| pvi | star | 2 | 109 to 164 | 54.5 |"]
    assert speed([equal, stopped]) == ""


def test_results_are_kept_line_by_line(tmp_path):
    file, first = tmp_path / "new" / "results.jsonl", result("civi", 0.01)
    assert read_results(file, Cell._fields) == {}
    for one in (first, result("sivi", 0.1), first | {"steps": 7}):
        add_result(file, one)
    found = read_results(file, Cell._fields)
    assert [solver for _, solver, _ in found] == ["civi", "sivi"]
    assert found[Cell("star", "civi", "equal")]["steps"] == 7


def test_the_page_keeps_its_text_and_has_published_figures_beside_ours(tmp_path):
    page, results = tmp_path / "field.md", [result("civi", 0.01), result("sivi", 0.1)]
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        write_page(results, page, "figures/field.png", 30.0)
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
        write_page(results, page, "figures/field.png", 30.0)


def test_published_figures_have_known_tasks_and_sources():
    assert set(PUBLISHED["figures"]) | set(PUBLISHED["remarks"]) <= set(POSTERIORS)
    rows = [row for rows in PUBLISHED["figures"].values() for row in rows]
    assert all(set(row) == {"method", "figure", "value", "source"} for row in rows)
    assert {task for tasks in PUBLISHED["milliseconds"].values() for task in tasks} <= set(POSTERIORS)
    assert json.loads(json.dumps(PUBLISHED)) == PUBLISHED
