"""civi compare: one estimator for all, the ranking, divergence shown, and a solver added in one line."""

import json

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from civi.cli.main import app
from civi.experiment.compare import run_solver
from civi.experiment.outcome import Curve, Outcome, ranked
from civi.experiment.plan import Plan
from civi.experiment.report.comparison import _around_the_ends, happened
from civi.inference.diagnose.divergence import log_ratio_bounds
from civi.solver import SOLVERS, Model, Settings, train
from civi.solver.civi import Civi
from civi.tracker import NoTracker
from civi.update import FirstOrder, Samples

pytestmark = pytest.mark.optimised

TINY = ["family.hidden=4", "samples.outer=8", "samples.inner=5"]


def quick(family):
    """A solver of one's own."""
    return Settings(family, Civi(samples=Samples(16, 8), tracker=NoTracker(), update=FirstOrder("rmsprop")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A comparison with a solver that was added for it, and one made to diverge."""
    out = tmp_path_factory.mktemp("comparison") / "out"
    added = {
        "quick": quick,
        "wild": lambda family: Settings(family, Civi(update=FirstOrder("sgd", learning_rate=1e30))),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, make in added.items():
            patch.setitem(SOLVERS, name, make)
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
    assert (folder / "figures" / "curves.png").stat().st_size > 10_000


def test_many_seeds_at_once_are_the_single_runs():
    plan = Plan.make("star", "civi", "default", 0, 40, [*TINY, "tracker.steps=2"])
    outcome = run_solver(plan, [3, 4], lambda step: None)
    target = plan.task.make()
    family_key, train_key, *_ = plan.keys(4)
    model = Model.make(plan.settings.family, target, family_key)
    alone = train(plan.settings.solver, model, train_key).model
    expected = log_ratio_bounds(alone.family, target, jax.random.key(0), 1000, 2000)[0].mean()
    np.testing.assert_allclose(outcome.curve.neg_elbo[-1][1], expected, rtol=1e-3)
    assert abs(outcome.curve.neg_elbo[-1][0] - expected) > 1e-3


def outcome(name, kl, diverged=(None, None)):
    measures = [{"kl": value} for value in kl]
    return Outcome(name, measures, Curve(), list(diverged), 1.0, 0.0, 10, {}, np.zeros((4, 2)))


def test_curves_are_shown_where_they_end_whatever_a_run_that_diverged_ends_with():
    good, bad = outcome("good", [1.0], [None]), outcome("bad", [1.0], [3])
    for one, values in ((good, [500.0, 30.0, 20.0, 12.0, 11.0]), (bad, [500.0, -1e15])):
        one.curve.neg_elbo.extend([value] for value in values)
    low, high = _around_the_ends([good, bad])
    assert 10 < low < 11
    assert high == 30
    assert _around_the_ends([bad])[0] < -1e14


def test_ranking_puts_complete_results_first():
    best = [
        o.solver
        for o in ranked([outcome("b", [2.0, 2.0]), outcome("c", [0.0, 0.0], (None, 5)), outcome("a", [1.0, 1.0])], "kl")
    ]
    assert best == ["a", "b", "c"]
    assert happened(outcome("c", [0.0, 0.0], (None, 5))) == "1 of 2 diverged, first at step 5"


@pytest.mark.parametrize("options", [["--seeds", "0"], ["--solvers", ","], ["--solvers", "sivy"]])
def test_bad_options(options, tmp_path):
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["compare", "star", "--out", str(out), *options])
    assert result.exit_code != 0
    assert not out.exists()
