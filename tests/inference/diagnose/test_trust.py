"""Verdicts on known fits to a standard normal posterior: exact, too narrow, shifted, or with a lost mode."""

import numpy as np
import pytest
from scipy import stats

from civi.inference.diagnose.importance import smooth_weights
from civi.inference.diagnose.trust import Evidence, findings, verdict

DIM, COUNT = 3, 4000
P = stats.multivariate_normal(np.zeros(DIM))


def evidence(shift=0.0, scale=1.0, **changes):
    """The evidence of the checks for the fit N(shift, scale^2 I)."""
    z = shift + scale * np.random.default_rng(0).normal(size=(COUNT, DIM))
    q = stats.multivariate_normal(np.full(DIM, shift), scale**2)
    log_q, guess = q.logpdf(z), np.random.default_rng(1).normal(size=(2, 50, DIM))
    exact = Evidence(
        draws=z,
        log_ratios=P.logpdf(z) - log_q,
        k_hats=np.array([smooth_weights(P.logpdf(z) - log_q).k_hat]),
        log_q=log_q,
        log_q_fewer=log_q,
        log_q_plain=log_q,
        at_guesses=P.logpdf(guess) - q.logpdf(guess),
        elbo_of_guesses=np.array([-0.1, -0.2]),
        r_hat=1.001,
        converged=True,
    )
    return exact._replace(**changes)


def judged(what):
    return {finding.name: finding.verdict for finding in findings(what)}


def test_an_exact_fit_is_good():
    assert set(judged(evidence()).values()) == {"good"}


@pytest.mark.parametrize(
    ("what", "name"),
    [
        (evidence(scale=0.5), "k_hat"),
        (evidence(shift=0.8), "mean_shift"),
        (evidence(scale=1.4), "sd_change"),
        (evidence(scale=2.5), "lost_efficiency"),
        (evidence(log_q_fewer=evidence().log_q + 0.2), "inner_bias"),
        (evidence(log_q_plain=evidence().log_q - 0.2), "bound_gap"),
        (evidence(at_guesses=np.array([np.zeros(50), np.full(50, 20.0)])), "lost_mode"),
        (evidence(r_hat=1.05), "spread"),
        (evidence(r_hat=np.inf), "spread"),
        (evidence(r_hat=np.nan), "spread"),
        (evidence(converged=False), "converged"),
    ],
    ids=[
        *("narrow", "shifted", "wide", "very wide", "bias", "gap", "mode"),
        *("runs differ", "a run diverged", "unknown", "early"),
    ],
)
def test_what_is_wrong_is_found_by_its_check(what, name):
    assert judged(what)[name] != "good"
    assert verdict(findings(what)) != "good"


def test_a_single_run_is_not_held_against_a_fit_but_said():
    found = {finding.name: finding for finding in findings(evidence(r_hat=None))}
    assert found["spread"].verdict == "good"
    assert found["spread"].cells[2] == "not checked"
    assert "only one run" in found["spread"].sentence


@pytest.mark.parametrize(("value", "expected"), [(1.01, "good"), (1.05, "doubtful"), (1.5, "bad")])
def test_verdicts_have_three_levels(value, expected):
    assert judged(evidence(r_hat=value))["spread"] == expected


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (evidence(k_hats=np.array([0.85])), "good"),
        (evidence(scale=1.2, k_hats=np.array([0.85])), "doubtful"),
        (evidence(k_hats=np.array([1.2])), "bad"),
    ],
    ids=["negligible tail", "lost efficiency", "infinite mean"],
)
def test_a_heavy_tail_counts_only_if_it_carries_weight(what, expected):
    assert judged(what)["k_hat"] == expected
