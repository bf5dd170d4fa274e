"""`civi.fit` against exact posteriors: a badly scaled Gaussian and a conjugate NumPyro model."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

import civi
from civi.inference import restarts
from fitting import short_fit

pytestmark = pytest.mark.optimised

SCALES = np.array([1e-2, 1.0, 50.0])
MEAN = np.array([3.0, -1.0, 400.0])
CORRELATION = np.array([[1.0, 0.8, 0.0], [0.8, 1.0, -0.3], [0.0, -0.3, 1.0]])
COVARIANCE = CORRELATION * np.outer(SCALES, SCALES)
EXACT = stats.multivariate_normal(MEAN, COVARIANCE)
DATA = np.array([1.2, 0.7, 2.9, 1.6, 2.2], np.float32)


def log_density(z):
    precision = np.linalg.inv(COVARIANCE)
    away = z - MEAN
    return -0.5 * away @ precision @ away - 0.5 * float(np.linalg.slogdet(2 * np.pi * COVARIANCE)[1])


def conjugate(scale, y=None):
    """mu ~ N(0, 2), y ~ N(mu, scale): the posterior of mu is normal. The data carry no information on tau."""
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.LogNormal(0.5, 0.4))
    numpyro.deterministic("both", jnp.stack([mu, tau]))
    numpyro.sample("y", dist.Normal(mu, scale).expand([5]).to_event(1), obs=y)


@pytest.fixture(scope="module", autouse=True)
def early_checks():
    """Runs of 400 steps check often enough whether the ELBO still improves, and these targets are easy."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"CHECK_EVERY": 50, "FIRST_CHECK": 150, "GAIN": 0.1}.items():
            patch.setattr(restarts, name, value)
        yield


@pytest.fixture(scope="module")
def gaussian():
    return civi.fit(log_density, dim=3, key=jax.random.key(0), steps=400, progress=False)


@pytest.fixture(scope="module")
def model():
    return short_fit(conjugate, 0.5, y=DATA, key=jax.random.key(0), steps=400)


def test_a_badly_scaled_gaussian_is_found(gaussian):
    draws = gaussian.sample(jax.random.key(1), 20_000)
    whitened = np.linalg.solve(np.linalg.cholesky(COVARIANCE), (np.asarray(draws, np.float64) - MEAN).T)
    np.testing.assert_allclose(whitened.mean(1), 0, atol=0.06)
    np.testing.assert_allclose(np.cov(whitened), np.eye(3), atol=0.08)


def test_log_prob_brackets_the_exact_density(gaussian):
    z = EXACT.rvs(500, random_state=1)
    lower, upper = gaussian.log_prob(z)
    assert -0.1 < (lower - EXACT.logpdf(z)).mean() <= (upper - EXACT.logpdf(z)).mean()
    assert abs((upper - EXACT.logpdf(z)).mean()) < 0.1
    assert abs((upper - EXACT.logpdf(z) - 0.5).mean()) > 0.1


def test_the_elbo_of_a_normalised_density_is_just_below_zero(gaussian):
    value, error = gaussian.elbo(jax.random.key(2))
    assert -0.05 < value < 4 * error


def test_a_good_fit_is_called_good(gaussian):
    diagnosis = gaussian.diagnose(jax.random.key(3))
    assert diagnosis.verdict == "good", str(diagnosis)
    assert {finding.name for finding in diagnosis.findings} >= {"k_hat", "lost_efficiency", "inner_bias", "lost_mode"}


def test_independent_runs_agree_and_training_says_how_it_ended(gaussian):
    assert 0.99 < gaussian.r_hat < 1.02
    assert gaussian.converged
    steps = len(gaussian.history["step"])
    assert f"finished after {steps} steps" in gaussian.message
    np.testing.assert_array_equal(gaussian.history["step"], np.arange(1, steps + 1))
    assert np.isfinite(gaussian.history["neg_elbo"]).all()


def again(**options):
    """The same fit with another key; its program has already been compiled."""
    return civi.fit(log_density, dim=3, key=jax.random.key(1), runs=1, steps=400, progress=False, **options)


def test_a_fit_that_still_improves_at_its_last_step_has_not_converged(monkeypatch):
    monkeypatch.setattr(restarts, "GAIN", -10.0)
    monkeypatch.setattr(restarts, "GAIN_PER_DIMENSION", -10.0)
    monkeypatch.setattr(restarts, "CONVERGED_PER_DIMENSION", -10.0)
    with pytest.warns(UserWarning, match="has not converged"):
        stopped = again()
    assert not stopped.converged
    assert "still improving" in stopped.message
    assert len(stopped.history["step"]) == 400


def test_a_fit_that_is_out_of_time_has_not_converged():
    with pytest.warns(UserWarning, match="has not converged"):
        stopped = again(seconds=0.1)
    assert stopped.message.startswith("out of time")
    assert not stopped.converged
    assert len(stopped.history["step"]) < 400


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 0.5), (3.0, 1.0)], ids=["scale halved", "mean shifted"])
def test_a_fit_that_is_moved_away_is_not_called_good(gaussian, shift, scale):
    frame = gaussian.target.frame
    moved = eqx.tree_at(
        lambda f: (f.location, f.factor), frame, (frame.location + shift * frame.factor.sum(1), frame.factor * scale)
    )
    bad = dataclasses.replace(gaussian, target=eqx.tree_at(lambda s: s.frame, gaussian.target, moved))
    assert bad.diagnose(jax.random.key(3)).verdict != "good"


def test_sites_come_back_in_the_users_names_shapes_and_space(model):
    draws = model.sample(jax.random.key(1), 1000)
    assert {name: value.shape for name, value in draws.items()} == {"mu": (1000,), "tau": (1000,), "both": (1000, 2)}
    assert (draws["tau"] > 0).all()
    np.testing.assert_array_equal(draws["both"], jnp.stack([draws["mu"], draws["tau"]], axis=1))


def test_a_conjugate_posterior_is_found(model):
    draws = model.sample(jax.random.key(2), 20_000)
    precision = 1 / 4 + 5 / 0.25
    mean, sd = DATA.sum() / 0.25 / precision, precision**-0.5
    assert abs(draws["mu"].mean() - mean) < 0.06 * sd
    np.testing.assert_allclose(draws["mu"].std(), sd, rtol=0.05)
    np.testing.assert_allclose(np.log(draws["tau"]).std(), 0.4, rtol=0.05)


def test_resampling_and_the_data_tree_keep_the_names(model):
    assert model.sample(jax.random.key(4), 100, resample=True)["both"].shape == (100, 2)
    data = model.to_datatree(jax.random.key(5), 200)
    assert data.posterior["both"].shape == (1, 200, 2)
    assert set(data.sample_stats) == {"lp", "log_q_lower", "log_q_upper", "log_weight"}
    assert data.log_likelihood["y"].shape == (1, 200)
