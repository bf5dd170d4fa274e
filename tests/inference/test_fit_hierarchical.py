"""`civi.fit` on the eight schools: centring, few programs, the same bits when busy, and no worse than its pilot."""

import subprocess
import sys
from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

from civi.inference import draws as drawing
from civi.inference import fit as fitting
from civi.inference import moments, programs, restarts, selection
from civi.inference import posterior as posteriors
from civi.inference.seeds import words_of
from compilations import COMPILATIONS
from fitting import short_fit

EFFECT = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], np.float32)
ERROR = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], np.float32)
STEPS, MOST_PROGRAMS = 200, 15


def schools(effect, error):
    mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, error), obs=effect)


def fit(effect=EFFECT, key=0, **options):
    return short_fit(schools, effect, ERROR, key=key, steps=STEPS, **options)


def used(fitted):
    """Everything that a user asks of a fit."""
    return fitted.sample(1, 1200), fitted.diagnose(2), fitted.elbo(3)


def same_bits(fitted, other) -> bool:
    leaves = (jax.tree.leaves(eqx.filter((one.family, one.target.frame), eqx.is_array)) for one in (fitted, other))
    arrays = all(np.array_equal(a, b) for a, b in zip(*leaves, strict=True))
    history = np.array_equal(fitted.history["neg_elbo"], other.history["neg_elbo"])
    return arrays and history and fitted.r_hat == other.r_hat and fitted.message == other.message


@pytest.fixture(scope="module", autouse=True)
def fewer_draws():
    """Evaluations with fewer draws: the programs are the same, as they work on chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(posteriors, "DRAWS", 200)
        patch.setattr(selection, "DRAWS", 1000)
        patch.setattr(moments, "INNER", 2000)
        yield


@pytest.fixture(scope="module")
def cold():
    """The first fit of a process, and how many programs it and its evaluation compiled."""
    jax.clear_caches()
    programs.forget_programs()
    before = COMPILATIONS.count
    fitted = fit()
    used(fitted)
    return fitted, COMPILATIONS.count - before


@pytest.fixture(scope="module")
def fitted(cold):
    return cold[0]


def test_a_cold_start_compiles_few_programs(cold):
    assert 5 <= cold[1] <= MOST_PROGRAMS


def test_other_data_of_the_same_shapes_compile_nothing(fitted):
    before = COMPILATIONS.count
    other = fit(effect=0.5 * EFFECT + 1, key=4)
    used(other)
    assert COMPILATIONS.count == before
    assert not same_bits(fitted, other)


def test_with_little_data_the_site_is_non_centred_and_has_its_own_name(fitted):
    assert fitted.centring == {"theta": 0.0}
    assert "theta non-centred" in repr(fitted)
    draws = fitted.sample(5, 3000)
    assert {name: value.shape for name, value in draws.items()} == {"mu": (3000,), "tau": (3000,), "theta": (3000, 8)}
    standardised = (draws["theta"] - draws["mu"][:, None]) / draws["tau"][:, None]
    z = fitted.sample_unconstrained(5, 3000)
    np.testing.assert_allclose(standardised, z[:, 2:], rtol=1e-2, atol=1e-2)
    assert abs(draws["mu"].mean() - 4.4) < 1
    assert draws["theta"][:, 0].mean() > draws["theta"][:, 2].mean() + 1


def test_a_model_is_left_alone_if_asked_to(fitted):
    before = COMPILATIONS.count
    written = fit(reparam=False, runs=1)
    assert COMPILATIONS.count > before, "this is another model, and has its own programs"
    assert written.centring == {}
    assert "centred" not in repr(written)
    np.testing.assert_array_equal(written.sample(5, 10)["theta"], written.sample_unconstrained(5, 10)[:, 2:])


def test_a_whole_number_is_the_seed_of_the_same_fit(fitted):
    again = fit(key=jax.random.key(0))
    assert same_bits(fitted, again)
    np.testing.assert_array_equal(again.sample(1, 50)["theta"], fitted.sample(1, 50)["theta"])
    assert not same_bits(fitted, fit(key=1))


def test_a_busy_machine_gives_the_same_bits(fitted):
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        again = fit()
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert same_bits(fitted, again)


def test_runs_side_by_side_give_the_bits_of_one_after_another(fitted, monkeypatch):
    def one_after_another(tasks, stop=None):
        return [task() for task in tasks]

    for module in (restarts, drawing):
        monkeypatch.setattr(module, "side_by_side", one_after_another)
    assert same_bits(fitted, fit())


def test_a_fit_is_never_worse_than_its_pilot(fitted, monkeypatch):
    pilots, train_runs = [], fitting.train_runs

    def spoiled(training, *rest):
        pilots.append(training.framed)
        last = lambda family: family.mixing.biases[-1]  # noqa: E731
        runs = train_runs(training, *rest)
        return [replace(run, family=eqx.tree_at(last, run.family, replace_fn=lambda b: b + 3)) for run in runs]

    monkeypatch.setattr(fitting, "train_runs", spoiled)
    kept = fit()
    assert "Gaussian of the pilot" in kept.message
    assert "Gaussian of the pilot" not in fitted.message, "training that works is kept"
    frame = pilots[0].frame.frame
    exact = stats.multivariate_normal(
        frame.location, np.asarray(frame.factor, float) @ np.asarray(frame.factor, float).T
    )
    drawn = drawing.draw(kept.family, kept.target, words_of(jax.random.key(6)), 20)
    found = drawing.weigh(kept.family, kept.target, words_of(jax.random.key(7)), drawn.w, 1).log_q_plain
    np.testing.assert_allclose(found, exact.logpdf(drawn.z), rtol=1e-4, atol=1e-3)
    assert kept.elbo(7).value > fitted.elbo(7).value - 0.5
