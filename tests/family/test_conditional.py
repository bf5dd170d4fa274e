"""All CONDITIONALS against SciPy's densities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from civi.family import CONDITIONALS, Conditional
from montecarlo import LIMIT, agrees

DIM, OUTER, INNER = 3, 4, 6
ALL = sorted(CONDITIONALS)
ON_THE_WHOLE_SPACE = sorted(set(ALL) - {"log-normal"})


def marginals(conditional: Conditional, mixed):
    """SciPy's distribution of every coordinate of z given one output of the mixing network, in float64."""
    mixed = np.asarray(mixed, np.float64)
    scale = {name: np.exp(np.asarray(value, np.float64)) for name, value in vars(conditional).items() if "log" in name}
    match type(conditional).__name__:
        case "DiagonalGaussian":
            return stats.norm(mixed, scale["log_scale"])
        case "CholeskyGaussian":
            return stats.norm(mixed, np.sqrt(np.diag(covariance(conditional))))
        case "ScaledGaussian":
            return stats.norm(mixed[:DIM], scale["log_scale"] * np.exp(mixed[DIM:]))
        case "BoundedGaussian":
            return stats.norm(mixed[:DIM], scale["log_scale"] * np.exp(5 * np.tanh(mixed[DIM:] / 5)))
        case "ScaledCholeskyGaussian":
            moments = in_frame(conditional, mixed)
            return stats.norm(moments[0], np.sqrt(np.diag(moments[1])))
        case "LaplaceConditional":
            return stats.laplace(mixed, scale["log_scale"])
        case "LogNormal":
            return stats.lognorm(np.exp(np.asarray(conditional.gaussian.log_scale, np.float64)), scale=np.exp(mixed))


def covariance(conditional) -> np.ndarray:
    lower = np.tril(np.asarray(conditional.lower, np.float64), -1)
    factor = lower + np.diag(np.exp(np.asarray(conditional.log_diagonal, np.float64)))
    return factor @ factor.T


def in_frame(conditional, mixed) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of m + L diag(s) u, with L unit lower triangular and bounded changes of log s."""
    frame = np.tril(np.asarray(conditional.lower, np.float64), -1) + np.eye(DIM)
    scale = np.exp(np.asarray(conditional.scaled.log_scale, np.float64) + 5 * np.tanh(mixed[DIM:] / 5))
    return mixed[:DIM], frame @ np.diag(scale**2) @ frame.T


def reference_log_prob(conditional: Conditional, mixed, z) -> float:
    if type(conditional).__name__ == "CholeskyGaussian":
        mixed, z = np.asarray(mixed, np.float64), np.asarray(z, np.float64)
        return stats.multivariate_normal(mixed, covariance(conditional)).logpdf(z)
    if type(conditional).__name__ == "ScaledCholeskyGaussian":
        return stats.multivariate_normal(*in_frame(conditional, np.asarray(mixed, np.float64))).logpdf(
            np.asarray(z, np.float64)
        )
    if type(conditional).__name__ == "LaplaceConditional":
        away = np.abs(np.asarray(z, np.float64) - np.asarray(mixed, np.float64))
        return (stats.expon(scale=np.exp(np.asarray(conditional.log_scale, np.float64))).logpdf(away) - np.log(2)).sum()
    return marginals(conditional, mixed).logpdf(np.asarray(z, np.float64)).sum()


def example(name: str, scale: float = 0.7, centre: float = 0.0, spread: float = 1.0):
    """A conditional with random parameters, mixing outputs for K noise vectors, and points z_j drawn from it."""
    kind, keys = CONDITIONALS[name], jax.random.split(jax.random.key(3), 4)

    def uneven(leaf):
        size = {1: 0.3, 2: 0.3 * scale}[leaf.ndim]
        return leaf + size * jax.random.normal(keys[0], leaf.shape)

    conditional = jax.tree.map(uneven, kind.init(DIM, scale))
    is_location = kind.output_gain(DIM, 1.0)
    outputs = jax.random.normal(keys[1], (INNER + OUTER, is_location.size))
    mixed = jnp.where(is_location, centre + spread * outputs, 0.5 * outputs)
    u_J = conditional.draw_base(keys[2], OUTER)
    return conditional, mixed[OUTER:], jax.vmap(conditional.transform)(mixed[:OUTER], u_J)


def every_pair(conditional: Conditional, mixed_K, z_J):
    over_K = jax.vmap(conditional.log_prob, in_axes=(0, None))
    return jax.jit(jax.vmap(over_K, in_axes=(None, 0)))(mixed_K, z_J)


@pytest.mark.parametrize("name", ALL)
def test_log_prob_is_scipys(name):
    conditional, mixed_K, z_J = example(name)
    expected = [[reference_log_prob(conditional, mixed, z) for mixed in mixed_K] for z in z_J]
    np.testing.assert_allclose(every_pair(conditional, mixed_K, z_J), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ALL)
def test_log_prob_pairs_is_log_prob_of_every_pair_in_value_and_gradient(name):
    arguments = example(name)
    cotangent_JK = jax.random.normal(jax.random.key(9), (OUTER, INNER))

    def value_and_gradient(pairs):
        return jax.jit(jax.value_and_grad(lambda args: (cotangent_JK * pairs(*args)).sum()))(arguments)

    by_matrix_product = value_and_gradient(lambda conditional, *rest: conditional.log_prob_pairs(*rest))
    for got, expected in zip(*map(jax.tree.leaves, (by_matrix_product, value_and_gradient(every_pair))), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("off", [0.0, 30.0, -30.0], ids=["reference", "reference too high", "reference too low"])
def test_log_sum_pairs_is_the_sum_over_those_that_count_whatever_the_reference(name, off):
    conditional, mixed_K, z_J = example(name)
    counted_K = jnp.arange(INNER) % 2 == 0
    pairs_JK = np.array([[reference_log_prob(conditional, mixed, z) for mixed in mixed_K] for z in z_J])
    got = conditional.log_sum_pairs(mixed_K, z_J, counted_K, jnp.asarray(pairs_JK.max(1) + off, jnp.float32))
    np.testing.assert_allclose(got, logsumexp(pairs_JK[:, ::2], axis=1), rtol=1e-4, atol=1e-4)
    assert not np.allclose(got, logsumexp(pairs_JK, axis=1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("stretch", "accepted"), [(1.0, True), (1.15, False)])
def test_transform_has_the_density_claimed(name, stretch, accepted):
    conditional, mixed_K, _ = example(name)
    u = stretch * conditional.draw_base(jax.random.key(1), 5000)
    z = jax.vmap(conditional.transform, in_axes=(None, 0))(mixed_K[0], u)
    uniform = marginals(conditional, mixed_K[0]).cdf(np.asarray(z, np.float64))
    smallest = min(stats.kstest(column, "uniform").pvalue for column in uniform.T)
    assert (smallest > 1e-4) == accepted


@pytest.mark.parametrize(("keep_correlation", "accepted"), [(True, True), (False, False)])
def test_cholesky_draws_are_correlated_as_claimed(keep_correlation, accepted):
    conditional, mixed_K, _ = example("cholesky")
    u = conditional.draw_base(jax.random.key(1), 5000)
    z = jax.vmap(conditional.transform, in_axes=(None, 0))(mixed_K[0], u)
    claimed = covariance(conditional) if keep_correlation else np.diag(np.diag(covariance(conditional)))
    whitened = np.linalg.solve(np.linalg.cholesky(claimed), np.asarray(z - mixed_K[0], np.float64).T)
    largest = np.abs(np.corrcoef(whitened)[np.triu_indices(DIM, 1)]).max()
    assert (largest < LIMIT / np.sqrt(5000)) == accepted


FLOAT32_HARDSHIPS = {
    "far from zero": {"centre": 1000.0, "scale": 0.05},
    "narrow": {"centre": 0.0, "scale": 0.01},
    "far and narrow": {"centre": -300.0, "scale": 1e-3, "spread": 0.01},
}


def worst_error(pairs_JK, conditional, mixed_K, z_J) -> float:
    """The largest error relative to the largest log density; a float32 sum of squares cannot do better than 1e-7."""
    expected = np.array([[reference_log_prob(conditional, mixed, z) for mixed in mixed_K] for z in z_J])
    return float(np.abs(pairs_JK - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("name", ON_THE_WHOLE_SPACE)
@pytest.mark.parametrize("hardship", FLOAT32_HARDSHIPS)
def test_pairs_in_float32_match_float64(name, hardship):
    conditional, mixed_K, z_J = example(name, **FLOAT32_HARDSHIPS[hardship])
    assert worst_error(conditional.log_prob_pairs(mixed_K, z_J), conditional, mixed_K, z_J) < 1e-6


@pytest.mark.parametrize("hardship", ["far from zero", "far and narrow"])
def test_a_matrix_product_without_centring_does_not_match_float64(hardship):
    conditional, mixed_K, z_J = example("diagonal", **FLOAT32_HARDSHIPS[hardship])
    x_J, m_K = z_J * jnp.exp(-conditional.log_scale), mixed_K * jnp.exp(-conditional.log_scale)
    squared = (x_J**2).sum(1)[:, None] + (m_K**2).sum(1) - 2 * x_J @ m_K.T
    pairs_JK = -0.5 * (squared + DIM * jnp.log(2 * jnp.pi)) - conditional.log_scale.sum()
    assert worst_error(pairs_JK, conditional, mixed_K, z_J) > 1e-5


@pytest.mark.parametrize("name", ON_THE_WHOLE_SPACE)
def test_scale_is_the_first_standard_deviation_of_z(name):
    conditional = CONDITIONALS[name].init(DIM, 0.4)
    location = jnp.zeros(CONDITIONALS[name].output_gain(DIM, 1.0).size)
    z = jax.vmap(conditional.transform, in_axes=(None, 0))(location, conditional.draw_base(jax.random.key(5), 5000))
    squares = np.asarray(z, np.float64) ** 2
    assert agrees(squares, 0.4**2)
    assert not agrees(squares, 0.44**2)


def test_scales_in_a_frame_are_bounded_and_small_changes_are_as_they_are():
    conditional = CONDITIONALS["scaled-cholesky"].init(DIM, 1.0)
    asked = jnp.asarray([0.01, 100.0, -1e6])
    log_scale = conditional.location_and_log_scale(jnp.concatenate([jnp.zeros(DIM), asked]))[1]
    np.testing.assert_allclose(log_scale, [0.01, 5.0, -5.0], rtol=1e-4)
    free = CONDITIONALS["scaled"].init(DIM, 1.0).location_and_log_scale(jnp.concatenate([jnp.zeros(DIM), asked]))[1]
    np.testing.assert_allclose(free, asked, rtol=1e-4)


@pytest.mark.parametrize("name", ALL)
def test_own_term_is_the_density_at_the_point_that_the_base_noise_makes(name):
    conditional, mixed_K, _ = example(name)
    u = conditional.draw_base(jax.random.key(8), INNER)
    z = jax.vmap(conditional.transform)(mixed_K, u)
    expected = [reference_log_prob(conditional, mixed, point) for mixed, point in zip(mixed_K, z, strict=True)]
    np.testing.assert_allclose(jax.vmap(conditional.log_prob_at)(mixed_K, u), expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", ON_THE_WHOLE_SPACE)
def test_own_term_is_exact_where_the_point_has_lost_the_scale(name):
    """With locations of 1,000 and scales of 1e-6, z rounds to the location in float32 for every u."""
    conditional, mixed_K, _ = example(name, scale=1e-6, centre=1000.0)
    u = conditional.draw_base(jax.random.key(8), INNER)
    near = jnp.where(conditional.output_gain(DIM, 1.0), 0.0, mixed_K)
    exact = jax.vmap(conditional.log_prob)(near, jax.vmap(conditional.transform)(near, u))
    np.testing.assert_allclose(jax.vmap(conditional.log_prob_at)(mixed_K, u), exact, rtol=1e-4)
    lost = jax.vmap(conditional.log_prob)(mixed_K, jax.vmap(conditional.transform)(mixed_K, u))
    assert np.abs(lost - exact).max() > 1


def test_the_log_scale_of_a_bounded_conditional_changes_by_at_most_5():
    bounded, scaled = (CONDITIONALS[name].init(1, 1.0) for name in ("bounded", "scaled"))
    mixed = jnp.array([0.5, 100.0])
    np.testing.assert_allclose(bounded.transform(mixed, jnp.ones(1)), 0.5 + np.exp(5), rtol=1e-5)
    np.testing.assert_allclose(bounded.transform(-mixed, jnp.ones(1)), -0.5 + np.exp(-5), rtol=1e-5)
    assert not np.isfinite(scaled.transform(mixed, jnp.ones(1))).all()
    np.testing.assert_allclose(bounded.transform(mixed * 0.01, jnp.ones(1)), 0.005 + np.exp(0.9869), rtol=1e-3)
