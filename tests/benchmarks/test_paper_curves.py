"""The paper's comparison on autoencoders: results survive their file, and a task that has some is drawn."""

import json
from dataclasses import replace

import numpy as np
from matplotlib.image import imread
from rich.console import Console

import paper_curves
from civi.experiment.recipes import settings_for
from civi.experiment.solver_result import Curve, SolverResult
from results_file import add_result, read_results


def result(solver: str, value: float) -> SolverResult:
    curve = Curve([0, 10], [0.0, 2.0], [[500.0], [value]])
    measures = [{"test_neg_log_lik": value, "neg_elbo": value + 5}]
    return SolverResult(solver, measures, curve, [None], 2.0, 1.0, 10, {}, np.zeros((0, 1)), 0.006)


def entry(one: SolverResult) -> dict:
    content = {"task": "mnist", "seed": 0, **one.as_json()}
    return json.loads(json.dumps({name: value for name, value in content.items() if name != "settings"}))


def test_results_are_the_same_after_they_were_written(tmp_path):
    file, first = tmp_path / "results.jsonl", result("sivi", 100.0)
    for one in (first, result("mfvb", 99.0)):
        add_result(file, entry(one))
    found = read_results(file, paper_curves.KEY)
    assert list(found) == [("mnist", "sivi", 0), ("mnist", "mfvb", 0)]
    assert paper_curves.restored(found["mnist", "sivi", 0]).as_json() == first.as_json()


def test_a_diverged_solver_has_done_the_steps_until_then():
    one = result("sivi", 100.0)
    assert paper_curves.steps_done(one) == 10
    assert paper_curves.steps_done(replace(one, diverged=[4, 7])) == 7


def test_the_table_is_sorted_and_the_curves_are_drawn(tmp_path):
    console = Console(record=True, width=200)
    paper_curves.show("mnist", [result("sivi", 100.0), result("mfvb", 99.0)], tmp_path, console)
    text = console.export_text()
    assert text.index("| mfvb |") < text.index("| sivi |")
    assert imread(tmp_path / "paper-mnist.png").std() > 0.01


def test_cadam_is_left_out_because_it_has_the_settings_of_civi_paper():
    for task in paper_curves.TASKS:
        assert settings_for(task, "cadam", "paper") == settings_for(task, "civi-paper", "paper")
    assert "cadam" not in paper_curves.SOLVERS


def test_seeds_are_averaged_without_those_that_diverged():
    every = [result("sivi", 100.0), result("sivi", 102.0), replace(result("sivi", 1e9), diverged=[4])]
    line = paper_curves.over_seeds(every, ("test_neg_log_lik", "neg_elbo"))
    assert line == "sivi, 2 of 3 seeds finished: test_neg_log_lik 101.00 ± 1.41, neg_elbo 106.00 ± 1.41"
