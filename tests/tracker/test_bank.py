"""The bank against the mean over all the mixing outputs that it should hold, concatenated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from civi.errors import SettingError
from civi.estimate import log_ratios
from civi.tracker import Auxiliary, Bank, NoTracker
from linear_gaussian import gaussian_target, linear_family

INNER, OUTER, STEPS = 5, 4, 4


@jax.jit
def look(step, kept):
    """Fresh outer and inner samples for one step."""
    family = linear_family()
    outer_key, inner_key = jax.random.split(jax.random.fold_in(jax.random.key(0), step))
    outer, inner_eps = family.draw_outer(outer_key, OUTER), family.noise.sample(inner_key, INNER)
    return log_ratios(family, jax.vmap(gaussian_target().log_prob), outer, inner_eps, kept)


@jax.jit
def observe(state, ratios):
    return Bank(STEPS).observe(state, ratios, jnp.arange(OUTER))


def walk(kept_at_steps):
    """What the bank returns, and the look, for every step."""
    bank = Bank(STEPS)
    state = bank.init(look(99, INNER), INNER)
    for step, kept in enumerate(kept_at_steps):
        ratios = look(step, kept)
        tracked, state = observe(state, ratios)
        state = bank.refresh(state, Auxiliary(0.0, 0.0, jnp.ones(OUTER, bool), lambda _: pytest.fail("second look")))
        yield tracked, ratios


def mean_over(outputs, ratios):
    """log of the mean of q(z_j | output) / p(z_j) over these mixing outputs, in float64."""
    scale = np.exp(np.asarray(linear_family().conditional.log_scale, np.float64))
    pairs = stats.norm(outputs, scale).logpdf(np.asarray(ratios.z_J, np.float64)[:, None]).sum(-1)
    return logsumexp(pairs, axis=1) - np.log(len(outputs)) - np.asarray(ratios.log_p_J, np.float64)


@pytest.mark.parametrize("kept_at_steps", [[INNER] * 7, [1, 2, 3, 4, 5, 5, 4]])
def test_denominators_are_the_mean_over_the_last_steps_outputs(kept_at_steps):
    outputs = []
    for step, (tracked, ratios) in enumerate(walk(kept_at_steps)):
        outputs.append(np.asarray(ratios.mixed_K, np.float64)[: kept_at_steps[step]])
        held = np.concatenate(outputs[-(STEPS + 1) :])
        np.testing.assert_allclose(tracked.y_S, mean_over(held, ratios), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(tracked.effective_S, len(held))
        forgotten = np.concatenate(outputs)
        assert step <= STEPS or not np.allclose(tracked.y_S, mean_over(forgotten, ratios), rtol=1e-4, atol=1e-4)


def test_no_tracker_gives_the_fresh_mean():
    ratios = look(0, 3)
    tracked, _ = NoTracker().observe((), ratios, jnp.arange(OUTER))
    outputs = np.asarray(ratios.mixed_K, np.float64)[:3]
    np.testing.assert_allclose(tracked.y_S, mean_over(outputs, ratios), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(tracked.effective_S, 3)


def test_an_empty_bank_is_refused():
    with pytest.raises(SettingError, match=r"tracker.steps must be at least 1"):
        Bank(0)
