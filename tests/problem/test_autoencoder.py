"""Images, their decoder and a batch of them, against NumPy in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from autoencoding import BITS, LATENTS, ROWS, as64, image_model, network64
from civi.problem.autoencoder import Batch, Images
from civi.problem.target import PairedTarget
from montecarlo import LIMIT, agrees

Z = np.random.default_rng(0).normal(size=(ROWS, LATENTS))
DRAWS = 20_000


def reference(model, x, z):
    """log p(x_j | z_j) pixel by pixel."""
    logit = network64(model.target.decoder.network, z)
    return stats.bernoulli(1 / (1 + np.exp(-logit))).logpmf(x).sum(-1)


@pytest.fixture(scope="module")
def model():
    return image_model()


@pytest.fixture(scope="module")
def batch(model):
    return Batch(model.target.decoder, jnp.asarray(BITS, jnp.float32), LATENTS)


def test_the_decoder_scores_every_pixel_of_the_own_datum(model):
    got = model.target.decoder.log_prob_each(jnp.asarray(BITS, jnp.float32), jnp.asarray(Z, jnp.float32))
    np.testing.assert_allclose(got, reference(model, BITS, Z), rtol=1e-5, atol=1e-5)
    assert not np.allclose(got, reference(model, BITS[::-1], Z), atol=0.1)


def test_all_images_have_probability_1_together(model):
    every = np.array(np.meshgrid(*[[0.0, 1.0]] * 6)).reshape(6, -1).T
    z = jnp.broadcast_to(jnp.asarray(Z[0], jnp.float32), (64, LATENTS))
    log_p = model.target.decoder.log_prob_each(jnp.asarray(every, jnp.float32), z)
    assert np.exp(as64(log_p)).sum() == pytest.approx(1, abs=1e-5)


def test_the_mean_is_the_probability_of_every_pixel(model):
    expected = 1 / (1 + np.exp(-network64(model.target.decoder.network, Z)))
    np.testing.assert_allclose(model.target.decoder.mean(jnp.asarray(Z, jnp.float32)), expected, rtol=1e-5)


def test_extreme_logits_do_not_overflow(model):
    far = jnp.asarray(1e4 * Z, jnp.float32)
    wide = image_model(activation="relu")
    logit = network64(wide.target.decoder.network, 1e4 * Z)
    expected = (BITS * logit - np.logaddexp(0, logit)).sum(-1)
    got = wide.target.decoder.log_prob_each(jnp.asarray(BITS, jnp.float32), far)
    np.testing.assert_allclose(got, expected, rtol=1e-4)


def test_a_batch_adds_the_prior(model, batch):
    assert isinstance(batch, PairedTarget)
    expected = stats.norm.logpdf(Z).sum(-1) + reference(model, BITS, Z)
    np.testing.assert_allclose(batch.log_prob_each(jnp.asarray(Z, jnp.float32)), expected, rtol=1e-5)


def test_a_weight_is_the_power_of_the_likelihood_alone(model, batch):
    expected = stats.norm.logpdf(Z).sum(-1) + 2.5 * reference(model, BITS, Z)
    weighted = batch.weighted(jnp.asarray(2.5))
    np.testing.assert_allclose(weighted.log_prob_each(jnp.asarray(Z, jnp.float32)), expected, rtol=1e-5)


def test_some_of_a_batch_are_these_data_with_the_same_weight(model, batch):
    index = np.array([3, 0, 3])
    expected = stats.norm.logpdf(Z[:3]).sum(-1) + 2.5 * reference(model, BITS[index], Z[:3])
    some = batch.weighted(jnp.asarray(2.5)).take(jnp.asarray(index))
    np.testing.assert_allclose(some.log_prob_each(jnp.asarray(Z[:3], jnp.float32)), expected, rtol=1e-5)


def test_a_batch_of_the_target_has_its_decoder_and_rows_of_its_data(model):
    batch = model.target.batch(jax.random.key(0), 4)
    assert batch.dim == LATENTS
    assert {tuple(row) for row in as64(batch.x_N)} <= {tuple(row) for row in BITS.astype(float)}
    assert batch.decoder is model.target.decoder
    assert model.target.rows == ROWS


def test_batches_have_every_row_equally_often(model):
    code = 2 ** np.arange(6)
    drawn = as64(model.target.data.batch(jax.random.key(0), DRAWS)) @ code
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
