"""Other kinds of posterior (draws of Markov chains, encoders of data): saving, loading, diagnosis and errors."""

import json
import zipfile
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import civi
from autoencoding import BITS, SMALL, filled
from civi.errors import DataError, TargetError
from civi.experiment.recipes import settings_for
from civi.family import Architecture
from civi.inference.diagnose.trust import Finding
from civi.inference.nuts import Reference
from civi.inference.posterior import AmortisedPosterior, Diagnosis, Posterior, SampledPosterior, SemiImplicitPosterior
from civi.problem import ImageArchitecture, TextArchitecture
from civi.problem.images import Images
from civi.problem.sentences import SentenceBatch, SentenceData
from civi.problem.target import star
from civi.problem.target.space import TreeSpace
from civi.solver import SOLVERS

KEY = jax.random.key(5)
CHAINS, DRAWS = 3, 40
HISTORY = {"step": np.arange(1.0, 4.0), "neg_elbo": np.array([2.0, np.nan, 1.5])}


def reference(r_hat=1.0, effective_size=1000.0, divergences=0) -> Reference:
    """Chains whose draws are all different, with the given diagnostics for the second (worse) parameter."""
    draws = np.random.default_rng(0).normal(size=(CHAINS, DRAWS, 2)).astype(np.float32)
    return Reference(draws, np.array([1.0, r_hat]), np.array([2000.0, effective_size]), divergences)


@pytest.fixture(scope="module")
def sampled():
    space = TreeSpace.like({"b": np.zeros(1), "a": 0.0})
    return SampledPosterior(reference=reference(1.003, 812.5, 2), constrain=space, message="3 chains", seconds=1.5)


def saved_and_loaded(posterior: Posterior, path) -> Posterior:
    posterior.save(path)
    loaded = civi.load(path)
    assert type(loaded) is type(posterior)
    assert (loaded.message, loaded.seconds, loaded.dim) == (posterior.message, posterior.seconds, posterior.dim)
    jax.tree.map(np.testing.assert_array_equal, loaded.history, posterior.history)
    return loaded


def assert_same_bits(ours, theirs) -> None:
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


class TestChains:
    def test_a_file_keeps_every_draw_and_what_is_known_of_the_chains(self, sampled, tmp_path):
        loaded = saved_and_loaded(sampled, tmp_path / "chains.civi")
        assert_same_bits(loaded.reference.draws, sampled.reference.draws)
        assert_same_bits(loaded.reference.r_hat, sampled.reference.r_hat)
        assert_same_bits(loaded.reference.effective_size, sampled.reference.effective_size)
        assert loaded.chain_measures() == {"r_hat": 1.003, "effective_size": 812.5, "divergences": 2}
        assert_same_bits(loaded.sample(KEY, 30), sampled.sample(KEY, 30))

    def test_samples_are_stored_draws_and_none_twice_while_there_are_enough(self, sampled):
        stored = {row.tobytes() for row in sampled.reference.draws.reshape(-1, 2)}
        drawn = sampled.sample_unconstrained(KEY, CHAINS * DRAWS)
        assert {row.tobytes() for row in drawn} == stored
        assert not np.array_equal(drawn, sampled.sample_unconstrained(jax.random.key(6), CHAINS * DRAWS))
        more = sampled.sample_unconstrained(KEY, 500)
        assert more.shape == (500, 2)
        assert {row.tobytes() for row in more} <= stored

    def test_samples_are_in_the_users_names(self, sampled):
        draws, flat = sampled.sample(KEY, 7), sampled.sample_unconstrained(KEY, 7)
        assert {name: value.shape for name, value in draws.items()} == {"a": (7,), "b": (7, 1)}
        np.testing.assert_array_equal(np.column_stack([draws["a"], draws["b"]]), flat)

    def test_draws_to_measure_are_evenly_spaced_over_all_chains(self, sampled):
        every = sampled.reference.draws.reshape(-1, 2)
        np.testing.assert_array_equal(sampled.draws_to_measure(KEY, len(every)), every)
        np.testing.assert_array_equal(sampled.draws_to_measure(KEY, 2), every[[0, -1]])

    def test_there_is_no_density(self, sampled):
        z = np.zeros((1, 2), np.float32)
        for asked in (lambda: sampled.log_prob(z), lambda: sampled.elbo(KEY)):
            with pytest.raises(TargetError, match="draws of a Markov chain, which have no density: fit with another"):
                asked()
        assert sampled.bounds(KEY, 10, 10) is None
        assert sampled.log_density(jnp.asarray(z)) is None

    def test_the_data_tree_has_the_chains_as_they_are(self, sampled):
        data = sampled.to_datatree(KEY)
        assert set(data.posterior) == {"a", "b"}
        np.testing.assert_array_equal(data.posterior["a"], sampled.reference.draws[..., 0])
        np.testing.assert_array_equal(data.posterior["b"], sampled.reference.draws[..., 1:])

    def test_a_target_is_not_taken(self, sampled, tmp_path):
        sampled.save(tmp_path / "chains.civi")
        with pytest.raises(TargetError, match="only a posterior with a density takes a target: load this one without"):
            civi.load(tmp_path / "chains.civi", lambda z: -0.5 * z @ z)

    @pytest.mark.parametrize(
        ("quality", "name", "expected"),
        [
            ({}, "r_hat", "good"),
            ({"r_hat": 1.02}, "r_hat", "doubtful"),
            ({"r_hat": 1.2}, "r_hat", "bad"),
            ({"r_hat": np.nan}, "r_hat", "bad"),
            ({"effective_size": 400.0}, "effective_size", "good"),
            ({"effective_size": 399.0}, "effective_size", "doubtful"),
            ({"effective_size": np.nan}, "effective_size", "doubtful"),
            ({"divergences": 1}, "divergences", "doubtful"),
        ],
    )
    def test_the_diagnosis_is_that_of_the_worst_parameter(self, quality, name, expected):
        diagnosis = SampledPosterior(reference=reference(**quality)).diagnose(KEY)
        found = {finding.name: finding for finding in diagnosis.findings}
        assert list(found) == ["r_hat", "effective_size", "divergences"]
        assert found[name].verdict == diagnosis.verdict == expected
        if quality:
            np.testing.assert_equal(found[name].value, float(quality[name]))
            assert {finding.verdict for other, finding in found.items() if other != name} == {"good"}
        assert str(diagnosis).startswith(f"the fit is {expected}")


def sentences() -> SentenceData:
    words = jnp.array([[2, 3, 1, 0], [4, 1, 0, 0], [2, 5, 3, 1]], jnp.int32)
    return SentenceData.bucketed(np.asarray(words), np.array([3, 2, 4], np.int32), [np.arange(3)], 6, 5)


@pytest.fixture(scope="module")
def encoders():
    """A posterior for images and one for sentences, each with two data points to condition on."""
    images = filled(ImageArchitecture(**SMALL), Images(jnp.asarray(BITS, jnp.uint8)))
    shape = TextArchitecture(hidden=(4,), latent_dim=2, noise_dim=3, embedding=3, recurrent=4)
    text = filled(shape, sentences())
    rows = np.asarray([[2, 3, 1, 0], [4, 1, 0, 0]], np.int32)
    x = {"images": jnp.asarray(BITS[:2], float), "text": SentenceBatch(rows, rows, np.array([3, 2], np.int32))}
    parts = {"images": images, "text": text}
    return {
        kind: (
            AmortisedPosterior(family=family, decoder=decoder, latent_dim=2, history=HISTORY, message="seven steps"),
            x[kind],
        )
        for kind, (family, decoder) in parts.items()
    }


@pytest.mark.parametrize("kind", ["images", "text"])
class TestEncoders:
    def test_a_file_keeps_encoder_and_decoder_bit_for_bit(self, encoders, kind, tmp_path):
        posterior, x = encoders[kind]
        loaded = saved_and_loaded(posterior, tmp_path / "encoder.civi")
        assert_same_bits(loaded.family, posterior.family)
        assert_same_bits(loaded.decoder, posterior.decoder)
        z = loaded.given(x).sample(KEY, 2)
        assert_same_bits(z, posterior.given(x).sample(KEY, 2))
        assert z.shape == (2, 2)
        x = jax.tree.map(jnp.asarray, x)
        assert_same_bits(loaded.decoder.log_prob_each(x, z), posterior.decoder.log_prob_each(x, z))

    def test_every_datum_has_a_posterior_of_its_own(self, encoders, kind, tmp_path):
        posterior, x = encoders[kind]
        both = posterior.given(x).sample(KEY, 2)
        first = jax.tree.map(lambda leaf: leaf[np.array([0, 0])], x)
        same = posterior.given(first).sample(KEY, 2)
        np.testing.assert_allclose(both[0], same[0], rtol=1e-5)
        assert np.abs(both[1] - same[1]).max() > 1e-3

    def test_what_needs_one_posterior_asks_for_the_data(self, encoders, kind, tmp_path):
        posterior, _ = encoders[kind]
        needing = [
            lambda: posterior.sample(KEY, 5),
            lambda: posterior.sample_unconstrained(KEY, 5),
            lambda: posterior.draws_to_measure(KEY, 5),
            lambda: posterior.log_prob(np.zeros((1, 2), np.float32)),
            lambda: posterior.elbo(KEY),
            lambda: posterior.diagnose(KEY),
            lambda: posterior.to_datatree(KEY),
        ]
        for asked in needing:
            with pytest.raises(TargetError, match=r"one posterior per data point\): call given\(x\) with your data"):
                asked()


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_family_of_every_solver_is_saved_bit_for_bit(solver, tmp_path):
    family = SOLVERS[solver](Architecture(hidden=(3,))).family.init(2, KEY)
    posterior = SemiImplicitPosterior(family=family, target=star(), history=HISTORY)
    loaded = saved_and_loaded(posterior, tmp_path / "toy.civi")
    assert_same_bits(loaded.family, family)
    assert (loaded.guesses, loaded.converged, loaded.r_hat) == (None, None, None)


@pytest.mark.parametrize("solver", [name for name in SOLVERS if name != "pvi"])  # particles cannot depend on x
def test_the_encoder_of_every_solver_is_saved_bit_for_bit(solver, tmp_path):
    shape = replace(settings_for("mnist", solver, "default").family, **SMALL)
    family, decoder = filled(shape, Images(jnp.asarray(BITS, jnp.uint8)))
    posterior = AmortisedPosterior(family=family, decoder=decoder, latent_dim=2)
    loaded = saved_and_loaded(posterior, tmp_path / "encoder.civi")
    assert_same_bits((loaded.family, loaded.decoder), (family, decoder))


def test_a_posterior_without_a_frame_takes_its_target_again(tmp_path):
    family = Architecture(hidden=(3,)).init(2, KEY)
    target = star()
    whole = SemiImplicitPosterior(family=family, target=target)
    whole.save(tmp_path / "toy.civi")
    loaded = civi.load(tmp_path / "toy.civi", lambda z: target.log_prob(z))
    assert loaded.bounds(KEY, 20, 20) == whole.bounds(KEY, 20, 20)
    with pytest.raises(TargetError, match="loaded without its target"):
        civi.load(tmp_path / "toy.civi").bounds(KEY, 20, 20)
    with pytest.raises(TargetError, match="has 2 unconstrained parameters, the target has 3"):
        civi.load(tmp_path / "toy.civi", lambda z: -0.5 * z @ z, dim=3)


def rewritten(path, name: str, content: dict) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in (members | {name: json.dumps(content).encode()}).items():
            archive.writestr(member, data)


def test_a_file_of_format_version_1_is_refused_in_one_line(sampled, tmp_path):
    """Version 1 had the parts of a posterior at the top of its content, without a kind."""
    path = tmp_path / "old.civi"
    sampled.save(path)
    rewritten(path, "content.json", {"family": None, "frame": None, "converged": True})
    rewritten(path, "format.json", {"format": "civi posterior", "version": 1, "civi": "0.0.9", "sha256": {}})
    with pytest.raises(DataError) as refused:
        civi.load(path)
    assert str(refused.value) == (
        f"{path} has version 1 of the format, written by civi 0.0.9, but this civi reads version 4: use civi 0.0.9, "
        "or fit again"
    )


def test_a_notebook_shows_a_posterior_and_its_diagnosis_as_short_html(sampled):
    posterior = replace(sampled, message="3 <chains>")
    assert posterior._repr_html_() == (
        "<div><strong>SampledPosterior of 2 unconstrained parameters</strong><div>  3 &lt;chains&gt;</div></div>"
    )
    shown = Diagnosis([Finding("k_hat", 0.9, "bad", "The weights of <theta> vary.")])._repr_html_()
    assert "<strong>the fit is bad</strong>" in shown
    assert "The weights of &lt;theta&gt; vary." in shown
