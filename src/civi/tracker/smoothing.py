"""Smoothing per outer sample: y_j is a moving average of g_j at theta_{t+1}, or at a point extrapolated beyond it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from civi.errors import require
from civi.estimate import Look
from civi.settings import check_settings, self_checking
from civi.tracker.base import Auxiliary, Params, Tracked


class Average(NamedTuple):
    """y_j (or log y_j), and 1 / K_eff, the sum of the squared weights of all inner samples in it."""

    y_J: Float[Array, " J"]
    inverse_size_J: Float[Array, " J"]


class SmoothingState(NamedTuple):
    """The moving averages, and the step t that determines beta_t."""

    average: Average
    step: Int[Array, ""]


def begin(look: Look) -> Average:
    """Start from y = g, the first estimate, because the paper's y_1 = 0 has no logarithm (appendix A)."""
    return Average(look.fresh_J, jnp.full_like(look.fresh_J, 1.0 / look.kept))


def smooth(average: Average, look: Look, beta: Float[Array, ""], new_J: Bool[Array, " J"]) -> Average:
    """y <- (1 - beta) y + beta g, in log space if the look is.

    Args:
        average: the moving average so far.
        look: the new estimate of g.
        beta: weight of the new estimate.
        new_J: entries with new outer samples, which start from y = g.
    """
    if look.log_scale:
        y_J = jnp.logaddexp(jnp.log1p(-beta) + average.y_J, jnp.log(beta) + look.fresh_J)
    else:
        y_J = (1 - beta) * average.y_J + beta * look.fresh_J
    smoothed = Average(y_J, (1 - beta) ** 2 * average.inverse_size_J + beta**2 / look.kept)
    return jax.tree.map(lambda new, old: jnp.where(new_J, new, old), begin(look), smoothed)


def extrapolate(before: Params, after: Params, beta: Float[Array, ""]) -> Params:
    """z_{t+1} = (1 - 1/beta) theta_t + (1/beta) theta_{t+1}."""
    return jax.tree.map(lambda old, new: (1 - 1 / beta) * old + new / beta, before, after)


@self_checking
@dataclass(frozen=True)
class Smoothing(ABC):
    """y_{t+1} = (1 - beta_t) y_t + beta_t g(z_{t+1}), beta_t = beta t^(-decay), with K3 fresh inner samples."""

    beta: Annotated[float, "Initial weight of the new estimate in the moving average."] = 0.5
    decay: Annotated[float, "Exponent of the decay of this weight, beta t^(-decay); 0: constant."] = 0.0

    def __post_init__(self) -> None:
        check_settings(self, "tracker")
        require(0 < self.beta <= 1, f"tracker.beta must be in (0, 1], not {self.beta}")
        require(self.decay >= 0, f"tracker.decay must not be negative, not {self.decay}")

    def init(self, look: Look, inner: int) -> SmoothingState:
        return SmoothingState(begin(look), jnp.asarray(1))

    def observe(self, state: SmoothingState, look: Look, index_S: Int[Array, " S"]) -> tuple[Tracked, SmoothingState]:
        """Return y unchanged, except that non-finite entries restart from this look."""
        of_S = jax.tree.map(lambda values_J: values_J[index_S], state.average)
        lost_S = ~jnp.isfinite(of_S.y_J)
        of_S = jax.tree.map(lambda new, old: jnp.where(lost_S, new, old), begin(look), of_S)
        average = jax.tree.map(lambda values_J, new_S: values_J.at[index_S].set(new_S), state.average, of_S)
        return Tracked(of_S.y_J, 1 / of_S.inverse_size_J), state._replace(average=average)

    def refresh(self, state: SmoothingState, auxiliary: Auxiliary) -> SmoothingState:
        beta = self.beta * jnp.asarray(state.step, float) ** (-self.decay)
        look = auxiliary.look(self.query(auxiliary.before, auxiliary.after, beta))
        return SmoothingState(smooth(state.average, look, beta, auxiliary.new_J), state.step + 1)

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
