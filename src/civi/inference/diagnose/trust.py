"""How far a fit can be trusted: each check gives a value, a verdict and a sentence that explains it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from civi.inference.diagnose.importance import smooth_weights
from civi.inference.nuts import Reference

VERDICTS = ("good", "doubtful", "bad")
MISSING, NEGLIGIBLE_LOSS = 3.0, 0.05


SUBJECTS = ("location", "scale", "tail", "mode", "time", "estimate")


class Finding(NamedTuple):
    """The result of one check.

    Attributes:
        name: name of the check.
        value: its value.
        verdict: good, doubtful or bad.
        sentence: what was found.
        subject: what is wrong if it is not good: location, scale, tail, mode, time, or the estimate of log q itself.
        remedy: what to try; empty if it is good.
    """

    name: str
    value: float
    verdict: str
    sentence: str
    subject: str = ""
    remedy: str = ""

    @property
    def checked(self) -> bool:
        """Whether the check could be made; otherwise its value is not a number."""
        return not np.isnan(self.value)

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Its name, value, verdict and sentence, as they are printed."""
        if not self.checked:
            return self.name, "-", "not checked", self.sentence
        value = f"{self.value:.0f}" if 1000 <= abs(self.value) < 1e6 else f"{self.value:.3g}"
        return self.name, value, self.verdict, self.sentence


class Mode(NamedTuple):
    """A region that the pilot found.

    Attributes:
        elbo: the ELBO of its Gaussian.
        share: about the share of the posterior in it, exp(ELBO of the Gaussian - ELBO of q), at most 1.
        missing: whether q does not cover it.
    """

    elbo: float
    share: float
    missing: bool


class Evidence(NamedTuple):
    """What the checks are computed from.

    Attributes:
        draws: draws of q.
        log_ratios: log p - log q at these draws.
        k_hats: k_hat of these draws and of further independent sets of draws.
        log_q: log q at the draws, from many inner samples and with the own term.
        log_q_fewer: the same from a twentieth of the inner samples.
        log_q_plain: the same as log_q, but by the plain mean, without the own term.
        at_guesses: log p - log q at draws of each of the pilot's Gaussians, (start, draw); None without a pilot.
        elbo_of_guesses: the ELBO of each of these Gaussians; None without a pilot.
        r_hat: R-hat between independent runs; None for a single run.
        converged: whether training had converged; None if this was not tested.
        ended: how training ended, in words.
        names: names of the parameters; empty if they are not known.
        trained: whether anything was trained; not if the Gaussian of the pilot is already right.
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
    ended: str = ""
    names: tuple[str, ...] = ()
    trained: bool = True


def findings(evidence: Evidence) -> list[Finding]:
    """The results of all checks. The check of lost modes needs a pilot, that of convergence a test for it."""
    checks = [_location, _scale, _tail, _efficiency]
    checks += [] if evidence.at_guesses is None else [_modes]
    checks += [_spread] if evidence.converged is None else [_spread, _convergence]
    return [check(evidence) for check in [*checks, _bias, _gap]]


def modes(evidence: Evidence) -> list[Mode]:
    """The regions that the pilot found, and whether q covers them; empty without a pilot.

    exp(ELBO of a guess - ELBO of q) is roughly the share of the posterior around that guess. q does not cover the
    guess if log p - log q there exceeds its mean over the draws of q by more than MISSING nats.
    """
    if evidence.at_guesses is None or evidence.elbo_of_guesses is None:
        return []
    elbo = evidence.log_ratios.mean()
    missing = np.median(np.asarray(evidence.at_guesses), axis=1) - elbo > MISSING
    share = np.exp(np.minimum(evidence.elbo_of_guesses - elbo, 0.0))
    columns = (np.asarray(evidence.elbo_of_guesses).tolist(), share.tolist(), missing.tolist())
    return [Mode(*row) for row in zip(*columns, strict=True)]


def advice(found: list[Finding]) -> list[str]:
    """What is likely wrong and what to try: one line per subject, in the order of SUBJECTS; empty if all is good."""
    lines = []
    for subject in SUBJECTS:
        wrong = [finding for finding in found if finding.subject == subject and finding.verdict != "good"]
        if wrong:
            worst = max(wrong, key=lambda finding: VERDICTS.index(finding.verdict))
            lines.append(f"{subject}: {worst.sentence} {worst.remedy}".strip())
    return lines


def chain_findings(reference: Reference) -> list[Finding]:
    """The results of all checks of the draws of Markov chains."""
    good = "The chains agree."
    doubtful = "The chains differ slightly: run them for longer."
    bad = "The chains have not found the same posterior: do not use these draws."
    r_hat = _judged("r_hat", float(reference.r_hat.max()), (1.01, 1.05), (good, doubtful, bad))
    size = float(reference.effective_size.min())
    enough = "The effective sample size of every parameter is large enough for means and standard deviations."
    few = "The effective sample size of a parameter is below 400: run the chains for longer."
    effective = Finding("effective_size", size, "good" if size >= 400 else "doubtful", enough if size >= 400 else few)
    none = "No transition diverged."
    some = "Transitions diverged: the chains may have missed a part of the posterior; set a higher accept."
    count = float(reference.divergences)
    return [r_hat, effective, Finding("divergences", count, "doubtful" if count else "good", some if count else none)]


def reference_findings(draws: np.ndarray, reference: np.ndarray, names: Sequence[str]) -> list[Finding]:
    """The largest errors of means and standard deviations of draws, measured against reference draws.

    Args:
        draws: draws (draw, parameter).
        reference: reference draws (draw, parameter).
        names: names of the parameters.
    """
    sd = reference.std(0)
    with np.errstate(all="ignore"):
        shift, name = _largest(np.abs(draws.mean(0) - reference.mean(0)) / sd, names)
        change, other = _largest(np.abs(np.log(draws.std(0) / sd)), names)
    close = "All means are within 0.1 sd of the reference."
    off = f"The mean of {name} is {shift:.2g} sd off the reference."
    same = "All standard deviations are within 10 % of the reference."
    wide = f"The standard deviation of {other} differs from the reference by a factor of {np.exp(change):.2g}."
    more = "Use more steps, another solver, or the reference draws."
    return [
        _judged("reference_mean", shift, (0.1, 0.3), (close, off, off), "location", (more, more)),
        _judged("reference_sd", change, (0.1, 0.3), (same, wide, wide), "scale", (more, more)),
    ]


def verdict(found: list[Finding]) -> str:
    """The worst verdict among these findings."""
    return VERDICTS[max(VERDICTS.index(finding.verdict) for finding in found)]


def _judged(
    name: str,
    value: float,
    limits: tuple[float, float],
    sentences: tuple[str, str, str],
    subject: str = "",
    remedies: tuple[str, str] = ("", ""),
) -> Finding:
    """Good up to the first limit, doubtful up to the second, bad above it and for NaN."""
    level = 2 if not value <= limits[1] else int(value > limits[0])
    return Finding(name, value, VERDICTS[level], sentences[level], subject, ("", *remedies)[level])


RESAMPLE = "Use sample(resample=True), or refine(key) for exact draws."
REFINE = "Use refine(key), which runs NUTS from this fit."
REWRITE = (
    "Try another parameterisation (non-centred group effects, standardised data, less diffuse priors), then NUTS. "
    "This fit's own draws are not usable."
)


def _weighted(evidence: Evidence) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the draws, weighted by p / q."""
    weights = np.exp(smooth_weights(evidence.log_ratios).log_weights)
    weights = weights / weights.sum()
    mean = weights @ evidence.draws
    return mean, np.sqrt(weights @ (evidence.draws - mean) ** 2)


def _largest(values: np.ndarray, names: Sequence[str]) -> tuple[float, str]:
    """The largest value, and the name of its parameter; NaN counts as the largest."""
    index = int(np.argmax(np.nan_to_num(values, nan=np.inf)))
    return float(values[index]), names[index] if names else f"parameter {index}"


def _location(evidence: Evidence) -> Finding:
    """The largest shift of a mean, in sd, when the draws are weighted by p / q."""
    mean, sd = _weighted(evidence)
    with np.errstate(all="ignore"):
        value, name = _largest(np.abs(evidence.draws.mean(0) - mean) / sd, evidence.names)
    good = "Importance weighting changes means by at most 0.1 sd."
    wrong = f"Importance weighting moves the mean of {name} by {value:.2g} sd."
    return _judged("mean_shift", value, (0.1, 0.3), (good, wrong, wrong), "location", (RESAMPLE, REWRITE))


def _scale(evidence: Evidence) -> Finding:
    """The largest change of a log standard deviation when the draws are weighted by p / q."""
    _, sd = _weighted(evidence)
    with np.errstate(all="ignore"):
        ratios = evidence.draws.std(0) / sd
        value, name = _largest(np.abs(np.log(ratios)), evidence.names)
    good = "Importance weighting changes standard deviations by at most 10 %."
    wrong = f"The standard deviation of {name} changes by a factor of {np.exp(value):.2g} with importance weighting."
    return _judged("sd_change", value, (0.1, 0.3), (good, wrong, wrong), "scale", (RESAMPLE, REFINE))


def _tail(evidence: Evidence) -> Finding:
    """The median k_hat over independent sets of draws; in a single set the largest weight can change k_hat by 0.3.

    k_hat is the shape of the tail of the weights (how fast they grow), not how much weight the tail carries. Up to 1
    the mean of the weights is finite, and a heavy tail is harmless if it hardly reduces the effective sample size.
    """
    k_hat = float(np.median(evidence.k_hats))
    if 0.7 < k_hat <= 1 and _lost_efficiency(evidence) <= NEGLIGIBLE_LOSS:
        sentence = "The posterior's tails are heavier than the fit's, but they carry almost no weight."
        return Finding("k_hat", k_hat, "good", sentence, "tail")
    good = "The fit covers the tails of the posterior."
    doubtful = "The fit's tails are lighter than the posterior's."
    bad = "The posterior has mass where the fit has almost none."
    return _judged("k_hat", k_hat, (0.7, 1.0), (good, doubtful, bad), "tail", (RESAMPLE, REFINE))


def _lost_efficiency(evidence: Evidence) -> float:
    """1 - effective sample size / number of draws."""
    return 1 - smooth_weights(evidence.log_ratios).effective_size / len(evidence.log_ratios)


def _efficiency(evidence: Evidence) -> Finding:
    size = "After importance weighting the effective sample size is"
    good = f"{size} at least a third of the number of draws."
    doubtful = f"{size} below a third of the number of draws: means and standard deviations may be off by 10 %."
    bad = f"{size} below a tenth of the number of draws."
    value = _lost_efficiency(evidence)
    return _judged("lost_efficiency", value, (0.67, 0.9), (good, doubtful, bad), "tail", (RESAMPLE, REFINE))


def _bias(evidence: Evidence) -> Finding:
    change = float(np.abs(np.mean(evidence.log_q_fewer) - np.mean(evidence.log_q)))
    good = "The estimate of log q does not depend on the number of inner samples."
    doubtful = "The estimate of log q still changes with the number of inner samples: the conditionals are narrow."
    bad = "The estimate of log q is unreliable."
    more = "Use a larger `inner` in log_prob and elbo; the other checks rely on this estimate."
    return _judged("inner_bias", change, (0.1, 0.5), (good, doubtful, bad), "estimate", (more, more))


def _gap(evidence: Evidence) -> Finding:
    gap = float(np.mean(evidence.log_q) - np.mean(evidence.log_q_plain))
    good = "The lower and upper bounds on log q agree."
    doubtful = "The lower and upper bounds on log q differ."
    bad = "The lower and upper bounds on log q are far apart: the inner samples miss a part of q."
    more = "Use a larger `inner` in log_prob and elbo; the other checks rely on this estimate."
    return _judged("bound_gap", gap, (0.1, 0.5), (good, doubtful, bad), "estimate", (more, more))


def _modes(evidence: Evidence) -> Finding:
    """The largest share of the posterior in a region that the pilot found and q does not cover (see `modes`)."""
    lost = float(np.max([mode.share * mode.missing for mode in modes(evidence)], initial=0.0))
    good = "The fit covers every region that the pilot found."
    doubtful = "The pilot found a region with a small share of the posterior that the fit does not cover."
    bad = "The pilot found a mode that the fit does not cover."
    remedy = "If modes differ by a symmetry such as exchanged labels, order the components; otherwise use another key."
    return _judged("lost_mode", lost, (0.01, 0.1), (good, doubtful, bad), "mode", (remedy, remedy))


def _spread(evidence: Evidence) -> Finding:
    if evidence.r_hat is None:
        one = "There was only one run to look at: set runs to 2 or more."
        none = "Nothing was trained, so there are no runs to compare."
        return Finding("spread", float("nan"), "good", one if evidence.trained else none)
    good = "Independent runs agree."
    doubtful = "Independent runs differ."
    bad = "Independent runs found different posteriors: at least one of them is wrong."
    remedies = ("Use more steps, or compare fits with other keys.", "Compare fits with other keys, or use NUTS.")
    return _judged("spread", evidence.r_hat, (1.02, 1.1), (good, doubtful, bad), "mode", remedies)


def _convergence(evidence: Evidence) -> Finding:
    if evidence.converged:
        sentence = (
            "Training had converged." if evidence.trained else f"{evidence.ended[:1].upper() + evidence.ended[1:]}."
        )
        return Finding("converged", 1.0, "good", sentence, "time")
    more = "Give more seconds." if "out of time" in evidence.ended else "Give more steps."
    sentence = f"Training had not converged ({evidence.ended or 'the ELBO was still improving'})."
    return Finding("converged", 0.0, "doubtful", sentence, "time", more)
