"""Smoothing per outer sample: log y_j as a moving average in log space, at theta_{t+1} or extrapolated beyond it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from civi.errors import require
from civi.estimate import LogRatios
from civi.family import SemiImplicit
from civi.tracker.base import Auxiliary, Params, Start, Tracked


class Average(NamedTuple):
    """log y_j, and the sum of squared weights of all inner samples in it, which is 1 / K_eff."""

    log_y_J: Float[Array, " J"]
    inverse_size_J: Float[Array, " J"]


class SmoothingState(NamedTuple):
    """The moving averages and the step t, for beta_t."""

    average: Average
    step: Int[Array, ""]


def begin(ratios: LogRatios) -> Average:
    """log y = log g: the paper's y_1 = 0 has no logarithm, so a chunk starts from its first estimate (appendix A)."""
    return Average(ratios.fresh_J, jnp.full_like(ratios.fresh_J, 1.0 / ratios.kept))


def smooth(average: Average, ratios: LogRatios, beta: Float[Array, ""], new_J: Bool[Array, " J"]) -> Average:
    """log y <- logaddexp(log(1 - beta) + log y, log beta + log g); samples that are new begin afresh."""
    log_y_J = jnp.logaddexp(jnp.log1p(-beta) + average.log_y_J, jnp.log(beta) + ratios.fresh_J)
    smoothed = Average(log_y_J, (1 - beta) ** 2 * average.inverse_size_J + beta**2 / ratios.kept)
    return jax.tree.map(lambda new, old: jnp.where(new_J, new, old), begin(ratios), smoothed)


def extrapolate(before: Params, after: Params, beta: Float[Array, ""]) -> Params:
    """z_{t+1} = (1 - 1/beta) theta_t + (1/beta) theta_{t+1}."""
    return jax.tree.map(lambda old, new: (1 - 1 / beta) * old + new / beta, before, after)


@dataclass(frozen=True)
class Smoothing(ABC):
    """y_{t+1} = (1 - beta_t) y_t + beta_t g(z_{t+1}), beta_t = beta t^(-decay), with K3 fresh inner samples."""

    beta: float = 0.5
    decay: float = 0.0

    def __post_init__(self) -> None:
        require(0 < self.beta <= 1, f"tracker.beta must be in (0, 1], not {self.beta}")
        require(self.decay >= 0, f"tracker.decay must not be negative, not {self.decay}")

    def init(self, start: Start) -> SmoothingState:
        return SmoothingState(begin(start.ratios_J), jnp.asarray(1))

    def observe(
        self, state: SmoothingState, family: SemiImplicit, ratios: LogRatios, index_S: Int[Array, " S"]
    ) -> tuple[Tracked, SmoothingState]:
        return Tracked(state.average.log_y_J[index_S], 1 / state.average.inverse_size_J[index_S]), state

    def refresh(self, state: SmoothingState, auxiliary: Auxiliary) -> SmoothingState:
        beta = self.beta * jnp.asarray(state.step, float) ** (-self.decay)
        ratios = auxiliary.oracle(self.query(auxiliary.before, auxiliary.after, beta))
        return SmoothingState(smooth(state.average, ratios, beta, auxiliary.new_J), state.step + 1)

    @abstractmethod
    def query(self, before: Params, after: Params, beta: Float[Array, ""]) -> Params:
        """The parameters z_{t+1} at which g is evaluated."""


@dataclass(frozen=True)
class Smoothed(Smoothing):
    """Smoothing at theta_{t+1} (SCGD)."""

    def query(self, before: Params, after: Params, beta: Float[Array, ""]) -> Params:
        return after


@dataclass(frozen=True)
class Extrapolated(Smoothing):
    """Smoothing at the extrapolated point (Algorithm 1, auxiliary update)."""

    def query(self, before: Params, after: Params, beta: Float[Array, ""]) -> Params:
        return extrapolate(before, after, beta)
