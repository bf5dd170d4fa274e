"""`civi.fit` against exact posteriors: a Gaussian of bad scale, and a conjugate NumPyro model."""

import dataclasses
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

import civi
from civi.errors import SettingError, TargetError
from civi.problem.target.user import user_target
from civi.solver import several

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
    """mu ~ N(0, 2), y ~ N(mu, scale): the posterior of mu is normal. tau is not informed by the data."""
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.LogNormal(0.5, 0.4))
    numpyro.deterministic("both", jnp.stack([mu, tau]))
    numpyro.sample("y", dist.Normal(mu, scale).expand([5]).to_event(1), obs=y)


@pytest.fixture(scope="module")
def gaussian():
    return civi.fit(log_density, dim=3, key=jax.random.key(0), steps=400, seconds=600, progress=False)


@pytest.fixture(scope="module")
def model():
    return civi.fit(conjugate, 0.5, y=DATA, key=jax.random.key(0), steps=400, seconds=600, progress=False)


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
    assert gaussian.message == "finished 400 steps"
    assert gaussian.converged


def again(**options):
    """The program is compiled already."""
    return civi.fit(log_density, dim=3, key=jax.random.key(1), steps=400, progress=False, **options)


def test_training_stops_when_nothing_more_is_gained(monkeypatch):
    monkeypatch.setattr(several, "LOOK", 50)
    monkeypatch.setattr(several, "FIRST_LOOK", 100)
    monkeypatch.setattr(several, "GAIN", 1.0)
    stopped = again(seconds=600)
    assert stopped.message == "nothing more was gained after 100 steps; finished after 200"
    np.testing.assert_array_equal(stopped.history["step"], np.arange(1, 201))
    assert np.isfinite(stopped.history["neg_elbo"]).all()


def test_training_stops_in_time_and_says_so():
    stopped = again(seconds=0.1)
    assert stopped.message.startswith("out of time")
    assert not stopped.converged


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 0.5), (3.0, 1.0)], ids=["scale halved", "mean shifted"])
def test_a_fit_that_is_moved_away_is_not_called_good(gaussian, shift, scale):
    frame = gaussian.seen.frame
    moved = eqx.tree_at(
        lambda f: (f.location, f.factor), frame, (frame.location + shift * frame.factor.sum(1), frame.factor * scale)
    )
    bad = dataclasses.replace(gaussian, seen=eqx.tree_at(lambda s: s.frame, gaussian.seen, moved))
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


def test_resampling_and_inference_data_keep_the_names(model):
    assert model.sample(jax.random.key(4), 100, resample=True)["both"].shape == (100, 2)
    data = model.to_inference_data(jax.random.key(5), 200)
    assert data.posterior["both"].shape == (1, 200, 2)
    assert set(data.sample_stats) == {"lp", "log_q_lower", "log_q_upper", "log_weight"}
    assert data.log_likelihood["y"].shape == (1, 200)


def test_an_example_pytree_gives_draws_of_its_structure():
    def of_tree(parameters):
        return -0.5 * (parameters["a"] ** 2).sum() - 0.5 * parameters["b"] ** 2

    example = {"a": np.zeros(2), "b": 0.0}
    fitted = civi.fit(of_tree, example=example, key=jax.random.key(0), steps=5, seconds=600, progress=False)
    draws = fitted.sample(jax.random.key(1), 7)
    assert {name: value.shape for name, value in draws.items()} == {"a": (7, 2), "b": (7,)}
    assert not fitted.converged or fitted.message.startswith("finished")


def no_latent(y):
    numpyro.sample("y", dist.Normal(0, 1), obs=y)


def discrete():
    numpyro.sample("k", dist.Bernoulli(0.5))


def beside(y):
    numpyro.sample("y", dist.Uniform(0, numpyro.sample("top", dist.HalfNormal(1))), obs=y)


def branching(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mu if mu > 0 else 0.0, 1), obs=y)


def unbounded(y):
    numpyro.sample(
        "y", dist.Normal(numpyro.sample("a", dist.Normal()) + numpyro.sample("k", dist.Poisson(2.0)), 1), obs=y
    )


KEPT: list[jax.Array] = []


def keeping(z):
    KEPT.append(z)
    return -0.5 * z @ z


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        (no_latent, {"y": 1.0}, "no latent sites"),
        (discrete, {}, "only discrete latent sites (k)"),
        (unbounded, {"y": 1.0}, "discrete latent sites that cannot be summed out (k)"),
        (log_density, {"dim": 4}, "fails on a vector of length 4"),
        (lambda z: jnp.nan * z.sum(), {"dim": 2}, "not finite around any"),
        (lambda z: -jnp.inf * (1 + z @ z), {"dim": 2}, "not finite around any"),
        (
            beside,
            {"y": np.array([-1.0, 0.1, -0.2])},
            "no point with finite log density near its start: not finite at y (2 of",
        ),
        (
            conjugate,
            {"scale": 0.5, "y": np.array([1.0, np.nan, 2.0, 0.0, np.nan])},
            "NaN in the data, in y (2 of 5 values)",
        ),
        (lambda z, x: z @ x, {"dim": 2, "x": np.array([np.nan, 1.0])}, "NaN in the data, in x (1 of 2 values)"),
        (conjugate, {"y": DATA}, "cannot be called with the arguments given: missing a required argument: 'scale'"),
        (branching, {"y": 1.0}, "use jnp.where or jax.lax.cond instead"),
        (lambda z: np.linalg.norm(z), {"dim": 2}, "use jax.numpy and jax.scipy instead"),
        (lambda z: jnp.zeros(int(z[0])).sum(), {"dim": 2}, "made a Python number"),
        (lambda z: z[z > 0].sum(), {"dim": 2}, "indexed by a mask that JAX traces"),
        (keeping, {"dim": 2}, "keeps a value of its own call in a global, an attribute or an outer list"),
        (lambda z: -z @ z + np.random.normal(), {"dim": 2}, "another function at every call"),
        (lambda z: -0.5 * (z[0] + z[1] - 1) ** 2, {"dim": 2}, "improper: it has no end along z"),
        (lambda z: z[1] - 0.5 * z[0] ** 2, {"dim": 2}, "improper: it has no end along z[1]"),
    ],
)
def test_a_target_that_cannot_be_fitted_is_refused(target, options, message):
    with pytest.raises(TargetError, match=re.escape(message)):
        civi.fit(target, key=jax.random.key(0), progress=False, **options)


def test_missing_values_that_the_model_masks_are_no_reason_to_refuse():
    def masked(y):
        mu = numpyro.sample("mu", dist.Normal(0, 2))
        with numpyro.handlers.mask(mask=~np.isnan(y)):
            numpyro.sample("y", dist.Normal(mu, 1), obs=np.nan_to_num(y))

    target, _ = user_target(masked, (np.array([0.5, np.nan]),), {}, None, None)
    expected = stats.norm.logpdf(0.3, 0, 2) + stats.norm.logpdf(0.5, 0.3, 1)
    np.testing.assert_allclose(target.log_prob(jnp.array([0.3])), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 3, "solver": "civ"}, "did you mean 'civi'"),
        ({"dim": 3, "steps": 0}, "steps must be at least 1"),
        ({"dim": 3, "runs": 0}, "runs must be at least 1"),
        ({"dim": 3, "seconds": 0}, "seconds must be positive"),
        ({"dim": 3, "example": [0.0]}, "not both"),
    ],
)
def test_a_wrong_option_is_refused(options, message):
    with pytest.raises(SettingError, match=message):
        civi.fit(log_density, key=jax.random.key(0), progress=False, **options)
