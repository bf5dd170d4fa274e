"""Separate modes of a posterior among the Gaussians of all climbs, in the coordinates w of the best one.

A mode k is described by a Gaussian with independent coordinates of w. If modes do not overlap, the ELBO of their
mixture with shares pi_k is sum_k pi_k (ELBO_k - log pi_k). It is highest for pi_k proportional to exp(ELBO_k), where it
is log sum_k exp(ELBO_k): never below that of the best mode alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray
from scipy.special import softmax

from civi.family import Architecture, SemiImplicit, thresholds
from civi.family.gaussian import BOUND
from civi.inference.pilot.slopes import TargetSlopes
from civi.problem.target import CurvedFrame

DRAWS, APART, LEAST_SHARE, BETWEEN = 256, 3.0, 0.01, 9
LARGEST = 0.99

LogP = Callable[[np.ndarray], np.ndarray]


class Modes(NamedTuple):
    """Modes of a posterior in the coordinates w of a frame: locations, log scales (both (M, D)) and shares (M,)."""

    location: Any
    log_scale: Any
    share: Any


class ModalArchitecture(eqx.Module):
    """An architecture with a bounded conditional, whose families start with these modes.

    In training each mode has at least half of an equal share, so that its shape is learnt. The shares are set after it
    (`civi.inference.shares`).
    """

    architecture: Architecture = eqx.field(static=True)
    modes: Modes

    @classmethod
    def of(cls, architecture: Architecture, modes: Modes) -> ModalArchitecture:
        """The architecture with as many modes, whose shares are half-way between these and equal ones."""
        count = len(modes.share)
        between = modes._replace(share=0.5 * (modes.share + 1 / count))
        return cls(replace(architecture, mixing="modal", modes=count), between)

    def init(self, dim: int, key: PRNGKeyArray) -> SemiImplicit:
        """A family over R^dim with random mixing weights, and its modes at their places."""
        family = self.architecture.init(dim, key)
        change = BOUND * jnp.arctanh(jnp.clip(self.modes.log_scale / BOUND, -LARGEST, LARGEST))
        parts = (
            jnp.concatenate([self.modes.location, change], axis=1),
            thresholds(self.modes.share, self.architecture.noise_scale),
        )
        return eqx.tree_at(lambda one: (one.mixing.offset_M, one.mixing.threshold), family, parts)

    def template(self, dim: int) -> SemiImplicit:
        """The family of `init` with shapes in place of all arrays."""
        return self.architecture.template(dim)


class Mode(NamedTuple):
    """A Gaussian with independent coordinates of w, and its ELBO up to a constant that all modes share."""

    location: np.ndarray
    log_scale: np.ndarray
    elbo: float = -np.inf

    def log_prob(self, w: np.ndarray) -> np.ndarray:
        """The log density at points w (N, D), up to a constant."""
        white = (w - self.location) * np.exp(-self.log_scale)
        return -0.5 * (white**2).sum(1) - self.log_scale.sum()

    def judged(self, log_p: LogP, noise: np.ndarray) -> Mode:
        """The same with its ELBO, from standard normal noise (N, D); minus infinity if it is not finite."""
        w = self.location + np.exp(self.log_scale) * noise
        with np.errstate(invalid="ignore"):
            elbo = float((log_p(w) - self.log_prob(w)).mean())
        return self._replace(elbo=elbo if np.isfinite(elbo) else -np.inf)


def separate_modes(
    slopes: TargetSlopes, guesses: Sequence[Any], frame: CurvedFrame, degrees: np.ndarray, rng: np.random.Generator
) -> Modes | None:
    """The modes with a share of at least LEAST_SHARE, the one of the frame first; None if there is only one.

    Args:
        slopes: log p and its gradient.
        guesses: the Gaussians of all climbs, with dense factors, in the target's coordinates z.
        frame: the frame of the best of them, still linear.
        degrees: degrees of centring of the target.
        rng: draws the noise by which the modes are judged.
    """
    location, factor = np.asarray(frame.location, np.float64), np.asarray(frame.factor, np.float64)
    dim = len(location)

    def log_p(w: np.ndarray) -> np.ndarray:
        return slopes.at(location + w @ factor.T, np.repeat(degrees[None], len(w), axis=0))[0]

    found, noise = [Mode(np.zeros(dim), np.zeros(dim))], np.zeros((0, dim))
    highest = max((guess.elbo for guess in guesses), default=-np.inf)
    for guess in sorted(guesses, key=lambda guess: -guess.elbo):
        mode = _in_frame(guess, location, factor)
        if not guess.elbo > highest + np.log(LEAST_SHARE) or not all(_far(mode, other) for other in found):
            continue
        if len(noise) == 0:
            noise = rng.normal(size=(DRAWS, dim))
            found[0] = found[0].judged(log_p, noise)
        mode = mode.judged(log_p, noise)
        high = mode.elbo > found[0].elbo + np.log(LEAST_SHARE)
        if high and apart(log_p, mode.location, np.stack([other.location for other in found])):
            found.append(mode)
    if len(found) == 1:
        return None
    locations, log_scales, elbos = zip(*found, strict=True)
    return Modes(np.stack(locations), np.stack(log_scales), softmax(elbos))


def apart(log_p: LogP, one: np.ndarray, others: np.ndarray) -> bool:
    """Whether log p falls by more than APART below the lower end on the straight way to each of the others (N, D).

    It never does if log p is concave. A value that is not finite counts as minus infinity.
    """
    way = np.linspace(0, 1, BETWEEN)[:, None]
    values = log_p((one + way * (others - one)[:, None]).reshape(-1, len(one))).reshape(len(others), BETWEEN)
    values = np.where(np.isfinite(values), values, -np.inf)
    with np.errstate(invalid="ignore"):
        return bool((np.minimum(values[:, 0], values[:, -1]) - values.min(1) > APART).all())


def _in_frame(guess: Any, location: np.ndarray, factor: np.ndarray) -> Mode:
    """The Gaussian N with independent coordinates of w that has the smallest KL(N || guess)."""
    whitening = np.linalg.solve(guess.factor, factor)
    return Mode(np.linalg.solve(factor, guess.location - location), -0.5 * np.log((whitening**2).sum(0)))


def _far(one: Mode, other: Mode) -> bool:
    """Whether the locations are more than APART standard deviations of either Gaussian apart."""
    away = one.location - other.location
    distances = [float(np.linalg.norm(away * np.exp(-mode.log_scale))) for mode in (one, other)]
    return min(distances) > APART
