"""Objectives of the compositional engine: surrogates made from a look and the tracked denominators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from civi.estimate import LogRatios, Picked, mix_own
from civi.problem.oracles import OracleLook, OracleNu, OracleProblem
from civi.settings import check_settings, self_checking
from civi.tracker import Tracked


class Report(NamedTuple):
    """Auxiliary outputs of an objective: its value, and the mean and standard deviation of the weights k."""

    value: Float[Array, ""]
    weight_mean: Float[Array, ""]
    weight_sd: Float[Array, ""]


@runtime_checkable
class Objective(Protocol):
    """Turns a look and the tracked inner mean into a surrogate."""

    def surrogate(self, problem: Any, look: Any, tracked: Tracked, nu: Any) -> tuple[Array, Report]:
        """A scalar whose gradient with respect to theta is the gradient of the step, and its report.

        Args:
            problem: the problem at theta.
            look: a look at the entries in nu, differentiable in theta.
            tracked: the tracked denominators of these entries.
            nu: the entries and their shares.
        """
        ...


@self_checking
@dataclass(frozen=True)
class LogTrick:
    """f_nu(y) = log y_nu of a semi-implicit problem (Eq. Logscale)."""

    inner_mean: Annotated[
        Literal["safe", "plain"],
        "safe: mix the own term into g and y with weight 1/(K_eff + 1); plain: without it, as in the paper.",
    ] = "safe"
    weigh: Annotated[
        Literal["entropy", "ratio"],
        "What k = g/y multiplies: the gradient of log q alone (entropy) or of log q - log p (ratio, as in the paper).",
    ] = "entropy"

    def __post_init__(self) -> None:
        check_settings(self, "objective")

    def surrogate(self, problem: Any, look: LogRatios, tracked: Tracked, nu: Picked) -> tuple[Array, Report]:
        """sum_j share_j k_j log g_j with k_j = g_j / y_j held constant, whose gradient is the one of the paper."""
        log_g_S, log_y_S = look.fresh_J, tracked.y_S
        if self.inner_mean == "safe":
            own_weight = 1 / (tracked.effective_S + 1)
            log_g_S = mix_own(log_g_S, look.own_J, own_weight)
            log_y_S = mix_own(log_y_S, look.own_J, own_weight)
        log_y_S = jax.lax.stop_gradient(log_y_S)
        weight_S = jnp.exp(jax.lax.stop_gradient(log_g_S) - log_y_S)
        weight_of_p_S = weight_S if self.weigh == "ratio" else jnp.ones_like(weight_S)
        log_q_S = log_g_S + look.log_p_J
        value = nu.share_S @ (weight_S * log_q_S - weight_of_p_S * look.log_p_J)
        mean = _weighted_mean(weight_S, nu.share_S)
        sd = jnp.sqrt(_weighted_mean((weight_S - mean) ** 2, nu.share_S))
        return value, Report(_weighted_mean(log_y_S, nu.share_S), mean, sd)


@dataclass(frozen=True)
class ChainRule:
    """The gradient grad g(theta)' grad f(y) for any two oracles; a sketch keeps d of the entries that f depends on."""

    def surrogate(
        self, problem: OracleProblem, look: OracleLook, tracked: Tracked, nu: OracleNu
    ) -> tuple[Array, Report]:
        """sum_j w_j g_j with w_j = df/dy_j held constant.

        In log space: sum_j w_j log g_j with w_j = (g_j / y_j) df/dlog y_j held constant.
        """
        y_J = jax.lax.stop_gradient(tracked.y_S)
        value, slope_J = jax.value_and_grad(problem.oracles.outer_mean)(y_J, nu.outer)
        picked = nu.sketch.pick((slope_J != 0).astype(slope_J.dtype), nu.sketch_key)
        slope_S = slope_J[picked.index_S]
        kept_S = jnp.where(slope_S != 0, picked.share_S * slope_S, 0)
        weight_J = jnp.zeros_like(slope_J).at[picked.index_S].set(kept_S)
        if look.log_scale:
            weight_J = weight_J * jnp.exp(look.fresh_J - y_J)
        surrogate = (jax.lax.stop_gradient(weight_J) * look.fresh_J).sum()
        return surrogate, Report(value, jnp.ones(()), jnp.zeros(()))


OBJECTIVES: dict[str, type] = {"log-trick": LogTrick}


def _weighted_mean(values: Float[Array, " S"], share: Float[Array, " S"]) -> Float[Array, ""]:
    """The mean weighted by shares; unweighted if all shares are 0, because the sketch kept no sample that nu drew."""
    weight = jnp.where(share.sum() > 0, share, 1.0)
    return weight @ values / weight.sum()
