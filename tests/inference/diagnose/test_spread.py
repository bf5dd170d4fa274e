"""R-hat between runs against its closed form."""

import numpy as np
import pytest

from civi.errors import DependencyError
from civi.inference.diagnose.spread import r_hat, rank_r_hat
from civi.inference.load_arviz import import_arviz


def runs(apart, scale=1.0):
    """Two runs of two parameters; the second parameter of the second run is shifted and scaled."""
    draws = np.random.default_rng(0).normal(size=(2, 4000, 2))
    draws[1, :, 1] = apart + scale * draws[1, :, 1]
    return draws


@pytest.mark.parametrize("apart", [0.0, 0.3, 1.0])
def test_runs_that_are_apart_have_the_r_hat_of_their_distance(apart):
    assert r_hat(runs(apart)) == pytest.approx(np.sqrt(1 + apart**2 / 3), abs=0.01)


def test_runs_of_another_scale_are_apart():
    assert r_hat(runs(0.0, 2.0)) > 1.05
    assert r_hat(runs(0.0, 1.0)) < 1.005


def test_one_run_has_none_and_a_run_that_is_not_finite_agrees_with_none():
    assert r_hat(runs(0.0)[:1]) is None
    assert r_hat(np.full((2, 10, 1), np.nan)) == np.inf


def test_the_r_hat_of_one_parameter_is_that_of_arviz_bit_by_bit():
    try:
        arviz = import_arviz()
    except DependencyError as error:
        pytest.skip(str(error))
    apart, ties = runs(0.3)[:, :501, 1], np.random.default_rng(1).integers(5, size=(3, 40)).astype(float)
    for chains in (apart, ties):
        assert rank_r_hat(chains) == float(arviz.rhat(chains, method="rank"))
