"""When a run is still improving, when its learning rate begins to decay, and when it counts as converged."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from civi.inference import restarts
from civi.inference.restarts import Run, Schedule, improved
from civi.update import CiviAdam, FirstOrder

STEPS, NEVER = 1500, float("inf")


def run(fall, noise=0.05, seed=0, steps=STEPS):
    """The neg_elbo of one run that falls by `fall` in every third of its steps."""
    steady = -3 * fall * np.arange(steps) / steps
    return steady + noise * np.random.default_rng(seed).normal(size=steps)


def test_a_falling_run_gains_and_a_level_one_seldom_does():
    """A run that does not improve has a difference above one standard error with probability 0.16."""
    assert improved(run(0.05), 0.005)
    assert sum(improved(run(0.0, seed=seed), 0.005) for seed in range(40)) <= 40 * 0.16 + 6
    assert not improved(run(-0.05), 0.005)
    assert not improved(np.full(STEPS, np.nan), 0.005)


@pytest.mark.parametrize(("least", "expected"), [(0.01, True), (0.1, False)])
def test_a_gain_counts_from_the_least_that_is_asked(least, expected):
    assert improved(run(0.05), least) is expected


def schedule(steps=10_000, deadline=NEVER, update=None, dim=3):
    solver = SimpleNamespace(steps=steps, update=update or FirstOrder(decay="hold"))
    return Schedule.of(solver, dim, time.perf_counter(), deadline)


def at(plan, done, fall):
    """Whether the decay begins after `done` steps that fell by `fall` in every third."""
    plan.done = done
    return plan.decay_begins(run(fall, noise=1e-4, steps=done))


def test_the_rate_is_held_while_the_elbo_improves_and_decays_over_half_as_many_steps():
    plan = schedule()
    assert not at(plan, restarts.FIRST_CHECK - restarts.CHECK_EVERY, 0.0), "too early for a test"
    assert not at(plan, 2000, 1.0)
    assert at(plan, 2250, 0.0)
    assert (plan.stalled, plan.held, plan.end) == (True, 2250, 2250 + 1125)
    assert not at(plan, 2500, 0.0), "it begins only once"
    plan.done = plan.end
    assert "stopped improving after 2250 steps" in plan.message(halted=False)


def test_a_run_that_improves_until_half_of_its_steps_decays_then_and_has_not_converged():
    plan = schedule(steps=4000)
    assert not at(plan, 1750, 1.0)
    assert at(plan, 2000, 1.0)
    assert (plan.stalled, plan.cut) == (False, False)
    assert plan.end <= 4000
    assert "still improving" in plan.message(halted=False)


@pytest.mark.parametrize(("fall", "converged"), [(0.035, True), (0.07, False)])
def test_in_many_dimensions_a_small_gain_keeps_a_run_going_but_it_may_still_have_converged(fall, converged):
    """In 100 dimensions, training goes on for 0.025 nats; at its last step, up to 0.05 nats count as converged."""
    plan = schedule(steps=4000, dim=100)
    assert not at(plan, 1750, fall)
    assert at(plan, 2000, fall)
    assert plan.stalled is converged


def test_a_run_that_is_short_of_time_decays_and_has_not_converged():
    plan = schedule(deadline=time.perf_counter() - 1)
    assert at(plan, 250, 1.0)
    assert (plan.stalled, plan.cut) == (False, True)
    assert "out of time" in plan.message(halted=False)


def test_another_schedule_keeps_all_its_steps():
    for update in (FirstOrder(decay="cosine"), CiviAdam()):
        plan = schedule(update=update)
        assert not at(plan, 5000, 0.0)
        assert (plan.end, plan.stalled) == (10_000, False)
        assert "improving" not in plan.message(halted=False)


def test_a_run_that_is_no_longer_finite_says_so():
    assert "no longer finite" in schedule().message(halted=True)


def test_a_run_is_judged_by_the_last_tenth_of_its_steps():
    neg_elbo = np.r_[np.full(90, 7.0), np.full(10, 2.0)]
    history = {"step": np.arange(1, 101), "neg_elbo": neg_elbo}
    made = Run.__new__(Run)
    object.__setattr__(made, "history", history)
    assert made.neg_elbo == 2
    history["neg_elbo"] = np.full(100, np.nan)
    assert made.neg_elbo == np.inf
    history |= {"step": np.zeros(0), "neg_elbo": np.zeros(0)}
    assert made.neg_elbo == np.inf
