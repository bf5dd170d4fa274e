"""Inner means against a direct calculation in NumPy and against the exact density of the linear-Gaussian case."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from civi.estimate import log_density, log_mean_exp, log_ratios, log_sum_past, mix_own
from civi.family import Architecture
from linear_gaussian import linear_family, log_q
from montecarlo import LIMIT, agrees, z_scores

Z_J = jnp.array([[0.5, -0.3], [2.0, 1.0], [-1.5, 0.5]])


def minus_square(z_J):
    """A Gaussian log p(x, z_j), up to a constant."""
    return -(z_J**2).sum(1)


@pytest.fixture(scope="module", params=["diagonal", "cholesky"])
def family(request):
    return linear_family(request.param)


@pytest.fixture(scope="module")
def many_estimates(family):
    """`log_density` at Z_J for many keys, from 20 inner samples in blocks of 7."""
    keys = jax.random.split(jax.random.key(0), 4000)
    return jax.jit(jax.vmap(lambda key: log_density(family, Z_J, key, inner=20, block=7)))(keys)


def test_log_density_is_an_unbiased_estimate_of_the_density(family, many_estimates):
    ratio_to_truth = np.exp(np.asarray(many_estimates, np.float64) - log_q(family, Z_J))
    assert agrees(ratio_to_truth, 1)
    assert not agrees(ratio_to_truth, 21 / 20)


def test_the_logarithm_of_the_estimate_is_below_the_log_density(family, many_estimates):
    assert (z_scores(many_estimates, log_q(family, Z_J)) < -LIMIT).all()


@pytest.mark.parametrize("kept", [1, 3, 5])
def test_log_mean_exp_uses_only_the_first_columns(kept):
    values = np.random.default_rng(0).normal(size=(4, 5)) * 30
    got = log_mean_exp(jnp.asarray(values, jnp.float32), jnp.asarray(kept))
    np.testing.assert_allclose(got, logsumexp(values[:, :kept], axis=1) - np.log(kept), rtol=1e-5, atol=1e-5)


def test_log_ratios_divide_the_mean_of_the_kept_inner_samples_by_p():
    family, kept = linear_family(), 4
    outer, inner_eps = family.draw_outer(jax.random.key(2), 3), family.noise.sample(jax.random.key(3), 7)
    ratios = jax.jit(lambda: log_ratios(family, minus_square, outer, inner_eps, jnp.asarray(kept)))()

    scale = np.exp(np.asarray(family.conditional.log_scale, np.float64))
    own, inner = (np.asarray(family.mix(eps), np.float64) for eps in (outer.eps, inner_eps))
    z_J = own + scale * np.asarray(outer.u, np.float64)
    pairs_JK = stats.norm(inner, scale).logpdf(z_J[:, None]).sum(-1)
    log_p_J = -(z_J**2).sum(1)
    expected = {
        "z_J": z_J,
        "mixed_K": inner,
        "kept": kept,
        "fresh_J": logsumexp(pairs_JK[:, :kept], axis=1) - np.log(kept) - log_p_J,
        "own_J": stats.norm(own, scale).logpdf(z_J).sum(1) - log_p_J,
        "log_p_J": log_p_J,
    }
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(ratios, name), value, rtol=1e-4, atol=1e-5, err_msg=name)


def values_and_gradient(family, kept):
    """`fresh_J` and `mixed_K` of 5 outer and 23 inner samples, and the gradient of a weighted sum of `fresh_J`."""
    outer, inner_eps = family.draw_outer(jax.random.key(2), 5), family.noise.sample(jax.random.key(3), 23)

    def weighted(family):
        ratios = log_ratios(family, minus_square, outer, inner_eps, jnp.asarray(kept))
        return ratios.fresh_J @ jnp.arange(1.0, 6.0), ratios

    (_, ratios), gradient = eqx.filter_value_and_grad(weighted, has_aux=True)(family)
    return (ratios.fresh_J, ratios.mixed_K), jax.tree.leaves(gradient)


def test_blocks_of_inner_samples_change_neither_values_nor_gradients(monkeypatch):
    family, kept = Architecture(hidden=(4,)).init(2, jax.random.key(1)), (1, 7, 23)

    def looks():
        compiled = eqx.filter_jit(values_and_gradient)
        return [compiled(family, jnp.asarray(count)) for count in kept]

    whole = looks()
    monkeypatch.setattr("civi.estimate.log_ratio.FLOATS", 20)
    in_blocks = looks()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5), in_blocks, whole)
    assert not np.allclose(in_blocks[0][0][0], whole[1][0][0], rtol=2e-5)


def test_a_sum_over_past_outputs_in_blocks_is_that_of_all_at_once(monkeypatch):
    family = Architecture(hidden=(4,)).init(2, jax.random.key(1))
    counted_K = jnp.arange(23) % 3 > 0

    def sums_and_pairs():
        mixed_K = family.mix(family.noise.sample(jax.random.key(3), 23))
        outer = family.draw_outer(jax.random.key(2), 5)
        ratios = log_ratios(family, minus_square, outer, jnp.zeros((1, 3)), jnp.asarray(1))
        return log_sum_past(mixed_K, counted_K, ratios), family.log_prob_pairs(mixed_K, ratios.z_J)

    whole, pairs_JK = jax.jit(sums_and_pairs)()
    pairs_JK = np.asarray(pairs_JK, np.float64)
    np.testing.assert_allclose(whole, logsumexp(pairs_JK[:, np.asarray(counted_K)], axis=1), rtol=1e-5)
    monkeypatch.setattr("civi.estimate.log_ratio.FLOATS", 20)
    np.testing.assert_allclose(jax.jit(lambda: sums_and_pairs()[0])(), whole, rtol=1e-5)


def test_single_precision_agrees_with_double():
    family = Architecture(hidden=(8,)).init(2, jax.random.key(1))
    noise = family.draw_outer(jax.random.key(2), 16), family.noise.sample(jax.random.key(3), 100)

    @eqx.filter_jit
    def fresh(family, noise):
        return log_ratios(family, minus_square, *noise, jnp.asarray(100)).fresh_J

    single = fresh(family, noise)
    with jax.enable_x64():
        wide = jax.tree.map(
            lambda leaf: jnp.asarray(leaf, "float64") if eqx.is_inexact_array(leaf) else leaf, (family, noise)
        )
        double = fresh(*wide)
    assert double.dtype == jnp.float64
    np.testing.assert_allclose(single, double, rtol=1e-5, atol=1e-5)


def test_mix_own_is_the_weighted_mean_and_its_weight_has_no_gradient():
    log_mean, own, weight = jnp.array([-3.0, 1.0]), jnp.array([0.5, -50.0]), jnp.array([0.1, 0.3])
    expected = np.log(np.asarray(weight) * np.exp(np.asarray(own)) + (1 - np.asarray(weight)) * np.exp(log_mean))
    np.testing.assert_allclose(mix_own(log_mean, own, weight), expected, rtol=1e-5)
    np.testing.assert_array_equal(jax.grad(lambda w: mix_own(log_mean, own, w).sum())(weight), 0)


def test_mix_own_without_weight_is_the_plain_mean():
    log_mean, own = jnp.array([-3.0, 1.0]), jnp.array([0.5, 90.0])
    np.testing.assert_array_equal(mix_own(log_mean, own, jnp.asarray(0.0)), log_mean)


@pytest.fixture(scope="module")
def errors_by_inner():
    """K = 8, 16, 32, 64, and the errors of log g_j from K inner samples, with one row per key.

    The first array of errors has the relative error of g_j subtracted as a control variate: its mean is 0, so the
    difference has the same mean as the error and much less noise.
    """
    family, sizes = linear_family(noise_scale=0.8), jnp.array([8, 16, 32, 64])

    def look(key):
        outer_key, inner_key = jax.random.split(key)
        outer, inner_eps = family.draw_outer(outer_key, 20), family.noise.sample(inner_key, 64)
        return jax.lax.map(lambda kept: log_ratios(family, minus_square, outer, inner_eps, kept), sizes)

    ratios = jax.jit(lambda keys: jax.lax.map(look, keys))(jax.random.split(jax.random.key(4), 500))
    exact = log_q(family, np.asarray(ratios.z_J).reshape(-1, 2)).reshape(ratios.fresh_J.shape)
    error = np.asarray(ratios.fresh_J + ratios.log_p_J, np.float64) - exact
    return np.asarray(sizes), (error - np.expm1(error)).mean(-1), error


def slope_of(sizes, values):
    """Slope of log(values) against log(K)."""
    return np.polyfit(np.log(sizes), np.log(values), 1)[0]


def test_the_bias_of_the_plain_mean_falls_as_one_over_the_inner_samples(errors_by_inner):
    """E[log mean_K g] - log E[g] ~ -var / (2 K), while the standard deviation falls only as 1 / sqrt(K)."""
    sizes, without_noise, error = errors_by_inner
    assert (z_scores(without_noise, 0) < -LIMIT).all()
    assert -1.15 < slope_of(sizes, -without_noise.mean(0)) < -0.85
    assert -0.65 < slope_of(sizes, error.std((0, 2))) < -0.4
