"""A posterior that is Gaussian is fitted by the pilot alone: nothing is trained, and the result is complete."""

import jax.numpy as jnp
import numpy as np
import pytest

import civi
from civi.inference import fit as fitting
from civi.inference import moments, programs, selection
from civi.inference import posterior as posteriors
from civi.inference.pilot.gaussian import kl_of_gaussian
from compilations import COMPILATIONS

MEAN, FACTOR = np.array([3.0, -200.0]), np.array([[0.1, 0.0], [40.0, 30.0]])


def log_density(z, mean):
    whitened = jnp.linalg.solve(FACTOR, z - mean)
    return -0.5 * whitened @ whitened


def bent(z, mean):
    return log_density(z, mean) - 0.5 * (z[0] - mean[0]) ** 4 / 0.1**4


@pytest.fixture(scope="module", autouse=True)
def fewer_draws():
    """Evaluations with fewer draws: the programs are the same, as they work on chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(posteriors, "DRAWS", 2000)
        patch.setattr(selection, "DRAWS", 2000)
        patch.setattr(moments, "INNER", 1000)
        yield


@pytest.fixture(scope="module")
def fitted():
    programs.forget_programs()
    return civi.fit(log_density, MEAN, dim=2, key=0, progress=False)


def no_training(*_):
    raise AssertionError("training was begun")


def test_nothing_is_trained_and_the_moments_are_exact(fitted, monkeypatch):
    assert len(fitted.history["step"]) == len(fitted.runs) == 0
    assert "nothing was trained" in fitted.message
    assert fitted.converged
    z = np.asarray(fitted.sample(1, 20_000), np.float64)
    whitened = np.linalg.solve(FACTOR, (z - MEAN).T)
    np.testing.assert_allclose(whitened.mean(1), 0, atol=4 / np.sqrt(20_000))
    np.testing.assert_allclose(np.cov(whitened), np.eye(2), atol=4 * np.sqrt(2 / 20_000))
    monkeypatch.setattr(fitting, "train_runs", no_training)
    with pytest.raises(AssertionError, match="training was begun"):
        civi.fit(bent, MEAN, dim=2, key=0, progress=False)


def test_training_is_done_if_steps_are_given(monkeypatch):
    monkeypatch.setattr(fitting, "train_runs", no_training)
    with pytest.raises(AssertionError, match="training was begun"):
        civi.fit(log_density, MEAN, dim=2, key=0, steps=5, progress=False)


def test_other_data_of_the_same_shape_compile_nothing(fitted):
    before = COMPILATIONS.count
    other = civi.fit(log_density, MEAN + 1, dim=2, key=5, progress=False)
    assert COMPILATIONS.count == before
    np.testing.assert_allclose(other.sample(1, 4000).mean(0) - MEAN - 1, 0, atol=4 * 50 / np.sqrt(4000))


def test_the_diagnosis_says_that_nothing_was_trained(fitted):
    diagnosis = fitted.diagnose(2)
    assert diagnosis.verdict == "good", str(diagnosis)
    sentences = {finding.name: finding.sentence for finding in diagnosis.findings}
    assert sentences["spread"].startswith("Nothing was trained")
    assert sentences["converged"].startswith("The Gaussian of the pilot is within")


def test_it_is_saved_loaded_and_reported(fitted, tmp_path):
    fitted.save(tmp_path / "fit.civi")
    loaded = civi.load(tmp_path / "fit.civi", log_density, MEAN, dim=2)
    np.testing.assert_array_equal(loaded.sample(3, 100), fitted.sample(3, 100))
    assert loaded.message == fitted.message
    fitted.report(tmp_path / "fit.html", key=4)
    page = (tmp_path / "fit.html").read_text()
    assert "nothing was trained" in page
    assert "Learning curves" not in page


def test_the_divergence_is_that_of_the_closed_form():
    """q = N(0, I) and p = N(m, s^2 I): KL = sum (log s + (1 + m^2) / (2 s^2) - 1/2)."""
    rng = np.random.default_rng(0)
    m, s, w = np.array([0.1, -0.05]), 1.1, rng.normal(size=(50_000, 2))
    exact = float((np.log(s) + (1 + m**2) / (2 * s**2) - 0.5).sum())
    log_p = -0.5 * ((w - m) ** 2).sum(1) / s**2 + 7.0
    found = kl_of_gaussian(w, log_p)
    assert abs(found - exact) < 4 * np.sqrt(2 * exact / len(w))
    assert kl_of_gaussian(w, -0.5 * (w**2).sum(1) + 7.0) == pytest.approx(0, abs=1e-12)
    assert kl_of_gaussian(w, np.where(w[:, 0] > 3, np.nan, log_p)) == np.inf
