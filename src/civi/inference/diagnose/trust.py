"""How far a fit can be trusted: each check is a number, a verdict and a plain sentence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from civi.inference.diagnose.importance import smooth
from civi.inference.nuts import Reference

VERDICTS = ("good", "doubtful", "bad")
MISSING, NEXT_TO_NOTHING = 3.0, 0.05


class Finding(NamedTuple):
    """One check."""

    name: str
    value: float
    verdict: str
    sentence: str


class Seen(NamedTuple):
    """What the checks look at.

    Draws of q; log p - log q at these draws; k_hat of these and of further sets of draws; log q of these draws from
    many inner samples, from a twentieth of them, and without the own term; log p - log q at draws of each of the
    pilot's Gaussians, and the ELBO of each (None without a pilot); R-hat between independent runs (None for one run);
    whether training had converged (None where that was not tested).
    """

    draws: np.ndarray
    log_ratios: np.ndarray
    k_hats: np.ndarray
    log_q: np.ndarray
    log_q_fewer: np.ndarray
    log_q_plain: np.ndarray
    at_guesses: np.ndarray | None
    elbo_of_guesses: np.ndarray | None
    r_hat: float | None
    converged: bool | None


def findings(seen: Seen) -> list[Finding]:
    """All checks."""
    checks = [_tail, _efficiency, _moments, _bias, _gap]
    checks += [] if seen.at_guesses is None else [_modes]
    checks += [_spread] if seen.converged is None else [_spread, _convergence]
    return [check(seen) for check in checks]


def chain_findings(reference: Reference) -> list[Finding]:
    """Checks of the draws of a Markov chain."""
    good = "The chains agree."
    doubtful = "The chains differ slightly: run them for longer."
    bad = "The chains have not found the same posterior: do not use these draws."
    r_hat = _judged("r_hat", float(reference.r_hat.max()), (1.01, 1.05), (good, doubtful, bad))
    size = float(reference.effective_size.min())
    enough = "Every parameter has enough effective draws for means and standard deviations."
    few = "A parameter has fewer than 400 effective draws: run the chains for longer."
    effective = Finding("effective_size", size, "good" if size >= 400 else "doubtful", enough if size >= 400 else few)
    none = "No transition diverged."
    some = "Transitions diverged: the chains may have missed a part of the posterior; try a higher accept."
    count = float(reference.divergences)
    return [r_hat, effective, Finding("divergences", count, "doubtful" if count else "good", some if count else none)]


def verdict(found: list[Finding]) -> str:
    """The worst one."""
    return VERDICTS[max(VERDICTS.index(finding.verdict) for finding in found)]


def _judged(name: str, value: float, limits: tuple[float, float], sentences: tuple[str, str, str]) -> Finding:
    level = 2 if not value <= limits[1] else int(value > limits[0])
    return Finding(name, value, VERDICTS[level], sentences[level])


def _tail(seen: Seen) -> Finding:
    """The median over independent sets of draws: of one set, the largest weight alone can move k_hat by 0.3.

    k_hat is the shape of the tail, how fast weights grow, and not what the tail holds. Up to 1, where the mean of the
    weights is finite, a tail that costs the draws next to nothing of their worth is harmless.
    """
    k_hat = float(np.median(seen.k_hats))
    if 0.7 < k_hat <= 1 and _lost_efficiency(seen) <= NEXT_TO_NOTHING:
        sentence = "The posterior's tails are heavier than the fit's, but hold next to nothing."
        return Finding("k_hat", k_hat, "good", sentence)
    good = "The posterior has no tails that the fit misses."
    doubtful = "The fit's tails are lighter than the posterior's: use sample(resample=True) and check the extremes."
    bad = "The posterior has mass where the fit has next to none: do not use the fit as it is."
    return _judged("k_hat", k_hat, (0.7, 1.0), (good, doubtful, bad))


def _lost_efficiency(seen: Seen) -> float:
    """1 - effective share of the draws."""
    return 1 - smooth(seen.log_ratios).effective_size / len(seen.log_ratios)


def _efficiency(seen: Seen) -> Finding:
    good = "Most draws count fully as draws of the posterior."
    doubtful = "Reweighted, the draws are worth less than a third of their number: moments may be off by a tenth."
    bad = "Reweighted, the draws are worth less than a tenth of their number."
    return _judged("lost_efficiency", _lost_efficiency(seen), (0.67, 0.9), (good, doubtful, bad))


def _moments(seen: Seen) -> Finding:
    """The largest shift of a mean in sd, or change of a log sd, when the draws are weighted by p / q."""
    weights = np.exp(smooth(seen.log_ratios).log_weights)
    weights = weights / weights.sum()
    mean = weights @ seen.draws
    sd = np.sqrt(weights @ (seen.draws - mean) ** 2)
    with np.errstate(all="ignore"):
        shifts = (np.abs(seen.draws.mean(0) - mean) / sd, np.abs(np.log(seen.draws.std(0) / sd)))
    good = "Means and standard deviations stay the same within a tenth when the draws are weighted by importance."
    doubtful = "Weighted by importance, a mean or standard deviation moves by more than a tenth."
    bad = "Weighted by importance, a mean or standard deviation is quite another."
    return _judged("moments", float(np.max(shifts)), (0.1, 0.3), (good, doubtful, bad))


def _bias(seen: Seen) -> Finding:
    change = float(np.abs(np.mean(seen.log_q_fewer) - np.mean(seen.log_q)))
    good = "The density of q does not depend on the number of inner samples."
    doubtful = "The density of q still changes with the number of inner samples: its conditionals are narrow."
    bad = "The density of q is not known: far more inner samples are needed."
    return _judged("inner_bias", change, (0.1, 0.5), (good, doubtful, bad))


def _gap(seen: Seen) -> Finding:
    gap = float(np.mean(seen.log_q) - np.mean(seen.log_q_plain))
    good = "The bounds on the density of q meet."
    doubtful = "The bounds on the density of q are apart."
    bad = "The bounds on the density of q are far apart: a part of q is invisible to its own inner samples."
    return _judged("bound_gap", gap, (0.1, 0.5), (good, doubtful, bad))


def _modes(seen: Seen) -> Finding:
    """exp(ELBO of a guess - ELBO of q) is about the share of the posterior at that guess; q must know the place.

    It does where log p - log q is about as large as at its own draws.
    """
    elbo = seen.log_ratios.mean()
    missing = np.median(np.asarray(seen.at_guesses), axis=1) - elbo > MISSING
    share = np.exp(np.minimum(seen.elbo_of_guesses - elbo, 0.0))
    lost = float(np.max(share * missing, initial=0.0))
    good = "Nothing that the pilot found from its other starts is missing from the fit."
    doubtful = "The pilot found a place with a small share of the posterior that the fit does not know."
    bad = "The pilot found a mode that the fit has lost: fit again with another key."
    return _judged("lost_mode", lost, (0.01, 0.1), (good, doubtful, bad))


def _spread(seen: Seen) -> Finding:
    if seen.r_hat is None:
        return Finding("spread", float("nan"), "good", "Not checked: there was only one run; give runs=2 or more.")
    good = "Independent runs agree."
    doubtful = "Independent runs differ: give it more steps, or compare fits with other keys."
    bad = "Independent runs found different posteriors: at least one of them is wrong."
    return _judged("spread", seen.r_hat, (1.02, 1.1), (good, doubtful, bad))


def _convergence(seen: Seen) -> Finding:
    if seen.converged:
        return Finding("converged", 1.0, "good", "Training gained nothing more at its end.")
    return Finding("converged", 0.0, "doubtful", "Training was still gaining when it ended: give it more steps.")
