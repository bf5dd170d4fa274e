"""The groups of an exact posterior against closed forms, as a data tree built without ArviZ."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

from exact_posterior import DESIGN, NOISE, ROWS, X, Y, exact, line, moments


@pytest.fixture(scope="module")
def data():
    return exact(line, X, Y).to_datatree(jax.random.key(1), 3000)


def test_groups_have_the_names_and_axes_of_the_model(data):
    assert set(data.children) == {
        "posterior", "sample_stats", "observed_data", "posterior_predictive", "log_likelihood",
    }  # fmt: skip
    assert set(data.posterior) == {"a", "b", "end"}
    for group in (data.posterior_predictive, data.log_likelihood):
        assert group["y"].dims == ("chain", "draw", "row")
        assert group["y"].shape == (1, 3000, ROWS)
    np.testing.assert_array_equal(data.observed_data["y"], Y)


def test_log_densities_and_weights_are_those_of_the_exact_posterior(data):
    draws = np.stack([data.posterior[name][0] for name in "ab"], axis=1).astype(np.float64)
    log_q = stats.multivariate_normal(*moments(DESIGN)).logpdf(draws)
    for name in ("log_q_lower", "log_q_upper"):
        np.testing.assert_allclose(data.sample_stats[name][0], log_q, atol=2e-3)
    log_p = stats.norm.logpdf(draws, 0, 2).sum(1) + stats.norm.logpdf(Y, draws @ DESIGN.T, NOISE).sum(1)
    np.testing.assert_allclose(data.sample_stats["lp"][0], log_p, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(data.sample_stats["log_weight"][0], -np.log(3000), atol=5e-3)


def test_the_likelihood_and_the_predictions_of_a_row_are_exact(data):
    draws = np.stack([data.posterior[name][0] for name in "ab"], axis=1)
    expected = stats.norm.logpdf(Y, draws @ DESIGN.T, NOISE)
    np.testing.assert_allclose(data.log_likelihood["y"][0], expected, rtol=1e-4, atol=1e-4)
    mean, covariance = moments(DESIGN)
    sd = np.sqrt(np.einsum("nd,de,ne->n", DESIGN, covariance, DESIGN) + NOISE**2)
    standard = (np.asarray(data.posterior_predictive["y"][0]) - DESIGN @ mean) / sd
    assert np.abs(standard.mean(0)).max() < 4 / np.sqrt(3000)
    np.testing.assert_allclose(standard.std(0), 1, atol=4 / np.sqrt(6000))
    assert not (np.asarray(data.posterior_predictive["y"]) == Y).any()


def test_data_wider_than_its_distribution_is_predicted_in_its_own_shape_and_factors_are_left_out():
    def broadcast(y):
        a = numpyro.sample("a", dist.Normal(0, 2))
        numpyro.factor("penalty", -0.0 * a)
        numpyro.sample("y", dist.Normal(a, NOISE), obs=y)

    data = exact(broadcast, Y, columns=1).to_datatree(jax.random.key(1), 50)
    assert data.posterior_predictive["y"].shape == data.log_likelihood["y"].shape == (1, 50, ROWS)
    assert set(data.log_likelihood) == set(data.observed_data) == {"y"}
    assert np.asarray(data.posterior_predictive["y"]).std(axis=2).min() > 0


def test_a_log_density_has_its_draws_and_statistics_only():
    def log_density(z):
        return -0.5 * ((z - 1) ** 2).sum()

    data = exact(log_density, dim=2).to_datatree(jax.random.key(1), 20)
    assert set(data.children) == {"posterior", "sample_stats"}
    assert data.posterior["z"].shape == (1, 20, 2)


def test_nested_parameters_are_joined_by_dots_and_scoped_names_lose_their_slash():
    def log_density(z):
        return -0.5 * (z["inner"]["a"] ** 2 + z["b/c"] ** 2)

    data = exact(log_density, example={"inner": {"a": 0.0}, "b/c": 0.0}).to_datatree(1, 20)
    assert set(data.posterior) == {"inner.a", "b_c"}


def test_the_likelihood_of_a_vector_keeps_the_axis_of_its_plate_alone():
    def vectors(y):
        a, b = (numpyro.sample(name, dist.Normal(0, 2)) for name in ("a", "b"))
        with numpyro.plate("draw", 3):
            numpyro.sample("y", dist.Normal(a + b, 1).expand([2]).to_event(1), obs=y)

    data = exact(vectors, np.zeros((3, 2), np.float32)).to_datatree(1, 20)
    assert data.log_likelihood["y"].dims == ("chain", "draw", "y_dim_0")
    assert data.posterior_predictive["y"].dims == ("chain", "draw", "y_dim_0", "y_dim_1")
