"""The rules of the table of fits, and the way back to a model's own unconstrained coordinates."""

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from numpyro.infer.util import constrain_fn, initialize_model
from scipy.stats import norm

from fit_case import ModelCase
from fit_judge import covers, errors, judged, quantile_tolerances, to_unconstrained
from fit_models import MODELS
from fit_summary import summary

NO_MODEL = ModelCase("none", lambda: None, lambda _: (), 0, "")
BY_QUANTILES = ModelCase("none", lambda: None, lambda _: (), 0, "", rule="quantiles")
GRID = norm.ppf((np.arange(40_000) + 0.5) / 40_000)[:, None]


def two(column):
    return np.concatenate([column, column[np.random.default_rng(0).permutation(len(column))]], axis=1)


@pytest.mark.parametrize("case", [NO_MODEL, BY_QUANTILES])
@pytest.mark.parametrize(
    ("shift", "scale", "within"),
    [
        (0.0, 1.0, True),
        (0.09, 1.0, True),
        (-0.11, 1.0, False),
        (0.0, 0.91, True),
        (0.0, 0.88, False),
        (0.0, 1.12, False),
    ],
)
def test_both_rules_accept_and_reject_the_same_gaussians(case, shift, scale, within):
    found = errors(case, two(shift + scale * GRID), two(GRID)[None])
    assert found["within"] == within


def test_tolerances_are_those_of_the_moment_rule():
    shifted = norm.cdf(0.1) - 0.5
    scaled = 0.95 - norm.cdf(norm.ppf(0.95) / 1.1)
    assert quantile_tolerances()[2] == pytest.approx(shifted)
    assert quantile_tolerances()[4] == pytest.approx(scaled)


@pytest.mark.parametrize("name", ["garch11", "eight-schools-noncentred"])
def test_draws_return_to_the_unconstrained_vectors_they_came_from(name):
    """garch11 has a support that depends on another site, and the schools a deterministic site."""
    case = MODELS[name]
    info = initialize_model(jax.random.PRNGKey(0), case.model, model_args=case.args, model_kwargs=case.kwargs)
    start, unravel = ravel_pytree(info.param_info.z)
    vectors = np.random.default_rng(0).normal(size=(7, len(start))).astype(np.float32)

    def constrain(vector):
        return constrain_fn(case.model, case.args, case.kwargs, unravel(vector), return_deterministic=True)

    returned, _ = to_unconstrained(case, jax.vmap(constrain)(vectors))
    np.testing.assert_allclose(returned, vectors, atol=2e-5)


def test_an_unordered_mixture_is_judged_by_its_ordered_components():
    case, rng = MODELS["unordered-mixture"], np.random.default_rng(0)
    draws = {
        "weights": rng.dirichlet([30, 20], 4000),
        "mu": rng.normal([-1.5, 2.5], 0.1, (4000, 2)),
        "sigma": rng.lognormal(0, 0.1, (4000, 2)),
    }
    reference, _ = to_unconstrained(case, draws)
    exchanged = {
        name: np.where(np.arange(4000)[:, None] % 4 == 0, value[:, ::-1], value) for name, value in draws.items()
    }
    found = judged(case, exchanged, reference[None])
    assert found["within"]
    assert found["complete"]
    np.testing.assert_allclose(found["mode_shares"], [0.75, 0.25])
    assert not judged(case, draws, reference[None])["complete"]
    assert not covers(np.array([0.8, 0.2]))


def test_the_summary_counts_misses_and_verdicts():
    def fit(within, verdict, seconds, complete=True):
        times = {"seconds": seconds, "cpu": seconds, "second_seconds": 1.0, "programs": 9, "second_programs": 0}
        return {"dim": 3, "within": within, "complete": complete, "verdict": verdict, **times}

    results = {
        "a NUTS 0": {"seconds": 10.0, "cpu": 10.0},
        "b NUTS 0": {"seconds": 20.0, "cpu": 10.0},
        "a civi 0": fit(True, "good", 5.0),
        "a civi 1": fit(True, "doubtful", 7.0),
        "b civi 0": fit(True, "good", 10.0),
        "b civi 1": fit(False, "good", 30.0),
        "c civi 0": fit(True, "bad", 1.0, complete=False),
    }
    lines = "\n".join(summary(results))
    assert "over seconds of NUTS: median 0.80" in lines
    assert "largest ratio with D <= 20: 1.5 (b)" in lines
    assert "models within on all keys: 2 of 3 (not b)" in lines
    assert "misses called doubtful or bad: 1 of 2 (not b civi 1)" in lines
    assert "fits within called good: 2 of 3; models on which every fit within is called good: 1 of 2" in lines
