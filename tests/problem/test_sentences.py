"""Sentences: the LSTM against Equinox's cell, the decoder against a loop in float64, and the drawn batches."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.special import softmax as softmax64

from autoencoding import as64, filled
from civi.problem import ProblemSettings, TextArchitecture, make_problem, recurrent, softmax
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
    ours = decoder.recurrent
    cell = eqx.nn.LSTMCell(WIDTH + LATENTS, HIDDEN, key=jax.random.key(0))
    weights = (ours.from_input.T, ours.from_hidden.T, ours.bias)
    cell = eqx.tree_at(lambda cell: (cell.weight_ih, cell.weight_hh, cell.bias), cell, weights)
    further = jnp.array([0.3, -1.2])

    @jax.jit
    def after(words):
        state, theirs = ours.begin(1), (jnp.zeros(HIDDEN), jnp.zeros(HIDDEN))
        for word in words:
            state = ours.advance(state, word[None], further[None])
            theirs = cell(jnp.concatenate([ours.embedding[word], further]), theirs)
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
        expected -= softmax64(states @ as64(decoder.weight) + as64(decoder.bias), axis=1).sum(0)
    np.testing.assert_allclose(jax.grad(gradient)(decoder.bias), expected, rtol=1e-4, atol=1e-4)


def plain_log_prob(decoder, x, z):
    """log p(x | z) word by word and sentence by sentence, which JAX differentiates by itself."""
    rows = []
    for told, row, length, at in zip(x.decoder_input, x.words, np.asarray(x.length), z, strict=True):
        before, state, log_p = 0, decoder.recurrent.begin(1), 0.0
        for t in range(length):
            state = decoder.recurrent.advance(state, jnp.asarray([before]), at[None] if decoder.to_gates else None)
            inputs = jnp.concatenate([state.hidden_J[0], at]) if decoder.to_logits else state.hidden_J[0]
            log_p += jax.nn.log_softmax(inputs @ decoder.weight + decoder.bias)[row[t]]
            before = told[t]
        rows.append(log_p)
    return jnp.stack(rows)


FEW = np.array([2, 4, 1])
WEIGHTS = jnp.array([0.7, -1.3, 2.0])


def few_words(lengths=FEW):
    words = np.random.default_rng(4).integers(1, UNKNOWN, size=(len(FEW), 7))
    told = np.where(np.random.default_rng(5).random(words.shape) < 0.3, UNKNOWN, words)
    return as_words(words, lengths, told)


def gradients(log_prob, decoder, z, lengths=FEW):
    """The gradients in all weights and in z of a weighted sum over the sentences."""
    x = few_words(lengths)
    return jax.jit(jax.grad(lambda decoder, z: WEIGHTS @ log_prob(decoder, x, z), (0, 1)))(decoder, z)


@pytest.mark.parametrize(("entry", "keeps"), [("gates", True), ("both", False)])
def test_gradients_are_those_of_a_plain_loop_over_words(entry, keeps, monkeypatch):
    """Words in three blocks and positions in two, with logits that are kept or computed again."""
    monkeypatch.setattr(softmax, "ROWS", 3)
    monkeypatch.setattr(recurrent, "POSITIONS", 2)
    if not keeps:
        monkeypatch.setattr(softmax, "KEPT_FLOATS", 0)
    shape = TextArchitecture(
        hidden=(5,), latent_dim=2, noise_dim=2, embedding=WIDTH, recurrent=HIDDEN, latent_input=entry
    )
    decoder = filled(shape, bucketed(some_words(), LENGTHS, [range(len(LENGTHS))]))[1]
    z = jnp.asarray(np.random.default_rng(6).normal(size=(3, 2)), jnp.float32)
    got = gradients(lambda decoder, x, z: decoder.log_prob_each(x, z), decoder, z)
    expected = gradients(plain_log_prob, decoder, z)
    for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    shorter = gradients(lambda decoder, x, z: decoder.log_prob_each(x, z), decoder, z, FEW - [0, 1, 0])
    assert np.abs(shorter[0].weight - expected[0].weight).max() > 1e-2


@pytest.mark.parametrize("entry", ["logits", "none"])
def test_z_can_enter_the_logits_alone_or_nowhere(entry):
    shape = TextArchitecture(hidden=(5,), latent_dim=2, noise_dim=2, embedding=WIDTH, recurrent=HIDDEN)
    data = bucketed(some_words(), LENGTHS, [range(len(LENGTHS))])
    decoder = filled(replace(shape, latent_input=entry), data)[1]
    z, x = np.array([[0.5, -1.0], [2.0, 0.1], [0.0, 0.0]]), few_words()
    added = z @ as64(decoder.weight)[HIDDEN:] if entry == "logits" else np.zeros((3, VOCABULARY))
    expected = []
    for told, row, length, more in zip(np.asarray(x.decoder_input), np.asarray(x.words), FEW, added, strict=True):
        states = lstm64(decoder.recurrent, [0, *told[: length - 1]], [])
        log_p = log_softmax(states @ as64(decoder.weight)[:HIDDEN] + more + as64(decoder.bias), axis=1)
        expected.append(log_p[np.arange(length), row[:length]].sum())
    got = decoder.log_prob_each(x, jnp.asarray(z, jnp.float32))
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert len(decoder.weight) == HIDDEN + 2 * (entry == "logits")


def test_words_in_one_block_or_in_many_have_the_same_sum(decoder, log_prob, z, monkeypatch):
    x = as_words(some_words(), LENGTHS)
    one = log_prob(x, jnp.asarray(z, jnp.float32))
    monkeypatch.setattr(softmax, "ROWS", 5)
    many = eqx.filter_jit(lambda x, z: decoder.log_prob_each(x, z))(x, jnp.asarray(z, jnp.float32))
    np.testing.assert_allclose(many, one, rtol=1e-5)


def test_the_reader_takes_the_state_after_the_last_word(networks):
    words, reader = some_words(), networks[0].mixing.reader
    got = reader(as_words(words, LENGTHS, decoder_input=np.full_like(words, UNKNOWN)))
    last = [lstm64(reader.recurrent, row[:n], [])[-1] for row, n in zip(words, LENGTHS, strict=True)]
    np.testing.assert_allclose(got, last @ as64(reader.weight) + as64(reader.bias), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("pooling", "pooled"), [("mean", np.mean), ("max", np.max)])
def test_the_reader_may_pool_the_states_of_all_words(pooling, pooled, networks):
    words, reader = some_words(), replace(networks[0].mixing.reader, pooling=pooling)
    states = [lstm64(reader.recurrent, row[:n], []) for row, n in zip(words, LENGTHS, strict=True)]
    expected = np.stack([pooled(rows, axis=0) for rows in states]) @ as64(reader.weight) + as64(reader.bias)
    np.testing.assert_allclose(reader(as_words(words, LENGTHS)), expected, rtol=1e-4, atol=1e-5)


def test_the_gradient_of_the_reader_is_that_of_a_plain_loop(networks):
    reader, x = networks[0].mixing.reader, few_words()
    weight = jnp.asarray(np.random.default_rng(7).normal(size=(3, 5)))

    def plain(reader):
        rows = []
        for row, length in zip(x.words, FEW, strict=True):
            state = reader.recurrent.begin(1)
            for t in range(length):
                state = reader.recurrent.advance(state, row[t][None])
            rows.append(state.hidden_J[0] @ reader.weight + reader.bias)
        return jnp.stack(rows)

    ways = (lambda reader: reader(x), plain)
    got, expected = (jax.jit(jax.grad(lambda reader, way=way: (weight * way(reader)).sum()))(reader) for way in ways)
    for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("never", [(), (2, 5)])
def test_the_most_likely_words_are_chosen_one_by_one_and_padding_never(decoder, never):
    bias = np.where(np.arange(VOCABULARY) == 0, 50, 0).astype(np.float32)
    chaotic = (jnp.asarray(bias), 9 * decoder.weight, 9 * decoder.recurrent.from_input)
    eager = eqx.tree_at(lambda d: (d.bias, d.weight, d.recurrent.from_input), decoder, chaotic)
    z = np.random.default_rng(3).normal(size=(4, LATENTS)) * 3
    got = np.asarray(eager.most_likely(jnp.asarray(z, jnp.float32), 6, never))
    for row, at in zip(got, z, strict=True):
        chosen = [0]
        for _ in range(6):
            state = lstm64(eager.recurrent, chosen, at)[-1]
            logit = state @ as64(eager.weight) + as64(eager.bias)
            chosen.append(max(set(range(1, VOCABULARY)) - set(never), key=lambda word, logit=logit: logit[word]))
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
