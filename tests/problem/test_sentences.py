"""Sentences: the LSTM against Equinox's cell, the decoder against a loop in float64, and the drawn batches."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from autoencoding import as64, filled
from civi.problem import ProblemSettings, TextArchitecture, make_problem, sentences
from civi.problem.sentences import SentenceBatch, SentenceData
from montecarlo import agrees

VOCABULARY, UNKNOWN, LATENTS, HIDDEN, WIDTH = 7, 6, 2, 3, 4
LENGTHS = np.array([5, 9, 17, 1])
PLACES = 19
KEYS = 4000


def some_words() -> np.ndarray:
    """Random words 1 to 5, padded with 0."""
    words = np.random.default_rng(0).integers(1, UNKNOWN, size=(len(LENGTHS), PLACES))
    return np.where(np.arange(PLACES) < LENGTHS[:, None], words, 0)


def as_words(words, length, decoder_input=None) -> SentenceBatch:
    return SentenceBatch(
        jnp.asarray(words), jnp.asarray(words if decoder_input is None else decoder_input), jnp.asarray(length)
    )


def bucketed(words, length, buckets) -> SentenceData:
    return SentenceData.bucketed(words, length, [np.array(rows) for rows in buckets], VOCABULARY, UNKNOWN)


@pytest.fixture(scope="module")
def networks():
    """A pair of encoder and decoder."""
    data = bucketed(some_words(), LENGTHS, [range(len(LENGTHS))])
    shape = TextArchitecture(hidden=(5,), latent_dim=LATENTS, noise_dim=2, embedding=WIDTH, recurrent=HIDDEN)
    return filled(shape, data)


@pytest.fixture(scope="module")
def decoder(networks):
    return networks[1]


@pytest.fixture(scope="module")
def log_prob(decoder):
    return eqx.filter_jit(decoder.log_prob_each)


@pytest.fixture(scope="module")
def z():
    return np.random.default_rng(1).normal(size=(len(LENGTHS), LATENTS))


def lstm64(recurrent, words, further):
    """The hidden state after every word of one sentence, in float64."""
    hidden, cell, states = np.zeros(HIDDEN), np.zeros(HIDDEN), []
    for word in words:
        inputs = np.concatenate([as64(recurrent.embedding)[word], further])
        gates = inputs @ as64(recurrent.from_input) + hidden @ as64(recurrent.from_hidden) + as64(recurrent.bias)
        enter, forget, value, leave = gates.reshape(4, HIDDEN)
        cell = cell / (1 + np.exp(-forget)) + np.tanh(value) / (1 + np.exp(-enter))
        hidden = np.tanh(cell) / (1 + np.exp(-leave))
        states.append(hidden)
    return np.array(states)


def sentence_log_prob(decoder, told, words, z):
    """sum_t log p(w_t | the words `told` before t, z)."""
    states = lstm64(decoder.recurrent, [0, *told[:-1]], z)
    log_p = log_softmax(states @ as64(decoder.weight) + as64(decoder.bias), axis=1)
    return log_p[np.arange(len(words)), words].sum()


def test_a_step_is_that_of_equinox(decoder):
    recurrent = decoder.recurrent
    cell = eqx.nn.LSTMCell(WIDTH + LATENTS, HIDDEN, key=jax.random.key(0))
    weights = (recurrent.from_input.T, recurrent.from_hidden.T, recurrent.bias)
    cell = eqx.tree_at(lambda cell: (cell.weight_ih, cell.weight_hh, cell.bias), cell, weights)
    further = jnp.array([0.3, -1.2])

    @jax.jit
    def after(words):
        state, theirs = recurrent.begin(1), (jnp.zeros(HIDDEN), jnp.zeros(HIDDEN))
        for word in words:
            state = recurrent.advance(state, recurrent.gates(word[None], further[None]))
            theirs = cell(jnp.concatenate([recurrent.embedding[word], further]), theirs)
        return state, theirs

    state, theirs = after(jnp.array([1, 4, 2]))
    np.testing.assert_allclose(state.hidden_J[0], theirs[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state.cell_J[0], theirs[1], rtol=1e-5, atol=1e-6)


def test_the_decoder_sums_over_the_words_of_each_sentence(decoder, log_prob, z):
    """Sentences of 9 and 17 words need two and three blocks."""
    words = some_words()
    got = log_prob(as_words(words, LENGTHS), jnp.asarray(z, jnp.float32))
    rows = [(row[:length], at) for row, length, at in zip(words, LENGTHS, z, strict=True)]
    np.testing.assert_allclose(got, [sentence_log_prob(decoder, row, row, at) for row, at in rows], rtol=1e-5)
    shorter = [sentence_log_prob(decoder, row[:-1], row[:-1], at) for row, at in rows[:3]]
    assert not np.allclose(got[:3], shorter, atol=0.1)


def test_what_follows_a_sentence_does_not_matter(log_prob, z):
    words = some_words()
    after = np.arange(PLACES) >= LENGTHS[:, None]
    garbage = np.where(after, 3, words)
    expected = log_prob(as_words(words, LENGTHS), jnp.asarray(z, jnp.float32))
    got = log_prob(as_words(garbage, LENGTHS), jnp.asarray(z, jnp.float32))
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    changed = words.copy()
    changed[:, 0] = words[:, 0] % 5 + 1
    assert np.abs(log_prob(as_words(changed, LENGTHS), jnp.asarray(z, jnp.float32)) - expected).min() > 1e-2


def test_the_decoder_is_told_seen_and_scores_words(decoder, log_prob, z):
    words = some_words()
    decoder_input = np.where(np.random.default_rng(2).random(words.shape) < 0.5, UNKNOWN, words)
    got = log_prob(as_words(words, LENGTHS, decoder_input), jnp.asarray(z, jnp.float32))
    every = zip(decoder_input, words, LENGTHS, z, strict=True)
    expected = [sentence_log_prob(decoder, told[:n], row[:n], at) for told, row, n, at in every]
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_all_continuations_have_probability_1_together(decoder):
    """Continuations of one word and of two words."""
    one = np.stack([np.arange(VOCABULARY), np.full(VOCABULARY, 5)], axis=1)
    two = np.array(np.meshgrid(np.arange(VOCABULARY), np.arange(VOCABULARY))).reshape(2, -1).T
    length = np.repeat([1, 2], [len(one), len(two)])
    z = jnp.broadcast_to(jnp.array([0.5, -1.0]), (len(length), LATENTS))
    p = np.exp(as64(eqx.filter_jit(decoder.log_prob_each)(as_words(np.concatenate([one, two]), length), z)))
    assert p[length == 1].sum() == pytest.approx(1, abs=1e-5)
    assert p[length == 2].sum() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose([p[length == 2][two[:, 0] == word].sum() for word in range(7)], p[:7], rtol=1e-4)


def test_the_gradient_counts_every_word_of_every_block_once(decoder, z):
    """The gradient in the bias is the count of each word minus its probability summed over all positions."""
    words = some_words()

    @jax.jit
    def gradient(bias):
        told = eqx.tree_at(lambda decoder: decoder.bias, decoder, bias)
        return told.log_prob_each(as_words(words, LENGTHS), jnp.asarray(z, jnp.float32)).sum()

    expected = np.bincount(words[words > 0], minlength=VOCABULARY).astype(float)
    for row, length, at in zip(words, LENGTHS, z, strict=True):
        states = lstm64(decoder.recurrent, [0, *row[: length - 1]], at)
        expected -= softmax(states @ as64(decoder.weight) + as64(decoder.bias), axis=1).sum(0)
    np.testing.assert_allclose(jax.grad(gradient)(decoder.bias), expected, rtol=1e-4, atol=1e-4)


def test_places_in_one_block_or_in_many_have_the_same_sum(decoder, log_prob, z, monkeypatch):
    x = as_words(some_words(), LENGTHS)
    many = log_prob(x, jnp.asarray(z, jnp.float32))
    monkeypatch.setattr(sentences, "WORDS", 32)
    one = eqx.filter_jit(lambda x, z: decoder.log_prob_each(x, z))(x, jnp.asarray(z, jnp.float32))
    np.testing.assert_allclose(many, one, rtol=1e-5)


def test_the_reader_takes_the_state_after_the_last_word(networks):
    words, reader = some_words(), networks[0].mixing.reader
    got = reader(as_words(words, LENGTHS, decoder_input=np.full_like(words, UNKNOWN)))
    last = [lstm64(reader.recurrent, row[:n], [])[-1] for row, n in zip(words, LENGTHS, strict=True)]
    np.testing.assert_allclose(got, last @ as64(reader.weight) + as64(reader.bias), rtol=1e-4, atol=1e-5)


def test_the_most_likely_words_are_chosen_one_by_one_and_padding_never(decoder):
    bias = np.where(np.arange(VOCABULARY) == 0, 50, 0).astype(np.float32)
    chaotic = (jnp.asarray(bias), 9 * decoder.weight, 9 * decoder.recurrent.from_input)
    eager = eqx.tree_at(lambda d: (d.bias, d.weight, d.recurrent.from_input), decoder, chaotic)
    z = np.random.default_rng(3).normal(size=(4, LATENTS)) * 3
    got = np.asarray(eager.most_likely(jnp.asarray(z, jnp.float32), 6))
    for row, at in zip(got, z, strict=True):
        chosen = [0]
        for _ in range(6):
            state = lstm64(eager.recurrent, chosen, at)[-1]
            chosen.append(1 + int(np.argmax((state @ as64(eager.weight) + as64(eager.bias))[1:])))
        assert row.tolist() == chosen[1:]
    assert len(np.unique(got, axis=0)) > 1


def identified(count=6) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """Six sentences, identified by their first two words, in buckets of 1, 3 and 2 rows that are not in order."""
    words = np.ones((count, 5), int)
    words[:, 0], words[:, 1] = 1 + np.arange(count) % 5, 1 + np.arange(count) // 5
    return words, np.array([2, 5, 4, 4, 2, 4]), [[1], [2, 5, 3], [0, 4]]


@pytest.fixture(scope="module")
def drawn():
    """The row indices of many batches of 3 sentences, and the batches, with 30 % word dropout."""
    words, length, buckets = identified()
    data = replace(bucketed(words, length, buckets), dropout=0.3)
    batches = jax.jit(jax.vmap(lambda key: data.batch(key, 3)))(jax.random.split(jax.random.key(0), KEYS))
    batches = SentenceBatch(*(np.asarray(leaf) for leaf in batches))
    return batches.words[..., 0] - 1 + 5 * (batches.words[..., 1] - 1), batches


def test_every_sentence_is_equally_likely(drawn):
    rows, batches = drawn
    share = (rows[..., None] == np.arange(6)).mean(1)
    assert agrees(share, 1 / 6)
    assert not agrees(share, 1 / 3 / np.array([2, 1, 3, 3, 2, 3]))
    words, length, _ = identified()
    np.testing.assert_array_equal(batches.words, words[rows])
    np.testing.assert_array_equal(batches.length, length[rows])


def test_a_batch_is_of_one_bucket(drawn):
    rows, _ = drawn
    bucket = np.array([2, 0, 1, 1, 2, 1])[rows]
    assert (bucket == bucket[:, :1]).all()
    assert set(bucket[:, 0]) == {0, 1, 2}
    assert (rows != rows[:, :1]).any()


def test_dropped_words_are_unknown_to_the_decoder_only(drawn):
    _, batches = drawn
    dropped = batches.decoder_input != batches.words
    assert (batches.decoder_input[dropped] == UNKNOWN).all()
    assert not (batches.words == UNKNOWN).any()
    assert agrees(dropped.reshape(KEYS, -1).mean(1), 0.3)
    assert agrees(dropped.reshape(KEYS, -1)[:, [0, 7]], 0.3)


def test_without_dropout_all_words_are_seen():
    batch = bucketed(*identified()).batch(jax.random.key(0), 4)
    np.testing.assert_array_equal(batch.decoder_input, batch.words)


def test_the_architecture_passes_its_dropout_on():
    shape = TextArchitecture(hidden=(5,), latent_dim=2, embedding=4, recurrent=3, word_dropout=0.25)
    data = bucketed(*identified())
    problem = eqx.filter_eval_shape(make_problem, shape, data, jax.random.key(0), ProblemSettings(batch=2))
    assert problem.data.dropout == 0.25
    assert data.dropout == 0
