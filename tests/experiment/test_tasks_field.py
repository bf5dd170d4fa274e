"""The tasks beyond the paper: separated modes, heavy tails and the diffusion; their measures, figures and settings."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.image import imread

from civi.experiment.recipes import settings_for
from civi.experiment.tasks import find_task
from civi.experiment.tasks.toy import shape_measures
from civi.experiment.training import posterior_of
from civi.family import Architecture
from civi.inference.diagnose import Bounds
from civi.inference.nuts import Nuts, Reference
from civi.inference.pilot import Gaussian, NoPilot
from civi.inference.recipe import fit_settings
from civi.problem import PosteriorProblem
from civi.problem.target import CurvedFrame, Framed, eight_gaussians, student


def test_shares_of_modes_are_equal_for_exact_draws_and_zero_for_a_lost_mode():
    target = eight_gaussians()
    draws = np.asarray(target.sample(jax.random.key(0), 8000))
    shares = shape_measures(target, draws)
    error = 4.5 * np.sqrt(7 / 8000)
    assert 1 - error < shares["mode_share_min"] < 1 < shares["mode_share_max"] < 1 + error
    kept = draws[np.linalg.norm(draws - [4, 0], axis=1) > 1.5 + 0.5]
    assert shape_measures(target, kept)["mode_share_min"] < 0.01


def test_tails_are_measured_in_the_coordinates_in_which_they_are_independent():
    target = student()
    draws = np.asarray(target.sample(jax.random.key(0), 20_000))
    assert shape_measures(target, draws)["tail_ratio_99"] == pytest.approx(1, abs=4.5 / np.sqrt(400))
    assert abs(shape_measures(target, 1.5 * draws)["tail_ratio_99"] - 1) > 0.4


def test_forward_divergence_is_that_of_a_gaussian_and_has_the_order_of_its_arguments():
    """A Gaussian with the mean and covariance S of p: KL(p || q) = E_p[log p] + log det(2 pi e S) / 2."""
    task = find_task("star")
    target = task.source()

    def log_q(z):
        return jax.scipy.stats.multivariate_normal.logpdf(z, jnp.zeros(2), 2 * jnp.eye(2))

    grid = np.linspace(-9, 9, 601)
    points = jnp.asarray(np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2))
    log_p, cell = np.asarray(jax.vmap(target.log_prob)(points), float), (grid[1] - grid[0]) ** 2
    exact = (np.exp(log_p) * log_p).sum() * cell + np.log(4 * np.pi * np.e)
    found = task.measure_density(log_q)
    assert found["kl_forward"] == pytest.approx(exact, abs=4.5 * found["kl_forward_se"])
    q = np.exp(np.asarray(log_q(points), float))
    reverse = (q * (np.log(q) - log_p)).sum() * cell
    assert abs(reverse - exact) > 20 * found["kl_forward_se"]


def test_comparisons_take_many_inner_samples_only_if_the_bounds_are_far_apart(monkeypatch):
    used = []

    def bounds(self, key, outer, inner):
        used.append(inner)
        return Bounds(0.2 + 300 / inner, 0.0, 0.2 - 300 / inner, 0.0)

    task, keys = replace(find_task("star"), draws=100), jax.random.split(jax.random.key(0))
    posterior = posterior_of(PosteriorProblem(Architecture(hidden=(4,)).init(2, keys[0]), task.source()))
    monkeypatch.setattr(type(posterior), "bounds", bounds)
    for effort, few, expected in (
        ("quick", 100_000, [100_000]),
        ("quick", 20_000, [20_000, 300_000]),
        ("full", 100_000, [300_000]),
    ):
        used.clear()
        measures = replace(task, few_inner=few).evaluate(posterior, keys, effort).measures
        assert used == expected
        assert measures["kl"] == 0.2 + 300 / expected[-1]


@pytest.fixture
def reference(monkeypatch):
    """Correlated normal draws in place of a long run of NUTS."""
    rng = np.random.default_rng(0)
    draws = (0.1 * rng.normal(size=(2, 400, 100))).cumsum(-1).astype(np.float32)
    found = Reference(draws, np.ones(100), np.full(100, 800.0), 0)
    monkeypatch.setattr(Nuts, "cached", lambda *_: found)
    return draws.reshape(-1, 100)


def test_the_diffusion_is_measured_against_its_reference(reference):
    task = find_task("diffusion")
    exact, narrow = task.measure(reference, None), task.measure(0.7 * reference, None)
    assert exact["sliced_wasserstein"] < 1.5 * exact["sliced_wasserstein_floor"]
    assert narrow["sliced_wasserstein"] > 3 * exact["sliced_wasserstein"]
    assert narrow["sd_ratio_max"] == pytest.approx(0.7, abs=1e-3)
    assert narrow["marginal_log_density"] < exact["marginal_log_density"] - 1
    assert exact["marginal_log_density_reference"] == pytest.approx(exact["marginal_log_density"], abs=3)


def test_the_figure_of_the_diffusion_shows_reference_and_fit(reference, tmp_path):
    (file,) = replace(find_task("diffusion"), draws=800).picture(None, {"civi": 0.9 * reference}, tmp_path)
    image = imread(file)
    assert file.name == "paths.png"
    assert image.shape[0] > 500
    assert image.std() > 0.05


def test_default_settings_of_the_new_tasks():
    assert settings_for("diffusion", "civi", "default") == fit_settings("civi", 100)
    assert isinstance(settings_for("diffusion", "sivi", "default").pilot, Gaussian)
    assert isinstance(settings_for("diffusion", "mfvb", "default").pilot, NoPilot)
    ring = settings_for("eight-gaussians", "civi", "default").family
    assert (ring.hidden, ring.spread) == ((100, 100), 4.0)
    assert settings_for("student", "civi", "default") == settings_for("star", "civi", "default")


def test_a_posterior_keeps_the_trained_frame():
    target = eight_gaussians()
    frame = CurvedFrame.of(np.array([1.0, -1.0]), np.array([[2.0, 0.0], [0.5, 0.7]])).adaptive()
    frame = replace(frame, lower=jnp.array([[9.0, 9.0], [0.3, 9.0]]))
    problem = PosteriorProblem(Architecture().init(2, jax.random.key(0)), Framed.at(target, frame))
    settled = posterior_of(problem).target
    assert isinstance(settled.frame, CurvedFrame)
    w = jnp.array([0.4, -1.3])
    assert settled.log_prob(w) == pytest.approx(float(problem.target.log_prob(w)), rel=1e-5)
    assert settled.log_prob(w) != pytest.approx(float(Framed.at(target, frame.frame).log_prob(w)), rel=1e-2)
