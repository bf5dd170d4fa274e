"""The correction by importance-weighted moments, against a Gaussian target whose moments are known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.family import Architecture
from civi.inference import moments
from civi.inference.diagnose.importance import SmoothedWeights
from civi.inference.moments import Look, changes, look, matched, moved
from civi.inference.seeds import derived
from civi.inference.selection import as_gaussian
from civi.problem.target import CurvedFrame, Framed
from linear_gaussian import GaussianTarget

WORDS = derived(np.zeros(2, np.uint32), 0)
MEAN, SD, COUNT = np.array([0.3, 0.0]), np.array([1.25, 1.0]), 4000


@pytest.fixture(scope="module")
def start():
    return Architecture.at_pilot(noise_dim=3).init(2, jax.random.key(0))


@pytest.fixture(scope="module")
def framed():
    target = GaussianTarget(jnp.asarray(MEAN, jnp.float32), jnp.diag(jnp.asarray(SD**2, jnp.float32)))
    frame = CurvedFrame.of(np.zeros(2), np.eye(2))
    return Framed(target, frame, jnp.zeros(()), jnp.zeros(2))


@pytest.fixture(scope="module")
def gaussian(start):
    """The standard normal distribution of the frame."""
    return as_gaussian(start)


@pytest.fixture(scope="module")
def first(gaussian, framed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moments, "INNER", 1000)
        yield look(gaussian, framed, WORDS, COUNT)


def test_a_look_has_the_exact_log_ratios(first):
    exact = 0.7 - 0.5 * (((first.w - MEAN) / SD) ** 2 - first.w**2).sum(1) - np.log(SD).sum()
    np.testing.assert_allclose(first.log_ratios, exact, atol=1e-4)
    assert first.elbo == pytest.approx(exact.mean(), abs=1e-4)
    assert Look(first.w, first.log_ratios * np.nan).elbo == -np.inf


def test_the_moments_become_those_of_the_target(gaussian, framed, first):
    """Means and log sd are within five standard errors of about 1 / sqrt(3000); without it they are off by 0.3."""
    family, after = matched(gaussian, framed, first, derived(WORDS, 1), -np.inf)
    np.testing.assert_allclose(after.w.mean(0), MEAN, atol=0.09)
    np.testing.assert_allclose(np.log(after.w.std(0)), np.log(SD), atol=0.065)
    assert np.abs(first.w.mean(0) - MEAN).max() > 0.2
    assert after.elbo > first.elbo
    np.testing.assert_allclose(np.exp(family.conditional.log_scale), after.w.std(0), atol=0.06)


@pytest.mark.parametrize("case", ["elbo", "tail", "not finite"])
def test_a_change_that_cannot_be_trusted_is_not_made(gaussian, framed, first, case):
    ratios = {"elbo": first.log_ratios, "tail": 4 * np.abs(first.w[:, 0]) ** 2, "not finite": first.log_ratios * np.inf}
    found = first._replace(log_ratios=ratios[case])
    family, kept = matched(gaussian, framed, found, derived(WORDS, 1), np.inf if case == "elbo" else -np.inf)
    assert family is gaussian
    assert kept is found


def test_equal_weights_and_noise_change_nothing(first):
    equal = SmoothedWeights(np.full(COUNT, -np.log(COUNT)), 0.0, COUNT)
    scale, shift = changes(first.w, equal)
    np.testing.assert_array_equal(scale, 1)
    np.testing.assert_allclose(shift, 0, atol=1e-12)
    noise = np.random.default_rng(1).normal(size=COUNT)
    scale, shift = changes(first.w, SmoothedWeights(noise, 0.0, COUNT))
    assert np.abs(np.log(scale)).max() < 0.03
    assert np.abs(shift).max() < 0.03


def test_a_moved_family_has_the_moved_draws(start):
    scale, shift = np.array([1.5, 0.7]), np.array([0.2, -0.4])
    push = eqx.filter_jit(lambda family: family.push(family.draw_outer(jax.random.key(1), 50)))
    before, own = push(start)
    after, own_after = push(moved(start, scale, shift))
    np.testing.assert_allclose(after, scale * np.asarray(before) + shift, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(own_after, np.asarray(own) - np.log(scale).sum(), rtol=1e-4, atol=1e-4)
