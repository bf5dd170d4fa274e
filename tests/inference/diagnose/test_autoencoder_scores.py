"""Scores of an autoencoder whose evidence p(x) and posterior are known: x | z ~ N(A z + b, s^2 I)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import civi.inference.diagnose.autoencoder as diagnosed
from autoencoding import PRECISION, SD, A, B, X, exact_theta, linear_autoencoder, linear_neg_elbo, log_evidence
from civi.inference.diagnose.autoencoder import scores, scores_of
from civi.inference.diagnose.divergence import mean_and_se
from montecarlo import LIMIT, agrees, z_scores

DRAWS, KEYS = 4, 3000


def wide_theta():
    """A q that is shifted and wider than the posterior, so that importance weights are bounded; mixing share 80 %."""
    theta = exact_theta(0.8)
    wider = {"noise": 1.3 * theta["noise"], "log_scale": theta["log_scale"] + np.log(1.3)}
    return theta | wider | {"offset": theta["offset"] + jnp.array([0.2, -0.1])}


def networks(*args, **kwargs):
    """Encoder and decoder of the linear autoencoder."""
    problem = linear_autoencoder(*args, **kwargs)
    return problem.family, problem.decoder


def repeated(model, together):
    keys = jax.random.split(jax.random.key(0), KEYS)
    x = jnp.asarray(X[:4], jnp.float32)
    found = jax.jit(lambda: jax.lax.map(lambda key: scores_of(*model, x, key, DRAWS, together), keys, batch_size=500))()
    return {name: np.asarray(value, np.float64) for name, value in found._asdict().items()}


@pytest.fixture(scope="module")
def estimates():
    """Many estimates for each of four data points."""
    return repeated(networks(wide_theta()), together=2)


def by_hand(own_term: bool) -> np.ndarray:
    """Importance-weighted estimates of log p(x) in NumPy. Without the own term, q uses only the eps of other draws."""
    rng, theta = np.random.default_rng(0), {name: np.asarray(value, np.float64) for name, value in wide_theta().items()}
    mean = X[:4] @ theta["gain"].T + theta["offset"]
    scale = np.exp(theta["log_scale"])
    location = mean[:, None] + theta["noise"] * rng.normal(size=(KEYS, 4, DRAWS, 2))
    z = location + scale * rng.normal(size=location.shape)
    pairs = stats.norm.logpdf(z[..., :, None, :], location[..., None, :, :], scale).sum(-1)
    if not own_term:
        pairs = np.where(np.eye(DRAWS, dtype=bool), -np.inf, pairs)
    log_q = logsumexp(pairs, axis=-1) - np.log(DRAWS if own_term else DRAWS - 1)
    log_p = stats.norm.logpdf(z).sum(-1) + stats.norm.logpdf(X[:4, None], z @ A.T + B, SD).sum(-1)
    return logsumexp(log_p - log_q, axis=-1) - np.log(DRAWS)


def test_the_estimate_of_the_evidence_has_no_bias(estimates):
    relative = np.exp(-estimates["neg_log_lik"] - log_evidence(X[:4]))
    assert agrees(relative, 1.0)
    assert relative.std(axis=0).max() < 3


def test_the_same_by_hand_has_none_and_without_the_own_term_it_is_no_bound():
    assert agrees(np.exp(by_hand(own_term=True) - log_evidence(X[:4])), 1.0)
    assert z_scores(by_hand(own_term=True), log_evidence(X[:4])).max() < -LIMIT
    assert z_scores(by_hand(own_term=False), log_evidence(X[:4])).min() > LIMIT


def test_the_estimator_is_the_one_by_hand(estimates):
    hand, ours = -by_hand(own_term=True), estimates["neg_log_lik"]
    apart = (ours.mean(0) - hand.mean(0)) / np.sqrt((ours.var(0) + hand.var(0)) / KEYS)
    assert np.abs(apart).max() < LIMIT


def test_both_are_bounds_in_expectation(estimates):
    assert z_scores(estimates["neg_log_lik"], -log_evidence(X[:4])).min() > LIMIT
    assert (estimates["neg_elbo"] >= estimates["neg_log_lik"] - 1e-4).all()
    assert z_scores(estimates["neg_elbo"] - estimates["neg_log_lik"], 0.0).min() > LIMIT
    assert z_scores(estimates["neg_elbo"], linear_neg_elbo(wide_theta(), X[:4])).min() > LIMIT


def test_without_mixing_neg_elbo_is_the_exact_one():
    theta = exact_theta() | {"log_scale": jnp.array([-0.3, -0.8]), "offset": jnp.array([0.4, 0.1])}
    found = repeated(networks(theta, mixing=False), together=2)
    exact = linear_neg_elbo(theta, X[:4])
    assert (np.asarray(exact) > -log_evidence(X[:4]) + 0.1).all()
    assert agrees(found["neg_elbo"], exact)
    assert (found["mixing_share"] == 0).all()


@pytest.mark.parametrize(("together", "block"), [(1, 50), (3, 1), (4, 50)])
def test_of_the_exact_posterior_every_estimate_is_exact_for_every_datum(together, block, monkeypatch):
    """Seven data points in groups of 1, 3 or 4, in one call or three. Padding must not lose or repeat any of them."""
    monkeypatch.setattr(diagnosed, "BLOCK", block)
    reported = []
    model = networks(exact_theta(), mixing=False)
    told = lambda done, of: reported.append((done, of))  # noqa: E731
    x = np.asarray(X, np.float32)
    found = scores(*model, x, jax.random.key(0), 5, together=together, advance=told)
    np.testing.assert_allclose(found.neg_log_lik, -log_evidence(), rtol=1e-4)
    np.testing.assert_allclose(found.neg_elbo, -log_evidence(), rtol=1e-4)
    assert reported == ([(3, 7), (6, 7), (7, 7)] if block == 1 else [(7, 7)])


def test_how_many_go_together_changes_nothing_but_the_draws(estimates):
    alone = repeated(networks(wide_theta()), together=4)
    for name in ("neg_elbo", "neg_log_lik", "mixing_share"):
        a, b = estimates[name], alone[name]
        assert np.abs((a.mean(0) - b.mean(0)) / np.sqrt((a.var(0) + b.var(0)) / KEYS)).max() < LIMIT
        assert (a != b).any()


def test_the_mixing_share_is_its_part_of_the_variance():
    """Var(w eps + s u) = w^2 + s^2; the variance of 3,000 draws has a relative standard error of sqrt(2 / 3000)."""
    draws = 3000
    noise, scale = np.array([0.9, 0.4]), np.array([0.5, 0.3])
    theta = exact_theta() | {"noise": jnp.asarray(noise, jnp.float32), "log_scale": jnp.log(jnp.asarray(scale))}
    share = scores(*networks(theta), np.asarray(X[:2], np.float32), jax.random.key(0), draws, together=1)
    between, within = noise**2, scale**2
    expected = between.sum() / (between.sum() + within.sum())
    error = np.sqrt(2 / draws * (between**2).sum()) * within.sum() / (between.sum() + within.sum()) ** 2
    assert (np.abs(share.mixing_share - expected) < LIMIT * error).all()
    assert error < 0.01


def test_rate_and_location_are_those_of_the_exact_posterior():
    """KL(N(m, s^2) | N(0, 1)) = (m^2 + s^2 - 1) / 2 - log s; the log ratio has variance m^2 s^2 + (1 - s^2)^2 / 2."""
    draws, theta = 3000, exact_theta()
    family, decoder = networks(theta, mixing=False)
    found = scores(family, decoder, np.asarray(X, np.float32), jax.random.key(0), draws, together=1)
    mean, sd = X @ np.asarray(theta["gain"]).T + np.asarray(theta["offset"]), PRECISION**-0.5
    expected = ((mean**2 + sd**2 - 1) / 2 - np.log(sd)).sum(-1)
    spread = np.sqrt((mean**2 * sd**2 + (1 - sd**2) ** 2 / 2).sum(-1) / draws)
    np.testing.assert_allclose(found.location, mean, rtol=1e-4, atol=1e-5)
    assert (np.abs(found.rate - expected) < LIMIT * spread).all()
    assert (np.abs(found.neg_elbo - expected) > 10 * LIMIT * spread).any()


def test_the_linear_autoencoder_has_the_posterior_it_claims():
    """A check of the oracle: with the exact posterior the ELBO is log p(x), whatever the mixing share."""
    for share in (0.0, 0.6):
        np.testing.assert_allclose(linear_neg_elbo(exact_theta(share)), -log_evidence(), rtol=1e-5)
    assert (1 / PRECISION < 1).all()


def test_bytes_are_read_as_numbers():
    x = np.array([[0, 1, 2, 1], [3, 0, 1, 1]], np.uint8)
    model = networks(exact_theta(), mixing=False)
    found = scores(*model, x, jax.random.key(0), 5, together=2)
    np.testing.assert_allclose(found.neg_log_lik, -log_evidence(x.astype(float)), rtol=1e-4)


def test_the_standard_error_of_what_diverged_does_not_overflow():
    mean, se = mean_and_se(np.array([1e30, -1e30, 3e30], np.float32))
    assert (mean, se) == pytest.approx((1e30, 2e30 / np.sqrt(3)), rel=1e-6)
    assert np.isnan(mean_and_se(np.array([np.inf, 1.0], np.float32))[1])


def test_mean_and_standard_error():
    mean, se = mean_and_se(np.array([1.0, 2.0, 6.0]))
    assert mean == pytest.approx(3.0)
    assert se == pytest.approx(np.sqrt(7.0) / np.sqrt(3.0))


def narrow_theta():
    """A q that is far too narrow and in the wrong place, so that its own importance weights miss most of p(x)."""
    theta = exact_theta(0.5)
    changes = {"noise": 0.2 * theta["noise"], "log_scale": theta["log_scale"] - 2}
    return theta | changes | {"offset": theta["offset"] + 1.0}


def test_draws_at_the_modes_make_the_evidence_exact_where_q_is_poor():
    x = np.asarray(X, np.float32)
    found = scores(*networks(narrow_theta()), x, jax.random.key(0), 1000, together=1, at_modes=True)
    exact = -log_evidence()
    np.testing.assert_allclose(found.neg_log_lik, exact, atol=0.2)
    assert found.neg_log_lik.mean() == pytest.approx(exact.mean(), abs=0.05)
    assert (found.neg_log_lik_by_q > exact + 1).all()
    without = scores(*networks(narrow_theta()), x, jax.random.key(0), 1000, together=1)
    np.testing.assert_array_equal(without.neg_log_lik, without.neg_log_lik_by_q)
    np.testing.assert_allclose(without.neg_elbo, found.neg_elbo, rtol=1e-5)
