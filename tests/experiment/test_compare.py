"""civi compare: the same estimator for all solvers, the ranking, reported divergence, and a user-defined solver."""

import io
import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from civi.cli.main import app
from civi.errors import SettingError
from civi.experiment.compare import plans_that_serve
from civi.experiment.plan import Plan
from civi.experiment.recipes import GROUPS, METHODS
from civi.experiment.recipes.own_papers import OWN_PAPERS
from civi.experiment.report.comparison import _y_limits, outcome_of
from civi.experiment.runners import runner_of
from civi.experiment.solver_result import Curve, SolverResult, ranked
from civi.experiment.tasks import TASKS, find_task
from civi.inference.diagnose.divergence import log_ratio_bounds
from civi.problem import make_problem
from civi.problem.target.feeding import log_offset
from civi.solver import SOLVERS, CompositionalSolver, Method, train
from civi.tracker import NoTracker
from civi.update import FirstOrder, Samples
from small_tasks import Ready, few_images, small_toy

TINY = ["family.hidden=4", "samples.outer=8", "samples.inner=5"]


def quick(family, defaults):
    """A user-defined solver."""
    update = FirstOrder("rmsprop")
    return Method(family, CompositionalSolver(samples=Samples(16, 8), tracker=NoTracker(), update=update))


def wild(family, defaults):
    """A solver that halts at its first step."""
    return Method(family, CompositionalSolver(update=FirstOrder("sgd", learning_rate=1e6)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A comparison with a user-defined solver and one that diverges."""
    out = tmp_path_factory.mktemp("comparison") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SOLVERS, "quick", quick)
        patch.setitem(SOLVERS, "wild", wild)
        patch.setitem(TASKS, "star", Ready(small_toy("star")))
        options = ["--solvers", "wild,quick", "--seeds", "2", "--steps", "60", "--out", str(out)]
        settings = [word for assignment in TINY for word in ("--set", assignment)]
        result = CliRunner().invoke(app, ["compare", "star", *options, *settings], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return out


def strict(path):
    def refuse(constant):
        raise AssertionError(f"{constant} in {path.name}")

    return json.loads(path.read_text(), parse_constant=refuse)


def test_added_solver_is_ranked_first_and_divergence_is_shown(folder):
    content = strict(folder / "comparison.json")
    assert [row["solver"] for row in content["solvers"]] == ["quick", "wild"]
    assert content["rank_by"] == "kl"
    assert content["seeds"] == [0, 1]
    first, last = content["solvers"]
    assert first["diverged"] == [None, None]
    assert all(isinstance(step, int) for step in last["diverged"])
    assert len(first["curve"]["step"]) == len(first["curve"]["neg_elbo"]) == 21
    assert "2 of 2 diverged" in (folder / "comparison.md").read_text()
    assert (folder / "figures" / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("recipe", ["default", "fit"])
def test_many_seeds_at_once_are_the_single_runs(recipe):
    """With the recipe `fit`, the target has trained arrays too: those of its frame."""
    plan = Plan.make(small_toy("star"), "civi", recipe, 0, 40, [*TINY, "tracker.steps=2"])
    outcome = runner_of(plan).run_seeds(plan, [3, 4], lambda step: None)
    seen = plan.settings.pilot.look(plan.source())
    family_key, train_key, *_ = plan.keys(4)
    problem = make_problem(plan.settings.family, seen, family_key)
    alone = train(plan.settings.solver, problem, train_key).problem
    expected = log_ratio_bounds(alone.family, alone.target, jax.random.key(0), 200, 400)[0].mean() - log_offset(seen)
    np.testing.assert_allclose(outcome.curve.neg_elbo[-1][1], expected, rtol=1e-3)
    assert abs(outcome.curve.neg_elbo[-1][0] - expected) > 1e-3


class Screen(Console):
    """A console that keeps its lines."""

    def __init__(self):
        super().__init__(file=io.StringIO())

    @property
    def lines(self):
        return self.file.getvalue().splitlines()


@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_all_leaves_out_with_one_line_what_cannot_serve_the_task(recipe):
    task = replace(find_task("mnist"), load=lambda: rows(400))
    screen = Screen()
    plans = plans_that_serve(METHODS, lambda name: Plan.make(task, name, recipe, 0, None, []), screen)
    left_out = {"default": ("kpg", "ksivi", "sivi-sm", "pvi"), "paper": tuple(OWN_PAPERS)}[recipe]
    assert [plan.solver for plan in plans] == [name for name in SOLVERS if name not in left_out]
    assert [line.split()[0] for line in screen.lines] == [*left_out, "nuts"]
    reason = {
        "default": "an autoencoder trains a decoder, which this objective cannot: choose another solver",
        "paper": "the paper of kpg has no settings for task 'mnist': use --recipe default",
    }
    assert f"kpg is left out: {reason[recipe]}" in screen.lines
    assert screen.lines[-1] == (
        "nuts is left out: nuts samples a single posterior, but mnist has one per datum: choose another solver"
    )
    screen = Screen()
    plans = plans_that_serve(METHODS, lambda name: Plan.make("star", name, recipe, 0, None, []), screen)
    none = ["iwhvi"] if recipe == "paper" else []
    assert [plan.solver for plan in plans] == [name for name in METHODS if name not in none]
    assert [line.split()[0] for line in screen.lines] == none


def test_the_group_paper_has_the_methods_of_the_paper_once_each():
    screen = Screen()
    plans = plans_that_serve(GROUPS["paper"], lambda name: Plan.make("star", name, "paper", 0, None, []), screen)
    assert [plan.solver for plan in plans] == list(GROUPS["paper"])
    assert not screen.lines
    assert set(GROUPS["paper"]) | {"civi", "fullrank"} == set(METHODS) - set(OWN_PAPERS)


def rows(count):
    """Blank images, more than a batch of them."""
    return few_images()._replace(train=np.zeros((count, 784), np.uint8))


def test_a_setting_that_few_solvers_have_leaves_out_the_others():
    screen = Screen()
    plans = plans_that_serve(
        METHODS, lambda name: Plan.make("star", name, "default", 0, None, ["objective.score.burn_in=2"]), screen
    )
    assert [plan.solver for plan in plans] == ["uivi"]
    assert len(screen.lines) == len(METHODS) - 1
    assert screen.lines[0].startswith("civi is left out: unknown setting 'objective.score'")


def test_what_no_solver_can_do_is_an_error():
    with pytest.raises(SettingError, match="unknown setting 'trackr'"):
        plans_that_serve(METHODS, lambda name: Plan.make("star", name, "default", 0, None, ["trackr=ring"]), Screen())


def outcome(name, kl, diverged=(None, None)):
    measures = [{"kl": value} for value in kl]
    return SolverResult(name, measures, Curve(), list(diverged), 1.0, 0.0, 10, {}, np.zeros((4, 2)))


def test_curves_are_shown_where_they_end_whatever_a_run_that_diverged_ends_with():
    good, bad = outcome("good", [1.0], [None]), outcome("bad", [1.0], [3])
    for one, values in ((good, [500.0, 30.0, 20.0, 12.0, 11.0]), (bad, [500.0, -1e15])):
        one.curve.neg_elbo.extend([value] for value in values)
    low, high = _y_limits([good, bad])
    assert 10 < low < 11
    assert high == 30
    assert _y_limits([bad])[0] < -1e14


def test_ranking_puts_complete_results_first():
    best = [
        o.solver
        for o in ranked([outcome("b", [2.0, 2.0]), outcome("c", [0.0, 0.0], (None, 5)), outcome("a", [1.0, 1.0])], "kl")
    ]
    assert best == ["a", "b", "c"]
    assert outcome_of(outcome("c", [0.0, 0.0], (None, 5))) == "1 of 2 diverged, first at step 5"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seeds", "0"], "--seeds must be from 1 to 10000, not 0"),
        (["--solvers", "civi,sivi,civi"], "--solvers names civi more than once"),
        (["--resume"], "there is no comparison in "),
        (["--resume", "--force"], "--force starts a new comparison, --resume continues one"),
        (["--solvers", ","], "--solvers names no solver: give names separated by commas, or all"),
        (["--solvers", "civi,sivy"], "unknown solver 'sivy': did you mean 'sivi'?"),
        (["--set", "problem.batch=5"], "problem.batch needs a target with rows of data"),
    ],
)
def test_a_wrong_option_is_one_line_and_writes_nothing(options, message, failing, tmp_path):
    out = tmp_path / "out"
    assert failing("compare", "star", "--solvers", "civi", "--out", str(out), *options).startswith(message)
    assert not out.exists()
