"""Bayesian neural networks as tasks: protocols, units of the predictions, the figure, and the settings."""

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.image import imread

from civi.errors import SettingError
from civi.experiment.data.uci import SplitTable
from civi.experiment.recipes import settings_for
from civi.experiment.tasks import find_task
from civi.experiment.tasks import network as module
from civi.inference.nuts import Nuts
from civi.solver import SOLVERS
from civi.tracker import NoTracker

MEAN, SD = 50.0, 10.0


@pytest.fixture
def table(monkeypatch):
    """40 training and 20 test rows of y = 50 + 10 |x_1|, without noise."""
    x = np.random.default_rng(0).normal(size=(60, 2))
    y = np.abs(x[:, 0])
    found = SplitTable("yacht", x[:40], y[:40], x[40:], MEAN + SD * y[40:], MEAN, SD)
    monkeypatch.setattr(module, "_load", lambda name, test: found)
    return found


def weights(task, log_noise_precision):
    """z of a network with f(x) = |x_1|: two units with weights 1 and -1, the others 0; z may lack the output layer."""
    target = task.source()
    first = np.zeros((2, target.hidden))
    first[0, :2] = 1, -1
    last = np.zeros(target.hidden + 1)
    last[:2] = 1
    output = [] if task.protocol.marginal else last
    return np.concatenate([first.ravel(), np.zeros(target.hidden), output, [log_noise_precision]])


def test_predictions_and_noise_are_in_the_units_of_the_data(table):
    task = find_task("bnn-ksivi-yacht")
    z = weights(task, -2 * np.log(0.3))
    predicted, noise = task.predictions(np.stack([z, z]))
    np.testing.assert_allclose(predicted, [table.y_test] * 2, rtol=1e-5)
    np.testing.assert_allclose(noise, np.full((2, 20), 3.0), rtol=1e-5)
    np.testing.assert_allclose(task.source().predict(jnp.asarray(z, float), jnp.ones((1, 2))), [1.0])
    measures = task.measure(z[None], None)
    assert measures["rmse"] == pytest.approx(0, abs=1e-4)
    assert measures["nll"] == pytest.approx(np.log(3.0) + 0.5 * np.log(2 * np.pi), abs=1e-4)
    assert (measures["train_rows"], measures["test_rows"], measures["coverage_50"]) == (40, 20, 1.0)


def test_the_output_layer_of_known_features_is_found_from_the_rows(table):
    task = find_task("bnn-yacht")
    z = weights(task, -2 * np.log(0.05))
    predicted, sd = task.predictions(np.stack([z, z]))
    np.testing.assert_allclose(predicted, [table.y_test] * 2, atol=0.5)
    assert np.all(sd > SD * 0.05)
    assert np.all(sd < SD * 0.06)


def test_the_figure_shows_predictions_and_calibration(table, tmp_path):
    task = find_task("bnn-ksivi-yacht")
    draws = weights(task, 0.0) + 0.1 * np.random.default_rng(0).normal(size=(5, task.source().dim))
    (file,) = task.picture(None, {"civi": draws}, tmp_path)
    assert file.name == "predictions.png"
    assert imread(file).std() > 0.05


def test_protocols_differ_in_network_split_and_precisions(table):
    marginal, of_ksivi, of_pvi = (
        find_task(name) for name in ("bnn-concrete", "bnn-ksivi-concrete", "bnn-pvi-concrete")
    )
    assert (marginal.table, of_ksivi.table, of_pvi.table) == ("concrete", "concrete", "concrete")
    assert (marginal.protocol.test, of_ksivi.protocol.test, of_pvi.protocol.test) == (0.1, 0.1, 0.2)
    first, second = of_ksivi.source(), of_pvi.source()
    assert (marginal.source().hidden, marginal.source().dim) == (50, 151)
    assert marginal.source().weight_sd == first.weight_sd
    assert (first.hidden, first.noise_sd, first.dim) == (50, None, 202)
    assert first.weight_sd == pytest.approx(1.5024, abs=1e-4)
    assert (second.hidden, second.noise_sd, second.weight_sd, second.dim) == (10, 0.01, 5.0, 41)


def test_every_solver_has_the_same_samples():
    """One Gaussian needs no inner samples, and a mixture of particles is summed over all of them."""
    own = {"mfvb": 1, "fullrank": 1, "pvi": 100}
    for task, outer in (("bnn-yacht", 4), ("bnn-ksivi-yacht", 16)):
        for solver in SOLVERS:
            samples = settings_for(task, solver, "default").solver.samples
            assert (samples.outer, samples.inner, samples.stages) == (outer, own.get(solver, 50), None)


def test_every_solver_sees_batches_of_all_weights_and_nuts_is_for_small_tables():
    for solver in SOLVERS:
        assert settings_for("bnn-ksivi-protein", solver, "default").problem.batch == 100
        assert settings_for("bnn-protein", solver, "default").problem.batch is None
    assert settings_for("bnn-boston", "civi", "default").solver.tracker == NoTracker()
    assert settings_for("bnn-boston", "nuts", "default") == Nuts(warmup=500, draws=500, depth=8)
    with pytest.raises(SettingError, match="nuts would take hours on bnn-protein: choose another solver"):
        settings_for("bnn-protein", "nuts", "default")
