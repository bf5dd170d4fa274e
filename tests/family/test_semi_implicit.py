"""The semi-implicit family against the closed forms of the linear-Gaussian case."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from civi.errors import SettingError
from civi.family import Architecture
from linear_gaussian import linear_family, log_q, mean_and_covariance
from montecarlo import LIMIT, agrees, first_and_second_moments, z_scores


def exact_moments(family):
    mean, covariance = (np.asarray(moment, np.float64) for moment in mean_and_covariance(family))
    second = (covariance + np.outer(mean, mean))[np.triu_indices(len(mean))]
    return np.concatenate([mean, second])


@pytest.mark.parametrize("conditional", ["diagonal", "cholesky"])
def test_draws_have_the_moments_of_the_closed_form(conditional):
    family = linear_family(conditional)
    moments = first_and_second_moments(family.sample(jax.random.key(0), 20000))
    assert agrees(moments, exact_moments(family))
    assert not agrees(moments, exact_moments(linear_family(conditional, noise_scale=1.2)))


def test_push_gives_z_and_the_own_term():
    family = linear_family()
    outer = family.draw_outer(jax.random.key(0), 5)
    z_J, own_J = family.push(outer)
    location = np.asarray(family.mix(outer.eps), np.float64)
    scale = np.exp(np.asarray(family.conditional.log_scale, np.float64))
    np.testing.assert_allclose(z_J, location + scale * np.asarray(outer.u), atol=1e-6)
    np.testing.assert_allclose(own_J, stats.norm(location, scale).logpdf(np.asarray(z_J)).sum(1), atol=1e-5)


def test_log_conditional_is_the_normal_around_the_networks_output():
    family = linear_family()
    z, eps = jnp.array([0.3, -1.0]), jnp.array([0.5, 1.0, -2.0])
    location = eps @ family.mixing.weights[0] + family.mixing.biases[0]
    expected = stats.norm(np.asarray(location), np.exp(np.asarray(family.conditional.log_scale))).logpdf(z).sum()
    np.testing.assert_allclose(family.log_conditional(z, eps), expected, rtol=1e-5)


def test_sample_and_log_prob_averages_the_own_and_the_inner_densities():
    family, key = linear_family(), jax.random.key(3)
    inner_eps = family.noise.sample(jax.random.key(4), 6)
    z_J, log_q_J = family.sample_and_log_prob(key, 5, inner_eps)
    own_eps = family.draw_outer(key, 5).eps
    log_conditional = jax.jit(jax.vmap(family.log_conditional, in_axes=(None, 0)))
    for z, estimate, own in zip(z_J, log_q_J, own_eps, strict=True):
        densities = np.exp(log_conditional(z, jnp.vstack([own, inner_eps])))
        np.testing.assert_allclose(estimate, np.log(np.mean(densities)), rtol=1e-4)


@partial(jax.jit, static_argnames="inner")
def one_draw_per_key(keys, inner):
    family = linear_family()

    def draw(key):
        outer_key, inner_key = jax.random.split(key)
        return family.sample_and_log_prob(outer_key, 1, family.noise.sample(inner_key, inner))

    z, estimate = jax.lax.map(draw, keys)
    return z[:, 0], estimate[:, 0]


def test_sample_and_log_prob_is_above_log_q_with_few_inner_samples_and_meets_it_with_many():
    keys = jax.random.split(jax.random.key(5), 1000)
    few, many = (one_draw_per_key(keys, inner) for inner in (3, 1000))
    above, near = (np.asarray(estimate, np.float64) - log_q(linear_family(), z) for z, estimate in (few, many))
    assert z_scores(above, 0) > LIMIT
    assert agrees(near, 0)


def test_an_architecture_starts_with_the_scale_and_spread_asked_for():
    architecture = Architecture(hidden=(), noise_dim=200, conditional="scaled", scale=0.2, spread=3.0)
    family = architecture.init(50, jax.random.key(0))
    np.testing.assert_allclose(np.exp(family.conditional.log_scale), 0.2, rtol=1e-6)
    locations, log_scales = np.split(np.asarray(family.mixing.weights[0], np.float64), 2, axis=1)
    np.testing.assert_array_equal(log_scales, 0)
    assert agrees(locations.ravel() ** 2, 3.0**2 * 2 / (200 + 100))
    assert not agrees(locations.ravel() ** 2, 2 / (200 + 100))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"conditional": "diagnoal"}, "unknown conditional 'diagnoal': did you mean 'diagonal'"),
        ({"scale": 0.0}, "family.scale must be positive"),
        ({"spread": -1.0}, "family.spread must be positive"),
        ({"noise_scale": 1e20}, r"family.noise_scale must be positive and at most 1e\+12, not 1e\+20"),
    ],
)
def test_impossible_architectures_are_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        Architecture(**settings)


def test_a_family_over_no_dimension_is_refused():
    with pytest.raises(SettingError, match="dimension must be at least 1"):
        Architecture().init(0, jax.random.key(0))
