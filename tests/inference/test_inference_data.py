"""InferenceData of an exact posterior against closed forms, and the results of az.loo and az.compare."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS
from scipy import stats

from civi.inference.load_arviz import import_arviz
from exact_posterior import DESIGN, NOISE, ROWS, X, Y, exact, level, line, moments

az = import_arviz()


@pytest.fixture(scope="module")
def data():
    return exact(line, X, Y).to_inference_data(jax.random.key(1), 3000)


@pytest.fixture(scope="module")
def without_slope():
    return exact(level, X, Y, columns=1).to_inference_data(jax.random.key(2), 3000)


def test_groups_have_the_names_and_axes_of_the_model(data):
    assert set(data.groups()) == {
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


def exact_loo(design: np.ndarray) -> float:
    """Sum over rows of log p(y_n | the other rows), each a normal density in closed form."""
    total = 0.0
    for n in range(ROWS):
        rest, left = np.delete(design, n, 0), np.delete(Y, n)
        covariance = np.linalg.inv(rest.T @ rest / NOISE**2 + np.eye(design.shape[1]) / 4)
        mean = covariance @ rest.T @ left / NOISE**2
        sd = np.sqrt(design[n] @ covariance @ design[n] + NOISE**2)
        total += stats.norm.logpdf(Y[n], design[n] @ mean, sd)
    return total


@pytest.mark.filterwarnings("ignore")
def test_loo_is_the_exact_one_and_compare_prefers_the_slope(data, without_slope):
    with_slope, level_only = az.loo(data), az.loo(without_slope)
    ranked = az.compare({"line": data, "level": without_slope})
    assert abs(with_slope.elpd_loo - exact_loo(DESIGN)) < 0.2
    assert abs(level_only.elpd_loo - exact_loo(DESIGN[:, :1])) < 0.2
    assert exact_loo(DESIGN) - exact_loo(DESIGN[:, :1]) > 1
    assert list(ranked.index) == ["line", "level"]


@pytest.mark.filterwarnings("ignore")
def test_loo_agrees_with_that_of_nuts(data):
    mcmc = MCMC(NUTS(line), num_warmup=300, num_samples=1500, progress_bar=False)
    mcmc.run(jax.random.key(0), X, Y)
    reference = az.from_numpyro(mcmc)
    assert abs(az.loo(data).elpd_loo - az.loo(reference).elpd_loo) < 0.2


@pytest.mark.filterwarnings("ignore")
def test_summary_and_plots_take_the_data(data):
    import matplotlib.pyplot as plt

    summary = az.summary(data, kind="stats")
    mean, covariance = moments(DESIGN)
    np.testing.assert_allclose(summary.loc[["a", "b"], "mean"], mean, atol=0.01)
    np.testing.assert_allclose(summary.loc[["a", "b"], "sd"], np.sqrt(np.diag(covariance)), atol=0.01)
    for plot in (az.plot_trace, az.plot_pair, az.plot_ppc):
        plot(data)
        plt.close("all")


def test_data_wider_than_its_distribution_is_predicted_in_its_own_shape_and_factors_are_left_out():
    def broadcast(y):
        a = numpyro.sample("a", dist.Normal(0, 2))
        numpyro.factor("penalty", -0.0 * a)
        numpyro.sample("y", dist.Normal(a, NOISE), obs=y)

    data = exact(broadcast, Y, columns=1).to_inference_data(jax.random.key(1), 50)
    assert data.posterior_predictive["y"].shape == data.log_likelihood["y"].shape == (1, 50, ROWS)
    assert set(data.log_likelihood) == set(data.observed_data) == {"y"}
    assert np.asarray(data.posterior_predictive["y"]).std(axis=2).min() > 0


def test_a_log_density_has_its_draws_and_statistics_only():
    def log_density(z):
        return -0.5 * ((z - 1) ** 2).sum()

    data = exact(log_density, dim=2).to_inference_data(jax.random.key(1), 20)
    assert set(data.groups()) == {"posterior", "sample_stats"}
    assert data.posterior["z"].shape == (1, 20, 2)
