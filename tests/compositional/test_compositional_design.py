"""All methods on a Bayesian experimental design whose expected information gain has a closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from civi.compositional import asc_pg, cadam, civi, minimise, nmc, scgd
from civi.compositional.problems import linear_design
from civi.estimate import Sketch
from civi.update import FirstOrder, Samples
from montecarlo import agrees

DESIGN = linear_design(jax.random.key(5), pool=24)
PRIOR = np.asarray(DESIGN.factor, float) @ np.asarray(DESIGN.factor, float).T
START = jnp.array([1.9, 2.3])
SEEDS = 4


def rows(theta) -> np.ndarray:
    return np.stack([np.cos(theta), np.sin(theta)], axis=-1)


def gain(theta) -> np.ndarray:
    """1/2 log det(I + X S X') with noise 1; theta may have leading axes."""
    x = rows(np.asarray(theta, float))
    return 0.5 * np.linalg.slogdet(np.eye(x.shape[-2]) + x @ PRIOR @ np.swapaxes(x, -1, -2))[1]


def pool_log_density(theta) -> np.ndarray:
    """log p(y_j) - log p(y_j | w_j), the logarithm of the inner mean, from the marginal N(0, X S X' + I)."""
    x, weight, error = rows(theta), np.asarray(DESIGN.weight_J, float), np.asarray(DESIGN.error_J, float)
    marginal = stats.multivariate_normal(np.zeros(2), x @ PRIOR @ x.T + np.eye(2))
    return marginal.logpdf(weight @ x.T + error) - stats.norm.logpdf(error).sum(axis=1)


GRID = np.linspace(0, np.pi, 400)
BEST = gain(np.stack(np.meshgrid(GRID, GRID), axis=-1)).max()


def test_the_closed_forms():
    """The gain; the best gain, against a grid of all pairs of angles; and the best single direction."""
    single = linear_design(jax.random.key(0), rows=1)
    now, gap, best, best_single = jax.jit(
        lambda at: (DESIGN.information_gain(at), DESIGN.gap(at), DESIGN.best_gain(), single.best_gain())
    )(START)
    np.testing.assert_allclose(now, gain(START), rtol=1e-5)
    np.testing.assert_allclose(gap, 1 - gain(START) / BEST, rtol=1e-3)
    np.testing.assert_allclose(best, BEST, rtol=1e-4)
    np.testing.assert_allclose(best_single, 0.5 * np.log(1 + np.linalg.eigvalsh(PRIOR).max()), rtol=1e-5)


@pytest.mark.parametrize("theta", [(1.9, 2.3), (0.2, 1.1)])
def test_the_pool_gives_the_gain_of_every_design(theta):
    np.testing.assert_allclose(-pool_log_density(theta).mean(), gain(theta), rtol=1e-5)


def test_the_inner_mean_is_the_marginal_density():
    keys = jax.random.split(jax.random.key(1), 20_000)
    each = np.exp(np.asarray(jax.jit(jax.vmap(lambda key: DESIGN.inner(START, key)))(keys), float))
    expected = np.exp(pool_log_density(START))
    assert agrees(each, expected)
    assert not agrees(each, 1.1 * expected)


def gaps(method, steps) -> np.ndarray:
    keys = jax.random.split(jax.random.key(0), SEEDS)
    return np.array([1 - gain(minimise(DESIGN.problem, START, key, method, steps).theta) / BEST for key in keys])


@pytest.mark.parametrize(
    ("method", "steps"),
    [
        (scgd(), 300),
        (asc_pg(), 300),
        (cadam(), 300),
        (civi(samples=Samples(4, 4, growth=0.8), sketch=Sketch("sparse", 8)), 120),
    ],
    ids=["scgd", "asc-pg", "cadam", "civi-sketched"],
)
def test_a_good_design_is_found_from_a_bad_one(method, steps):
    assert 1 - gain(START) / BEST > 0.3
    assert gaps(method, steps).max() < 0.03


def test_nested_monte_carlo_with_one_inner_sample_measures_one_direction_twice():
    """E|X(w - w')|^2 is largest if all rows are the first axis of the prior. The gain is then 1/2 log(1 + 2 * 4)."""
    missed = 1 - 0.5 * np.log(1 + 2 * 4.0) / BEST
    found = gaps(nmc(FirstOrder(learning_rate=0.03), Samples(16, 1)), 300)
    np.testing.assert_allclose(found, missed, atol=0.02)
    np.testing.assert_allclose(1 - DESIGN.one_sample_gain() / BEST, missed, rtol=1e-4)
    assert missed > 0.15
