"""How draws are judged against the reference of a model, in the model's own unconstrained coordinates.

`moments`: the error of every mean is at most 0.1 sd, and every ratio of standard deviations is within 0.9 to 1.1.

`quantiles`: for models whose standard deviations depend on rare tails (a funnel, Cauchy priors). At LEVELS, the
probability that q gives to values below the reference's quantile is compared with the level. The tolerances are those
of the moment rule for a Gaussian. With Phi and phi the standard normal distribution and density and z the quantile
Phi^-1(level), a shift of 0.1 sd changes the probability by about 0.1 phi(z): 0.040 at the median, 0.033 at the
quartiles and 0.011 at 5 and 95 %. A scale of s changes it by |Phi(z / s) - level|, at most over s in {0.9, 1.1}:
0, 0.023 and 0.017. The larger of the two is the tolerance at each level (`quantile_tolerances`).

A model with symmetric modes (an unordered mixture) is judged in a label-invariant way: every draw is first replaced by
its equivalent in canonical order. Whether the modes are all covered is reported apart (`mode_shares`): the fit is
complete if every symmetric mode has at least half of its share, and only a complete fit should be called good.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro import handlers
from numpyro.infer.util import unconstrain_fn
from scipy.stats import norm

from civi.inference.diagnose.agreement import moment_errors
from fit_case import ModelCase, Sites

LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
MEAN_TOLERANCE, SD_TOLERANCE = 0.1, 0.1
BATCH = 500


def latent_sites(case: ModelCase, draws: Sites) -> list[str]:
    """Names of the model's latent sites, read at the first draw, because improper priors cannot be sampled."""
    known = handlers.substitute(case.model, {name: jnp.asarray(value)[0] for name, value in draws.items()})
    traced = handlers.trace(handlers.seed(known, jax.random.PRNGKey(0))).get_trace(*case.args, **case.kwargs)
    return [name for name, site in traced.items() if site["type"] == "sample" and not site["is_observed"]]


def to_unconstrained(case: ModelCase, draws: Sites) -> tuple[np.ndarray, np.ndarray]:
    """Map constrained draws to vectors.

    NumPyro's own transforms handle sites whose support depends on other sites.

    Args:
        case: the model.
        draws: the draws by name of site, with one leading axis. Sites that are not latent are ignored.

    Returns:
        The canonical draws in the model's unconstrained coordinates, (draw, D) in the order of `ravel_pytree`, and the
        number of the symmetric mode of each draw (draw,).
    """
    sites = {name: jnp.asarray(draws[name]) for name in latent_sites(case, draws)}

    def into_vector(one: Sites) -> tuple[jax.Array, jax.Array]:
        canonical, mode = case.canonical(one) if case.canonical else (one, jnp.asarray(0))
        return ravel_pytree(unconstrain_fn(case.model, case.args, case.kwargs, canonical))[0], mode

    vectors, modes = jax.jit(lambda all_sites: jax.lax.map(into_vector, all_sites, batch_size=BATCH))(sites)
    return np.asarray(vectors, np.float64), np.asarray(modes)


def judged(case: ModelCase, draws: Sites, chains: np.ndarray) -> dict[str, Any]:
    """Judge constrained draws.

    Args:
        case: the model.
        draws: the draws by name of site, with one leading axis.
        chains: reference draws, unconstrained and canonical, (chain, draw, D).

    Returns:
        The errors of both rules, whether the rule of the case is met, and the shares of the symmetric modes.
    """
    vectors, modes = to_unconstrained(case, draws)
    shares = np.bincount(modes, minlength=case.modes) / len(modes)
    return errors(case, vectors, chains) | {"mode_shares": shares.tolist(), "complete": covers(shares)}


def errors(case: ModelCase, vectors: np.ndarray, chains: np.ndarray) -> dict[str, Any]:
    """Errors of unconstrained draws (draw, D) by both rules, and whether they are within by that of the case."""
    reference = chains.reshape(-1, chains.shape[-1])
    found: dict[str, Any] = {"dim": vectors.shape[1], "rule": case.rule}
    if not np.isfinite(vectors).all():
        return found | {"within": False}
    found |= moment_errors(vectors, reference)
    found["quantile_error"] = quantile_error(vectors, reference)
    moments = found["mean_error_max"] <= MEAN_TOLERANCE and (
        1 - SD_TOLERANCE <= found["sd_ratio_min"] <= found["sd_ratio_max"] <= 1 + SD_TOLERANCE
    )
    return found | {"within": bool(moments if case.rule == "moments" else found["quantile_error"] <= 1)}


def quantile_tolerances() -> np.ndarray:
    """The largest change of each probability by a shift of 0.1 sd alone or a scale of 0.9 or 1.1 alone."""
    z = norm.ppf(LEVELS)
    moved = [norm.cdf(z + MEAN_TOLERANCE), norm.cdf(z - MEAN_TOLERANCE)]
    scaled = [norm.cdf(z / (1 - SD_TOLERANCE)), norm.cdf(z / (1 + SD_TOLERANCE))]
    return np.abs(np.stack(moved + scaled) - LEVELS).max(0)


def quantile_error(vectors: np.ndarray, reference: np.ndarray) -> float:
    """The largest |P_q(value below the reference's quantile) - level| over parameters and levels, in tolerances."""
    quantiles = np.quantile(reference, LEVELS, axis=0)
    below = np.stack([(vectors < quantile).mean(0) for quantile in quantiles])
    return float((np.abs(below - LEVELS[:, None]) / quantile_tolerances()[:, None]).max())


def covers(shares: np.ndarray) -> bool:
    """Whether every symmetric mode has at least half of its share."""
    return bool(shares.min() >= 0.5 / len(shares))
