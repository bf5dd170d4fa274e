"""Every estimate of the score of q against the closed form of the linear-Gaussian family."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.estimate import Draws
from civi.estimate.fresh import Fresh
from civi.estimate.player import PlayerState, Training
from civi.estimate.proposal import Proposal, Reverse, log_weights, proposed
from civi.estimate.regression import Regression
from civi.family import Architecture
from civi.objective.banked import Banked
from civi.tracker.bank import BankState
from linear_gaussian import linear_family, mean_and_covariance
from montecarlo import agrees

OUTER, INNER, RUNS = 6, 1000, 40


@pytest.fixture(scope="module")
def family():
    return linear_family()


@pytest.fixture(scope="module")
def outer(family):
    """Noise of half the usual size: in the tails, a thousand inner samples hardly hit what made z."""
    return jax.tree.map(lambda noise: 0.5 * noise, family.draw_outer(jax.random.key(0), OUTER))


def draws_of(family, outer, key, inner=INNER):
    inner_key, more_key = jax.random.split(key)
    return Draws(outer, family.noise.sample(inner_key, inner), jnp.asarray(inner), more_key)


def exact_score(family, z_J):
    mean, covariance = mean_and_covariance(family)
    return -np.linalg.solve(np.asarray(covariance, float), np.asarray(z_J - mean, float).T).T


def estimates(score, state, family, outer, inner=INNER):
    """Scores at the same outer samples, each with fresh randomness."""
    z_J, _ = family.push(outer)
    one = lambda key: score.estimate(state, family, z_J, draws_of(family, outer, key, inner)).score_J  # noqa: E731
    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), RUNS)))


def is_close(scores, family, outer, factor=1.0):
    """Whether the mean estimate is within 6 % of the largest score, four standard errors of the least precise one."""
    exact = factor * exact_score(family, family.push(outer)[0])
    return bool(np.abs(scores.mean(0) - exact).max() < 0.06 * np.abs(exact).max())


def disturbed(flow, key):
    """A flow with random last layers, which is not the prior any more."""
    return jax.tree.map(lambda leaf: leaf + 0.05 * jax.random.normal(key, leaf.shape), flow)


def test_fresh_samples_give_the_exact_score(family, outer):
    scores = estimates(Fresh(), (), family, outer)
    assert is_close(scores, family, outer)
    assert not is_close(scores, family, outer, factor=1.2)


def test_few_fresh_samples_are_drawn_to_the_score_of_their_own_conditional(family, outer):
    assert not is_close(estimates(Fresh(), (), family, outer, inner=5), family, outer)


def test_blocks_of_inner_samples_give_the_same_score(family, outer, monkeypatch):
    z_J, _ = family.push(outer)
    draws = draws_of(family, outer, jax.random.key(3), inner=50)
    whole = jax.jit(lambda: Fresh().estimate((), family, z_J, draws).score_J)()
    monkeypatch.setattr("civi.estimate.log_ratio.FLOATS", 7 * OUTER)
    blocks = jax.jit(lambda: Fresh().estimate((), family, z_J, draws).score_J)()
    np.testing.assert_allclose(blocks, whole, rtol=1e-4, atol=1e-5)


def sums_over_samples(family, z, own_eps, past_eps, last_eps):
    """The score with every choice of numerators, by explicit sums of q(z | eps) and its gradient over eps."""
    density = jax.value_and_grad(lambda z, eps: jnp.exp(family.log_conditional(z, eps)))
    (own, own_slope), (past, past_slope), (last, last_slope) = (
        jax.vmap(density, in_axes=(None, 0))(z, eps) for eps in (own_eps[None], past_eps, last_eps)
    )
    count, total = len(past) + len(last), own.sum() + past.sum() + last.sum()
    every = (own_slope.sum(0) + past_slope.sum(0) + last_slope.sum(0)) / total
    fresh = (own_slope.sum(0) + count * last_slope.mean(0)) / total
    weight = (own.sum() + count * last.mean()) / total
    return {"all": every, "fresh": fresh, "both": fresh + (1 - weight) * every}


@pytest.mark.parametrize("conditional", ["diagonal", "scaled"])
def test_a_bank_divides_its_numerators_by_the_density_of_all_its_steps(conditional, outer):
    family = Architecture(hidden=(4,), conditional=conditional, scale=1.0).init(2, jax.random.key(0))
    z_J, _ = family.push(outer)
    steps = [draws_of(family, outer, key, 5) for key in jax.random.split(jax.random.key(4), 3)]
    state = jax.jit(lambda: Banked(2).init(family, steps[0]))()

    @jax.jit
    def estimate(state, draws):
        scored = {of: Banked(2, of).estimate(state, family, z_J, draws) for of in ("all", "fresh", "both")}
        return {of: one.score_J for of, one in scored.items()}, scored["both"].state

    for draws in steps:
        found, state = estimate(state, draws)
        assert all(np.isfinite(scores).all() for scores in found.values())
    past_eps, last_eps = jnp.concatenate([draws.inner_eps for draws in steps[:-1]]), steps[-1].inner_eps
    sums = jax.jit(jax.vmap(lambda z, own: sums_over_samples(family, z, own, past_eps, last_eps)))(z_J, outer.eps)
    for of, scores in found.items():
        np.testing.assert_allclose(scores, sums[of], rtol=1e-3, atol=1e-4)
        assert not any(np.allclose(scores, sums[other], atol=1e-2) for other in sums if other != of)


@pytest.mark.parametrize(("numerators", "right"), [("both", True), ("fresh", False), ("all", False)])
def test_only_both_numerators_give_the_exact_score_with_a_bank_of_past_parameters(family, outer, numerators, right):
    """The errors of y and of its score are of first order in the lag, and that of the score with both of second."""
    past = eqx.tree_at(lambda family: family.mixing.biases[0], family, family.mixing.biases[0] + jnp.array([0.3, 0.0]))
    mixed_K = past.mix(past.noise.sample(jax.random.key(5), 4 * INNER))
    state = BankState(mixed_K.reshape(4, INNER, -1), jnp.full(4, INNER), jnp.asarray(0))
    assert is_close(estimates(Banked(4, numerators), state, family, outer), family, outer) == right


@pytest.fixture(scope="module")
def flow(family, outer):
    draws = draws_of(family, outer, jax.random.key(6))
    return disturbed(Reverse(layers=2, hidden=(8,)).init(family, draws), jax.random.key(7))


def test_importance_sampling_corrects_any_proposal(family, outer, flow):
    score = Proposal(False, Reverse(2, (8,)), Training(updates=0))
    scores = estimates(score, PlayerState(flow, ()), family, outer)
    assert is_close(scores, family, outer)
    assert not is_close(scores, family, outer, factor=1.2)


def test_the_weights_of_a_proposal_average_to_the_density(family, outer, flow):
    z_J, _ = family.push(outer)

    def density(key, shift=0.0):
        draws = draws_of(family, outer, key, 100)
        eps_JK, log_tau_JK = proposed(flow, family, z_J, draws, key, own=False)
        return jnp.exp(log_weights(family, z_J, eps_JK, log_tau_JK + shift)).mean(1)

    values = jax.jit(jax.vmap(density))(jax.random.split(jax.random.key(8), 200))
    mean, covariance = (np.asarray(moment) for moment in mean_and_covariance(family))
    exact = jax.scipy.stats.multivariate_normal.pdf(z_J, mean, covariance)
    assert agrees(values, exact)
    assert not agrees(values, 1.2 * exact)


def test_a_flow_has_the_density_that_it_draws_from(flow):
    condition_J = jax.random.normal(jax.random.key(9), (4, 2))
    eps_JK, log_tau_JK = jax.jit(lambda: flow.draw(condition_J, jax.random.key(10), 5))()
    log_prob = jax.jit(jax.vmap(flow.log_prob, in_axes=(1, None), out_axes=1))
    np.testing.assert_allclose(log_prob(eps_JK, condition_J), log_tau_JK, rtol=1e-4, atol=1e-4)
    assert not np.allclose(log_prob(eps_JK, condition_J[::-1]), log_tau_JK, atol=1e-2)


def test_training_a_flow_finds_the_reverse_conditional(family):
    """q(eps | z) is Gaussian here; its mean in standard units is W (W'W s^2 + S^2)^-1 s (z - b)."""
    outer = family.draw_outer(jax.random.key(11), 256)
    score = Proposal(False, Reverse(2, (16,)), Training(updates=400, learning_rate=1e-2))
    draws = draws_of(family, outer, jax.random.key(12), 400)
    z_J, _ = family.push(outer)
    scored = jax.jit(lambda state: score.estimate(state, family, z_J, draws))(score.init(family, draws))
    eps_JK, _ = scored.state.network.draw(z_J[:20], jax.random.key(13), 500)
    mean, covariance = mean_and_covariance(family)
    (weight,), scale = family.mixing.weights, family.noise.scale
    exact = scale**2 * (z_J[:20] - mean) @ np.linalg.inv(covariance) @ weight.T
    error = np.asarray(eps_JK.mean(1) - exact)
    assert np.sqrt((error**2).mean()) < 0.25
    assert np.sqrt((np.asarray(exact) ** 2).mean()) > 0.5


def test_regression_on_conditional_scores_finds_the_score_of_q(family, outer):
    """Without hidden layers the network is linear, as the score of a Gaussian is."""
    score = Regression((), "silu", Training(updates=1500, draws=256, learning_rate=1e-2))
    draws = draws_of(family, outer, jax.random.key(14), 2)
    z_J, own_J = family.push_scored(outer)
    scored = jax.jit(lambda state: score.estimate(state, family, z_J, draws))(score.init(family, draws))
    exact = exact_score(family, z_J)
    assert np.abs(scored.score_J - exact).max() < 0.1 * np.abs(exact).max()
    assert np.abs(own_J - exact).max() > 0.5 * np.abs(exact).max()


@pytest.mark.parametrize("name", ["diagonal", "cholesky"])
def test_the_score_of_a_conditional_from_its_base_is_that_of_its_density(name):
    family = linear_family(name)
    outer = family.draw_outer(jax.random.key(15), 5)
    z_J, score_J = family.push_scored(outer)
    by_density = jax.vmap(jax.grad(family.log_conditional))(z_J, outer.eps)
    np.testing.assert_allclose(score_J, by_density, rtol=1e-4, atol=1e-4)
