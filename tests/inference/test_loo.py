"""`loo` against the exact leave-one-out density of a conjugate regression."""

from dataclasses import replace

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

from civi.errors import SettingError, TargetError
from civi.inference.loo import loo
from civi.inference.nuts import Reference
from civi.inference.posterior import SampledPosterior
from civi.inference.warm_start import origin_of
from civi.problem.target import Frame, Framed
from exact_posterior import DESIGN, NOISE, PRIOR, ROWS, X, Y, exact, line

POINTWISE = 0.05
TOLERANCE = 4 * 0.041  # of sums: the standard deviation of elpd over 30 seeds is 0.039 to 0.046 with 4,000 draws


def log_predictive(rows: np.ndarray, i: int) -> float:
    """log p(y_i | y at `rows`) in closed form."""
    design, y = DESIGN[rows], Y[rows]
    covariance = np.linalg.inv(design.T @ design / NOISE**2 + np.eye(2) / PRIOR**2)
    mean = covariance @ design.T @ y / NOISE**2
    sd = np.sqrt(DESIGN[i] @ covariance @ DESIGN[i] + NOISE**2)
    return float(stats.norm.logpdf(Y[i], DESIGN[i] @ mean, sd))


EVERY = np.arange(ROWS)
EXACT = np.array([log_predictive(EVERY[i != EVERY], i) for i in EVERY])
WITH_ALL = np.array([log_predictive(EVERY, i) for i in EVERY])


def prior():
    for name in ("a", "b"):
        numpyro.sample(name, dist.Normal(0, PRIOR))


def moved(shift: float, scale: float):
    """The exact posterior, moved by `shift` standard deviations and wider by `scale`."""
    posterior = exact(line, X, Y)
    frame = posterior.target.frame
    wrong = Frame(frame.location + shift * frame.factor.sum(1), scale * frame.factor)
    return replace(posterior, target=Framed.at(posterior.target.target, wrong))


def test_the_exact_posterior_gives_the_exact_density():
    found = exact(line, X, Y).loo(0)
    np.testing.assert_allclose(found.pointwise["y"], EXACT, atol=POINTWISE)
    assert abs(found.elpd - EXACT.sum()) < TOLERANCE
    assert abs(found.se - np.sqrt(ROWS) * EXACT.std()) < POINTWISE
    assert abs(found.p_loo - (WITH_ALL.sum() - EXACT.sum())) < POINTWISE
    assert found.p_loo > 1
    assert found.unreliable == 0
    assert found.sentence == f"All {ROWS} k-hats are at most 0.70: the estimate is reliable."


def test_weights_correct_a_shifted_posterior_and_without_them_it_is_wrong():
    posterior = moved(0.7, 1.2)
    assert abs(posterior.loo(0).elpd - EXACT.sum()) < TOLERANCE
    uncorrected = loo(origin_of(posterior.constrain), posterior.sample(0, 4000), np.zeros(4000))
    assert abs(uncorrected.elpd - EXACT.sum()) > 2 * TOLERANCE


def test_a_posterior_far_off_is_called_unreliable():
    found = moved(6.0, 0.5).loo(0)
    assert found.unreliable > ROWS / 2
    assert f"{found.unreliable} of {ROWS} k-hats exceed 0.70" in found.sentence
    assert sum("k_hat of y[" in str(cell) for cell in found.__rich__().columns[0].cells) == 10


def test_draws_of_chains_need_no_weights():
    posterior = exact(line, X, Y)
    draws = posterior.sample_unconstrained(1, 4000).reshape(4, 1000, 2)
    chains = SampledPosterior(
        reference=Reference(draws, np.ones(2), np.full(2, 4000.0), 0), constrain=posterior.constrain
    )
    assert abs(chains.loo(0).elpd - EXACT.sum()) < TOLERANCE


def test_targets_without_a_likelihood_of_single_values_and_too_many_draws_are_refused():
    with pytest.raises(TargetError, match="needs a posterior of a NumPyro model"):
        exact(lambda z: -0.5 * (z**2).sum(), dim=2).loo(0)
    with pytest.raises(TargetError, match="no observed site"):
        exact(prior).loo(0)
    with pytest.raises(SettingError, match="need too much memory: use at most 6666666 draws"):
        exact(line, X, Y).loo(0, 10_000_000)
