"""`Posterior.save` and `civi.load`: a loaded posterior gives the same draws bit for bit; invalid files are rejected."""

import hashlib
import json
import zipfile
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import civi
from civi.errors import DataError, OutputError, TargetError
from civi.family import Architecture
from civi.family.registry import CONDITIONALS
from civi.inference.archive import pack, unpack
from civi.inference.run_curve import RunCurve
from civi.inference.save import KNOWN
from exact_posterior import X, Y, exact, level, line

KEY = jax.random.key(5)


@pytest.fixture(scope="module")
def posterior():
    return exact(line, X, Y)


@pytest.fixture
def saved(posterior, tmp_path):
    posterior.save(tmp_path / "fit.civi")
    return tmp_path / "fit.civi"


def test_a_loaded_posterior_draws_the_same_bits_and_has_the_same_density(posterior, saved):
    loaded = civi.load(saved)
    z = posterior.sample_unconstrained(KEY, 100)
    np.testing.assert_array_equal(loaded.sample_unconstrained(KEY, 100), z)
    for ours, theirs in zip(loaded.log_prob(z, inner=50), posterior.log_prob(z, inner=50), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (loaded.converged, loaded.message, loaded.seconds) == (True, "exact", 0.1)
    np.testing.assert_array_equal(loaded.history["neg_elbo"], posterior.history["neg_elbo"])
    np.testing.assert_array_equal(loaded.guesses.draws, posterior.guesses.draws)


def test_with_its_model_it_is_whole_again(posterior, saved):
    loaded = civi.load(saved, line, X, y=Y)
    ours, theirs = loaded.sample(KEY, 50), posterior.sample(KEY, 50)
    for name in ("a", "b", "end"):
        np.testing.assert_array_equal(ours[name], theirs[name])
    w = jnp.array([0.3, -0.7])
    assert float(loaded.target.log_prob(w)) == float(posterior.target.log_prob(w))


def test_without_its_model_it_says_what_needs_it(saved):
    loaded = civi.load(saved)
    with pytest.raises(TargetError, match="need the target: load with"):
        loaded.sample(KEY, 5)
    for needing in (lambda: loaded.elbo(KEY), lambda: loaded.diagnose(KEY), lambda: loaded.to_datatree(KEY)):
        with pytest.raises(TargetError, match="loaded without its target"):
            needing()


def test_another_target_is_refused(saved):
    with pytest.raises(TargetError, match="has 2 unconstrained parameters, the target has 1"):
        civi.load(saved, level, X, Y)
    with pytest.raises(TargetError, match="not the one that was fitted: log p at the location of the fit is"):
        civi.load(saved, line, X, Y + 1)


def test_a_tree_comes_back_without_the_target(tmp_path):
    def of_tree(tree):
        return -0.5 * (tree["b"][0] ** 2).sum() - 0.5 * tree["a"] ** 2

    whole = exact(of_tree, example={"b": (np.zeros(1),), "a": 0.0})
    whole.save(tmp_path / "fit")
    for loaded in (civi.load(tmp_path / "fit"), civi.load(str(tmp_path / "fit"), of_tree)):
        draws, expected = loaded.sample(KEY, 4), whole.sample(KEY, 4)
        assert jax.tree.structure(draws) == jax.tree.structure(expected)
        jax.tree.map(np.testing.assert_array_equal, draws, expected)


@pytest.mark.parametrize("conditional", CONDITIONALS)
def test_every_family_keeps_every_bit(conditional):
    family = Architecture(conditional=conditional, hidden=(4,), activation="tanh", noise_scale=0.3).init(2, KEY)
    arrays: dict[str, np.ndarray] = {}
    again = unpack(json.loads(json.dumps(pack(family, KNOWN, arrays))), KNOWN, arrays)
    assert jax.tree.structure(again) == jax.tree.structure(family)
    jax.tree.map(np.testing.assert_array_equal, again, family)


def test_a_file_is_not_overwritten_unless_asked(posterior, saved):
    before = saved.read_bytes()
    with pytest.raises(OutputError, match="exists: choose another name, or save with overwrite=True"):
        posterior.save(saved)
    posterior.save(saved, overwrite=True)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["fit.civi"]


def rewritten(path, **changes):
    """Rewrite the file with some of its members changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**members, **changes}.items():
            archive.writestr(name, data)


def header(path, **changes):
    with zipfile.ZipFile(path) as archive:
        return json.dumps(json.loads(archive.read("format.json")) | changes).encode()


def test_files_that_are_not_a_whole_posterior_are_refused(saved):
    whole = saved.read_bytes()
    location = whole.index(np.asarray(civi.load(saved).target.frame.location).tobytes())

    def refused(data: bytes, message: str) -> None:
        saved.write_bytes(data)
        with pytest.raises(DataError, match=message):
            civi.load(saved)

    refused(whole[: len(whole) // 2], "not a civi posterior, or it is damaged")
    refused(
        whole[:location] + b"\1" + whole[location + 1 :], "damaged: Bad CRC-32 for file 'arrays/frame.location.npy'"
    )
    refused(b"", "not a civi posterior, or it is damaged")
    saved.unlink()
    with pytest.raises(DataError, match="there is no file"):
        civi.load(saved)


@pytest.mark.parametrize(
    ("member", "change", "message"),
    [
        (
            "format.json",
            {"version": 5},
            "has version 5 of the format, written by civi 0.1.0, but this civi reads version 4",
        ),
        ("format.json", {"format": "other"}, "is not a civi posterior"),
        ("content.json", b"{}", "damaged: content.json does not match its checksum"),
        ("arrays/extra.npy", b"", "damaged: arrays/extra.npy does not match its checksum"),
    ],
)
def test_another_format_or_content_is_refused(saved, member, change, message):
    rewritten(saved, **{member: header(saved, **change) if isinstance(change, dict) else change})
    with pytest.raises(DataError, match=message):
        civi.load(saved)


def test_a_file_of_version_3_is_still_read(posterior, saved):
    """It has no learning curves of the runs and no seconds of the phases."""
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    content = json.loads(members["content.json"])
    for name in ("runs", "phases"):
        del content["parts"][name]
    old = json.dumps(content).encode()
    sums = json.loads(members["format.json"])["sha256"] | {"content.json": hashlib.sha256(old).hexdigest()}
    rewritten(saved, **{"content.json": old, "format.json": header(saved, version=3, sha256=sums)})
    loaded = civi.load(saved)
    assert (loaded.runs, loaded.phases) == ([], {})
    np.testing.assert_array_equal(loaded.sample_unconstrained(KEY, 5), posterior.sample_unconstrained(KEY, 5))


def test_learning_curves_and_phases_are_saved(posterior, saved):
    runs = [RunCurve(np.arange(3.0), np.arange(3.0), np.ones(3), np.zeros(3), 2, False)]
    replace(posterior, runs=runs, phases={"pilot": 1.5}).save(saved, overwrite=True)
    loaded = civi.load(saved)
    assert loaded.phases == {"pilot": 1.5}
    assert (loaded.runs[0].stalled, loaded.runs[0].chosen) == (2, False)
    np.testing.assert_array_equal(loaded.runs[0].step, runs[0].step)


def test_a_double_precision_posterior_is_not_rounded_silently():
    with pytest.raises(DataError, match="fitted in float64: enable that first"):
        unpack({"array": "x", "jax": True}, KNOWN, {"x": np.zeros(2)})
    assert unpack({"array": "x", "jax": True}, KNOWN, {"x": np.zeros(2, np.float32)}).dtype == jnp.float32
