"""The amortised family: its split first layer against one on the concatenated [x, eps], and its methods per datum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from autoencoding import BITS, LATENTS, NOISE, SMALL, as64, image_problem, unsplit64
from civi.errors import SettingError
from civi.problem import ImageArchitecture, TextArchitecture

INNER = 4
RNG = np.random.default_rng(0)
EPS_K, EPS_J, Z_J = RNG.normal(size=(INNER, NOISE)), RNG.normal(size=(5, NOISE)), RNG.normal(size=(5, LATENTS))
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def single(values):
    return jnp.asarray(values, jnp.float32)


def given(problem):
    return problem.family.given(single(BITS))


def location_and_scale(problem, mixed):
    """Location and scale of the conditionals `diagonal` and `scaled`, in float64."""
    location, change = mixed[..., :LATENTS], mixed[..., LATENTS:]
    free = as64(problem.family.conditional.log_scale)
    return location, np.exp(free + (change if change.size else 0.0))


@pytest.fixture(scope="module", params=["diagonal", "scaled"])
def problem(request):
    return image_problem(conditional=request.param)


@pytest.fixture(scope="module")
def expected(problem):
    """The parameters of the conditional for every datum and noise vector."""
    pairs = [[unsplit64(problem.family.mixing, x, eps) for eps in EPS_K] for x in BITS]
    return np.array(pairs)


@pytest.mark.parametrize("noise_layer", [1, 2])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_split_layer_is_one_on_the_joined_vector(noise_layer, activation):
    problem = image_problem(noise_layer=noise_layer, activation=activation)
    reader, rest = problem.family.mixing.reader, problem.family.mixing.rest
    assert (len(reader.weights), len(rest.weights)) == (noise_layer, 3 - noise_layer)
    mixed_JK = given(problem).mix(single(EPS_K))
    joined_JK = unsplit64(problem.family.mixing, np.repeat(BITS[:, None], INNER, 1), np.repeat(EPS_K[None], 5, 0))
    np.testing.assert_allclose(mixed_JK, joined_JK, **CLOSE)
    other_JK = unsplit64(problem.family.mixing, np.repeat(BITS[:, None], INNER, 1), np.repeat(-EPS_K[None], 5, 0))
    assert not np.allclose(mixed_JK, other_JK, atol=0.1)


def test_mix_pairs_every_datum_with_every_noise_vector(problem, expected):
    np.testing.assert_allclose(given(problem).mix(single(EPS_K)), expected, **CLOSE)
    assert np.ptp(expected, axis=0).min() > 1e-3
    assert np.ptp(expected, axis=1).min() > 1e-3


def test_mix_each_pairs_datum_and_noise_one_to_one(problem):
    expected_J = [unsplit64(problem.family.mixing, x, eps) for x, eps in zip(BITS, EPS_J, strict=True)]
    np.testing.assert_allclose(given(problem).mix_each(single(EPS_J)), expected_J, **CLOSE)


def test_log_prob_pairs_is_the_density_of_z_given_its_own_datum(problem, expected):
    family = given(problem)
    got_JK = family.log_prob_pairs(family.mix(single(EPS_K)), single(Z_J))
    location, scale = location_and_scale(problem, expected)
    np.testing.assert_allclose(got_JK, stats.norm(location, scale).logpdf(Z_J[:, None]).sum(-1), rtol=1e-4, atol=1e-4)
    of_others = stats.norm(location[::-1], scale).logpdf(Z_J[:, None]).sum(-1)
    assert not np.allclose(got_JK, of_others, atol=0.1)


def test_log_conditional_with_the_context_of_a_datum_is_its_entry_of_the_pairs(problem):
    family = given(problem)
    got_JK = jax.vmap(jax.vmap(family.log_conditional, (None, 0, None)), (0, None, 0))(
        single(Z_J), single(EPS_K), family.context(len(Z_J))
    )
    np.testing.assert_allclose(got_JK, family.log_prob_pairs(family.mix(single(EPS_K)), single(Z_J)), **CLOSE)


def test_push_moves_the_base_noise_by_the_own_datum(problem):
    outer = problem.family.draw_outer(jax.random.key(3), 5)
    z_J, own_J = given(problem).push(outer)
    mixed_J = np.array([unsplit64(problem.family.mixing, x, e) for x, e in zip(BITS, as64(outer.eps), strict=True)])
    location, scale = location_and_scale(problem, mixed_J)
    np.testing.assert_allclose(z_J, location + scale * as64(outer.u), **CLOSE)
    np.testing.assert_allclose(own_J, (stats.norm.logpdf(as64(outer.u)) - np.log(scale)).sum(-1), **CLOSE)


def test_outer_noise_does_not_depend_on_being_told_the_data(problem):
    before, after = (family.draw_outer(jax.random.key(4), 5) for family in (problem.family, given(problem)))
    np.testing.assert_array_equal(before.eps, after.eps)
    np.testing.assert_array_equal(before.u, after.u)


def test_constant_mixing_reads_the_data_and_not_the_noise():
    problem = image_problem(mixing="constant")
    family = given(problem)
    assert problem.family.mixing.noise_weight is None
    mixed_JK = np.asarray(family.mix(single(EPS_K)))
    assert mixed_JK.shape == (5, INNER, LATENTS)
    np.testing.assert_array_equal(mixed_JK, np.repeat(mixed_JK[:, :1], INNER, 1))
    np.testing.assert_allclose(family.mix_each(single(EPS_J)), mixed_JK[:, 0], rtol=1e-5)
    assert np.ptp(mixed_JK[:, 0], axis=0).min() > 1e-2


def test_noise_gain_and_spread_multiply_the_first_weights():
    reader = image_problem().family.mixing.reader
    plain = ImageArchitecture(**SMALL).encoder(reader, (4, 3), jax.random.key(0)).mixing
    louder = ImageArchitecture(**SMALL, noise_gain=3.0, spread=0.5).encoder(reader, (4, 3), jax.random.key(0)).mixing
    np.testing.assert_allclose(louder.noise_weight, 3 * plain.noise_weight, rtol=1e-6)
    np.testing.assert_allclose(louder.rest.weights[-1], 0.5 * plain.rest.weights[-1], rtol=1e-6)
    np.testing.assert_array_equal(louder.rest.weights[0], plain.rest.weights[0])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"noise_layer": 0}, r"family.noise_layer must be 1 to 2, not 0"),
        ({"noise_layer": 3}, r"family.noise_layer must be 1 to 2, not 3"),
        ({"hidden": ()}, r"family.hidden needs at least one layer"),
        ({"hidden": (4, 0)}, r"the widths in family.hidden must be at least 1"),
        ({"latent_dim": 0}, r"family.latent_dim must be at least 1, not 0"),
        ({"noise_gain": 0.0}, r"family.noise_gain must be positive and at most 1e\+12, not 0"),
        ({"noise_dim": 0}, r"family.noise_dim must be at least 1, not 0"),
        ({"decoder_hidden": (4, 0)}, r"the widths in family.decoder_hidden must be at least 1, not \(4, 0\)"),
        ({"conditional": "diagonel"}, r"unknown conditional 'diagonel': did you mean 'diagonal'"),
    ],
)
def test_settings_of_images_that_cannot_work_are_refused(setting, message):
    with pytest.raises(SettingError, match=message):
        ImageArchitecture(**setting)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"embedding": 0}, r"family.embedding must be at least 1, not 0"),
        ({"recurrent": 0}, r"family.recurrent must be at least 1, not 0"),
        ({"word_dropout": 1.0}, r"family.word_dropout must be in \[0, 1\), not 1.0"),
        ({"word_dropout": -0.1}, r"family.word_dropout must be in \[0, 1\), not -0.1"),
        ({"latent_dim": -1}, r"family.latent_dim must be at least 1, not -1"),
    ],
)
def test_settings_of_sentences_that_cannot_work_are_refused(setting, message):
    with pytest.raises(SettingError, match=message):
        TextArchitecture(**setting)
