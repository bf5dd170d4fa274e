"""NumPyro models as targets: mini-batches of a plate are unbiased, and discrete sites are summed out exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

from civi.errors import TargetError
from civi.problem.target.numpyro_model import numpyro_target, with_batch
from fitting import short_fit

pytestmark = pytest.mark.optimised

ROWS, BATCH, NOISE = 40, 8, 0.7
X = np.linspace(-1, 1, ROWS, dtype=np.float32)
Y = (1.5 * X - 0.5 + NOISE * np.random.default_rng(0).normal(size=ROWS)).astype(np.float32)
DESIGN = np.stack([np.ones(ROWS), X], axis=1)


def regression(x, y, batch=None):
    """Conjugate model a, b ~ N(0, 2), y ~ N(a + b x, NOISE), with a plate that subsamples `batch` rows."""
    a, b = (numpyro.sample(name, dist.Normal(0, 2)) for name in "ab")
    with numpyro.plate("rows", len(x), subsample_size=batch) as rows:
        numpyro.sample("y", dist.Normal(a + b * x[rows], NOISE), obs=y[rows])


def with_subsample(x, y, batch):
    """The same model written with numpyro.subsample."""
    a, b = (numpyro.sample(name, dist.Normal(0, 2)) for name in "ab")
    with numpyro.plate("rows", len(x), subsample_size=batch):
        x, y = numpyro.subsample(jnp.asarray(x), event_dim=0), numpyro.subsample(jnp.asarray(y), event_dim=0)
        numpyro.sample("y", dist.Normal(a + b * x, NOISE), obs=y)


def exact_log_joint(z):
    """log N(z; 0, 4) + log N(y; design z, NOISE^2) in NumPy."""
    return stats.norm.logpdf(z, 0, 2).sum() + stats.norm.logpdf(Y, DESIGN @ z, NOISE).sum()


@pytest.mark.parametrize("model", [regression, with_subsample])
def test_all_rows_count_in_the_log_density_of_a_model_that_subsamples(model):
    target, _ = numpyro_target(model, (X, Y, BATCH), {})
    z = np.array([0.3, -0.8])
    np.testing.assert_allclose(target.log_prob(jnp.asarray(z)), exact_log_joint(z), rtol=1e-5)
    assert (target.rows, target.batch_size) == (ROWS, BATCH)


def test_batches_are_unbiased_and_without_the_weight_they_would_not_be():
    target, _ = numpyro_target(regression, (X, Y, BATCH), {})
    z = np.array([0.3, -0.8])
    keys = jax.random.split(jax.random.key(1), 4000)
    values = np.asarray(jax.vmap(lambda key: target.batch(key, BATCH).log_prob(jnp.asarray(z)))(keys), np.float64)
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert abs(values.mean() - exact_log_joint(z)) < 4 * error
    prior = stats.norm.logpdf(z, 0, 2).sum()
    unweighted = prior + (values - prior) * BATCH / ROWS
    assert abs(unweighted.mean() - exact_log_joint(z)) > 40 * error


def test_mini_batches_of_another_size_are_prepared_first():
    target, space = numpyro_target(regression, (X, Y, BATCH), {})
    with pytest.raises(TargetError, match=r"mini-batches of 20 rows, only for \[8\]: prepare it with with_batch"):
        target.batch(jax.random.key(0), 20)
    larger = with_batch(target, space, 20)
    assert len(larger.constants) == len(target.constants) == 4
    batch, z = larger.batch(jax.random.key(0), 20), np.array([0.3, -0.8])
    rows = np.asarray(batch.index["rows"])
    likelihood = stats.norm.logpdf(Y[rows], DESIGN[rows] @ z, NOISE).sum() * ROWS / 20
    np.testing.assert_allclose(batch.log_prob(jnp.asarray(z)), stats.norm.logpdf(z, 0, 2).sum() + likelihood, rtol=1e-5)


def test_a_conjugate_regression_is_found_from_batches():
    fitted = short_fit(regression, X, Y, BATCH, key=jax.random.key(0), steps=600)
    draws = fitted.sample_unconstrained(jax.random.key(1), 20_000)
    precision = DESIGN.T @ DESIGN / NOISE**2 + np.eye(2) / 4
    mean = np.linalg.solve(precision, DESIGN.T @ Y / NOISE**2)
    factor = np.linalg.cholesky(precision)
    whitened = (draws - mean) @ factor
    np.testing.assert_allclose(whitened.mean(0), 0, atol=0.1)
    np.testing.assert_allclose(np.cov(whitened, rowvar=False), np.eye(2), atol=0.12)


def test_a_plate_with_latent_sites_sees_all_its_rows():
    def model(y):
        with numpyro.plate("rows", len(y), subsample_size=2) as rows:
            mu = numpyro.sample("mu", dist.Normal(0, 1))
            numpyro.sample("y", dist.Normal(mu, 1), obs=y[rows])

    target, _ = numpyro_target(model, (Y[:5],), {})
    assert (target.dim, target.rows, target.batch_size) == (5, 0, None)
    expected = stats.norm.logpdf(np.zeros(5)).sum() + stats.norm.logpdf(Y[:5]).sum()
    np.testing.assert_allclose(target.log_prob(jnp.zeros(5)), expected, rtol=1e-5)


def mixture(y, batch=None):
    """A mixture of two normals with discrete assignments; `odds` does not depend on them, and `first` does."""
    weight = numpyro.sample("weight", dist.Beta(2, 3))
    mu = numpyro.sample("mu", dist.Normal(jnp.array([-2.0, 2.0]), 1).to_event(1))
    numpyro.deterministic("odds", weight / (1 - weight))
    with numpyro.plate("rows", len(y), subsample_size=batch) as rows:
        component = numpyro.sample("component", dist.Bernoulli(weight))
        numpyro.deterministic("first", 1 - component)
        numpyro.sample("y", dist.Normal(mu[component], 1), obs=y[rows])


@pytest.fixture(scope="module")
def summed():
    pytest.importorskip("funsor")
    return numpyro_target(mixture, (Y[:6],), {})


def test_discrete_sites_are_summed_out(summed):
    mu, logit = np.array([-0.4, 1.1]), 0.3
    weight = 1 / (1 + np.exp(-logit))
    rows = np.logaddexp(
        np.log(1 - weight) + stats.norm.logpdf(Y[:6], mu[0]), np.log(weight) + stats.norm.logpdf(Y[:6], mu[1])
    )
    prior = stats.beta.logpdf(weight, 2, 3) + np.log(weight * (1 - weight)) + stats.norm.logpdf(mu, [-2, 2]).sum()
    z = jnp.asarray([*mu, logit])
    np.testing.assert_allclose(summed[0].log_prob(z), prior + rows.sum(), rtol=1e-5)


def test_a_plate_in_a_model_with_discrete_sites_sees_all_its_rows(summed):
    (target, _), z = numpyro_target(mixture, (Y[:6], 3), {}), jnp.asarray([-0.4, 1.1, 0.3])
    assert (target.rows, target.batch_size) == (0, None)
    np.testing.assert_allclose(target.log_prob(z), summed[0].log_prob(z), rtol=1e-6)


def test_draws_leave_out_what_depends_on_a_discrete_site(summed):
    draws = jax.vmap(summed[1])(jnp.asarray([[0.0, 1.0, 0.3], [0.1, 0.9, -0.3]]))
    assert set(draws) == {"weight", "mu", "odds"}
    np.testing.assert_allclose(draws["odds"], np.exp([0.3, -0.3]), rtol=1e-5)


def test_without_funsor_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr("civi.problem.target.numpyro_model.find_spec", lambda name: None)
    with pytest.raises(TargetError, match=r"discrete latent sites \(component\): to have them summed out, pip install"):
        numpyro_target(mixture, (Y[:6],), {})
