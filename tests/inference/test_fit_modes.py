"""`civi.fit` of a posterior with two separate modes of known shares, which together have log evidence 0."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import civi
from civi.family import ModalNetwork, thresholds
from civi.inference import moments, selection
from civi.inference import posterior as posteriors
from civi.inference.moments import look
from civi.inference.pilot import gaussian
from civi.inference.seeds import derived
from civi.inference.shares import balanced, shares, with_best_shares

PLACES, SCALES, SHARES = np.array([[-4.0, 0.0], [4.0, 2.0]]), np.array([0.5, 1.5]), np.array([0.7, 0.3])
WORDS, COUNT = derived(np.zeros(2, np.uint32), 0), 4000


def log_density(z):
    away = ((z - PLACES) ** 2).sum(1) / SCALES**2
    return jax.nn.logsumexp(jnp.log(SHARES) - 0.5 * away - 2 * jnp.log(SCALES)) - jnp.log(2 * jnp.pi)


@pytest.fixture(scope="module", autouse=True)
def fewer_draws():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(posteriors, "DRAWS", 2000)
        patch.setattr(selection, "DRAWS", COUNT)
        patch.setattr(moments, "INNER", 2000)
        yield


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the fit has not converged")
        return civi.fit(log_density, dim=2, key=0, steps=400, progress=False)


def share_of_second(posterior, count=20_000):
    return float((posterior.sample(1, count)[:, 0] > -1.5).mean())


def test_both_modes_have_their_shares(fitted):
    """P(z_0 > -1.5) is 0.3 to four digits; the shares themselves come from 4,000 importance weights."""
    error = np.sqrt(0.21 / COUNT + 0.21 / 20_000)
    assert share_of_second(fitted) == pytest.approx(SHARES[1], abs=4.5 * error)
    value, se = fitted.elbo(2)
    assert -0.03 < value < 4.5 * se


def test_the_fit_covers_what_the_pilot_found(fitted):
    found = {finding.name: finding for finding in fitted.diagnose(3).findings}
    assert found["lost_mode"].verdict == "good"


def test_a_gaussian_family_has_one_mode_and_is_not_trained():
    gaussian = civi.fit(log_density, dim=2, key=0, solver="fullrank", progress=False)
    assert "nothing was trained" in gaussian.message
    assert min(share_of_second(gaussian), 1 - share_of_second(gaussian)) < 0.01


def test_without_separate_modes_one_is_lost(monkeypatch):
    monkeypatch.setattr(gaussian, "separate_modes", lambda *_: None)
    lost = civi.fit(log_density, dim=2, key=0, progress=False)
    assert min(share_of_second(lost), 1 - share_of_second(lost)) == 0
    assert lost.elbo(2).value < np.log(SHARES.max()) + 0.01
    found = {finding.name: finding for finding in lost.diagnose(3).findings}
    assert found["lost_mode"].verdict == "bad"


def with_shares(family, share):
    return eqx.tree_at(lambda one: one.mixing.threshold, family, thresholds(jnp.asarray(share), family.noise.scale))


def first_is_second_mode(family):
    """Whether the first mode of q is the one around PLACES[1]: the pilot's best Gaussian is the first."""
    return abs(shares(family)[0] - SHARES[1]) < 0.1


def test_wrong_shares_are_corrected_by_importance_weights(fitted):
    """The standard error of a share is about that of 4,000 draws over the share of draws that count."""
    right = shares(fitted.family)
    wrong = with_shares(fitted.family, np.array([0.5, 0.5]))
    np.testing.assert_allclose(shares(wrong), 0.5, atol=1e-6)
    first = look(wrong, fitted.target, WORDS, COUNT)
    better = balanced(wrong, fitted.target, first, WORDS, -np.inf, derived(WORDS, 9))
    error = np.sqrt(0.21 / COUNT)
    np.testing.assert_allclose(shares(better), right, atol=4.5 * np.sqrt(2) * error)
    refused = balanced(wrong, fitted.target, first, WORDS, np.inf, derived(WORDS, 9))
    np.testing.assert_allclose(shares(refused), 0.5, atol=1e-6)


def test_the_shares_of_highest_elbo_are_those_of_the_posterior_where_q_is_right(fitted):
    """The error of an ELBO is about the sd of log p - log q, 0.1, over the root of half of the draws."""
    skewed = with_shares(fitted.family, np.array([0.9, 0.1]))
    better = with_best_shares(skewed, fitted.target, WORDS, COUNT)
    exact = SHARES[::-1] if first_is_second_mode(fitted.family) else SHARES
    np.testing.assert_allclose(shares(better), exact, atol=0.02)
    assert abs(shares(skewed)[0] - exact[0]) > 0.1


def test_right_shares_are_not_changed_by_noise(fitted):
    exact = SHARES[::-1] if first_is_second_mode(fitted.family) else SHARES
    family = with_shares(fitted.family, exact)
    first = look(family, fitted.target, WORDS, COUNT)
    assert balanced(family, fitted.target, first, WORDS, -np.inf, derived(WORDS, 9)) is family


def test_a_saved_fit_has_the_same_bits(fitted, tmp_path):
    fitted.save(tmp_path / "modes.civi")
    again = civi.load(tmp_path / "modes.civi", log_density)
    assert isinstance(again.family.mixing, ModalNetwork)
    np.testing.assert_array_equal(again.sample(4, 500), fitted.sample(4, 500))
    np.testing.assert_array_equal(again.log_prob(PLACES), fitted.log_prob(PLACES))


def test_log_prob_is_that_of_the_mixture(fitted):
    lower, upper = fitted.log_prob(PLACES)
    exact = [np.log(SHARES[i]) + stats.multivariate_normal(PLACES[i], SCALES[i] ** 2).logpdf(PLACES[i]) for i in (0, 1)]
    np.testing.assert_allclose(lower, exact, atol=0.1)
    np.testing.assert_allclose(upper, exact, atol=0.1)
