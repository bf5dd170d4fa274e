"""Images, mini-batches of images, and their decoder against NumPy in float64."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from autoencoding import BITS, LATENTS, ROWS, as64, image_problem, network64
from civi.estimate import Picked
from civi.problem.autoencoder import log_joint_each
from civi.problem.images import Images
from montecarlo import LIMIT, agrees

Z = np.random.default_rng(0).normal(size=(ROWS, LATENTS))
DRAWS = 20_000


def reference(problem, x, z):
    """log p(x_j | z_j) pixel by pixel."""
    logit = network64(problem.decoder.network, z)
    return stats.bernoulli(1 / (1 + np.exp(-logit))).logpmf(x).sum(-1)


@pytest.fixture(scope="module")
def problem():
    return image_problem()


def test_the_decoder_scores_every_pixel_of_the_own_datum(problem):
    got = problem.decoder.log_prob_each(jnp.asarray(BITS, jnp.float32), jnp.asarray(Z, jnp.float32))
    np.testing.assert_allclose(got, reference(problem, BITS, Z), rtol=1e-5, atol=1e-5)
    assert not np.allclose(got, reference(problem, BITS[::-1], Z), atol=0.1)


def test_all_images_have_probability_1_together(problem):
    every = np.array(np.meshgrid(*[[0.0, 1.0]] * 6)).reshape(6, -1).T
    z = jnp.broadcast_to(jnp.asarray(Z[0], jnp.float32), (64, LATENTS))
    log_p = problem.decoder.log_prob_each(jnp.asarray(every, jnp.float32), z)
    assert np.exp(as64(log_p)).sum() == pytest.approx(1, abs=1e-5)


def test_the_mean_is_the_probability_of_every_pixel(problem):
    expected = 1 / (1 + np.exp(-network64(problem.decoder.network, Z)))
    np.testing.assert_allclose(problem.decoder.mean(jnp.asarray(Z, jnp.float32)), expected, rtol=1e-5)


def test_extreme_logits_do_not_overflow(problem):
    far = jnp.asarray(1e4 * Z, jnp.float32)
    wide = image_problem(activation="relu")
    logit = network64(wide.decoder.network, 1e4 * Z)
    expected = (BITS * logit - np.logaddexp(0, logit)).sum(-1)
    got = wide.decoder.log_prob_each(jnp.asarray(BITS, jnp.float32), far)
    np.testing.assert_allclose(got, expected, rtol=1e-4)


def test_a_batch_adds_the_prior(problem):
    expected = stats.norm.logpdf(Z).sum(-1) + reference(problem, BITS, Z)
    got = log_joint_each(problem.decoder, jnp.asarray(BITS, jnp.float32), jnp.asarray(Z, jnp.float32))
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_a_weight_is_the_power_of_the_likelihood_alone(problem):
    expected = stats.norm.logpdf(Z).sum(-1) + 2.5 * reference(problem, BITS, Z)
    x, z = jnp.asarray(BITS, jnp.float32), jnp.asarray(Z, jnp.float32)
    np.testing.assert_allclose(log_joint_each(problem.decoder, x, z, jnp.asarray(2.5)), expected, rtol=1e-5)


KEY = jax.random.key(0)


def on_batch(problem, z, t=None, nu=None):
    """log p(x, z_j) on the mini-batch drawn from KEY."""
    return problem.on_batch(KEY, t, nu)[1](jnp.asarray(z, jnp.float32))


def test_a_batch_of_the_problem_is_of_rows_of_its_data(problem):
    x = as64(problem.data.batch(KEY, 4))
    assert {tuple(row) for row in x} <= {tuple(row) for row in BITS.astype(float)}
    assert len(np.unique(x, axis=0)) > 1
    expected = stats.norm.logpdf(Z[:4]).sum(-1) + reference(problem, x, Z[:4])
    np.testing.assert_allclose(on_batch(problem, Z[:4]), expected, rtol=1e-5)
    assert (problem.dim, problem.data.rows) == (LATENTS, ROWS)


def test_several_draws_of_a_datum_are_beside_each_other(problem):
    x, z = as64(problem.data.batch(KEY, 4)), np.concatenate([Z, -Z])[:8]
    expected = stats.norm.logpdf(z).sum(-1) + reference(problem, np.repeat(x, 2, axis=0), z)
    np.testing.assert_allclose(on_batch(problem, z), expected, rtol=1e-5)
    assert not np.allclose(on_batch(problem, z), expected[[0, 2, 4, 6, 1, 3, 5, 7]], atol=0.1)


def test_some_of_a_batch_are_these_data_with_the_weight_of_the_step():
    """At step 2 of a warm-up over 5 steps the KL has weight 2/5, which is equivalent to a likelihood weight of 5/2."""
    problem, index = image_problem(warm_up=5), np.array([3, 0, 3])
    x = as64(problem.data.batch(KEY, 4))[index]
    expected = stats.norm.logpdf(Z[:3]).sum(-1) + 2.5 * reference(problem, x, Z[:3])
    some = Picked(jnp.asarray(index), jnp.full(3, 1 / 3))
    np.testing.assert_allclose(on_batch(problem, Z[:3], jnp.asarray(2.0), some), expected, rtol=1e-5)
    np.testing.assert_allclose([problem.weight(jnp.asarray(t)) for t in (1.0, 2.0, 5.0, 9.0)], [0.2, 0.4, 1, 1])


def test_the_warm_up_ends_at_the_weight_of_the_kl():
    """With weight 1/2 and a warm-up over 5 steps, the likelihood counts 5 times at step 2 and twice from step 5 on."""
    problem = replace(image_problem(warm_up=5), kl_weight=0.5)
    at_once = replace(image_problem(), kl_weight=0.5)
    x = as64(problem.data.batch(KEY, 4))
    prior, likelihood = stats.norm.logpdf(Z[:4]).sum(-1), reference(problem, x, Z[:4])
    for one, t, times in [(problem, 2.0, 5), (problem, 5.0, 2), (problem, 9.0, 2), (at_once, 1.0, 2)]:
        got = on_batch(one, Z[:4], jnp.asarray(t))
        np.testing.assert_allclose(got, prior + times * likelihood, rtol=1e-5)
        assert float(one.weight(jnp.asarray(t))) == pytest.approx(1 / times)
    np.testing.assert_allclose(on_batch(problem, Z[:4]), prior + likelihood, rtol=1e-5)


def test_batches_have_every_row_equally_often(problem):
    code = 2 ** np.arange(6)
    drawn = as64(problem.data.batch(jax.random.key(0), DRAWS)) @ code
    share = drawn[:, None] == BITS @ code
    assert (share.sum(1) == 1).all()
    assert agrees(share, 1 / ROWS)
    assert not agrees(share, np.array([0.18, 0.22, 0.2, 0.2, 0.2]))


def test_grey_values_are_probabilities_drawn_anew():
    pixels = np.array([[0, 20, 64, 128, 230, 255]], np.uint8)
    data = Images(jnp.asarray(pixels), grey=True)
    bits = as64(data.batch(jax.random.key(0), DRAWS))
    assert set(np.unique(bits)) == {0.0, 1.0}
    assert (bits[:, [0, 5]] == [0, 1]).all()
    p = pixels[0, 1:5] / 255
    z_score = (bits[:, 1:5].mean(0) - p) / np.sqrt(p * (1 - p) / DRAWS)
    assert np.abs(z_score).max() < LIMIT
    assert np.abs(np.corrcoef(bits[:, 1:5].T) - np.eye(4)).max() < LIMIT / np.sqrt(DRAWS)
    assert not np.array_equal(bits, data.batch(jax.random.key(1), DRAWS))


def test_values_of_an_image_without_grey_are_bits_as_they_are():
    data = Images(jnp.asarray(BITS[:1], jnp.uint8))
    np.testing.assert_array_equal(data.batch(jax.random.key(0), 3), np.repeat(BITS[:1], 3, 0))
