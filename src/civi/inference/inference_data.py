"""A posterior as ArviZ InferenceData, so that az.summary, az.plot_*, az.loo and az.compare work on it.

Always: posterior, in the user's names, and sample_stats: lp (log p), log_q_lower and log_q_upper (bounds on log q), and
log_weight (Pareto-smoothed, normalised). For a NumPyro model also observed_data, posterior_predictive and
log_likelihood, each by observed site; axes carry the names of the plates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray
from numpyro import handlers
from numpyro.infer import Predictive, log_likelihood
from numpyro.primitives import Messenger

from civi.inference.diagnose.divergence import Weighed
from civi.inference.diagnose.importance import smooth
from civi.inference.load_arviz import import_arviz
from civi.problem.target.numpyro_model import NumPyroTarget, Traced
from civi.problem.target.numpyro_sites import Rows

Groups = dict[str, dict[str, Any]]


def inference_data(target: Any, constrain: Callable[[Array], Any], weighed: Weighed, key: PRNGKeyArray) -> Any:
    """All groups, from draws of q with log p and both bounds on log q there, as one chain."""
    draws = jax.vmap(constrain)(jnp.asarray(weighed.z))
    stats = {
        "lp": weighed.log_p,
        "log_q_lower": weighed.log_q_plain,
        "log_q_upper": weighed.log_q,
        "log_weight": smooth(weighed.log_p - weighed.log_q).log_weights,
    }
    groups: Groups = {"posterior": draws if isinstance(draws, dict) else {"z": draws}, "sample_stats": stats}
    axes: dict[str, list[str]] = {}
    if isinstance(target, NumPyroTarget):
        axes = target.traced.sites.axes
        groups |= _of_model(target.traced, draws, key)
    chains = {
        group: {name: np.asarray(value)[None] for name, value in items.items()} for group, items in groups.items()
    }
    if isinstance(target, NumPyroTarget) and target.traced.sites.observed:
        chains["observed_data"] = target.traced.sites.observed
    return import_arviz().from_dict(**chains, dims=_dims(axes, chains))


def _dims(axes: dict[str, list[str]], chains: Groups) -> dict[str, list[str]]:
    """Names of axes for the variables there are."""
    present = {name for items in chains.values() for name in items}
    return {name: names for name, names in axes.items() if name in present}


def _of_model(traced: Traced, draws: dict[str, Any], key: PRNGKeyArray) -> Groups:
    """Draws of the observed sites, and the log likelihood of each observed value.

    Where discrete sites are summed out, new data are drawn with new discrete sites, and there is no log likelihood:
    that of one value given the continuous sites alone is not in NumPyro.
    """
    observed = traced.sites.observed
    if not observed:
        return {}
    latent = {name: draws[name] for name in traced.sites.latent if name in draws}
    new = Predictive(Unobserved(Rows(traced.model)), latent, return_sites=list(observed))
    groups: Groups = {"posterior_predictive": new(key, *traced.args, **traced.kwargs)}
    if not traced.sites.discrete:
        seeded = Rows(handlers.seed(traced.model, jax.random.key(0)))
        values = log_likelihood(seeded, latent, *traced.args, **traced.kwargs)
        groups["log_likelihood"] = {name: values[name] for name in observed}
    return groups


class Unobserved(Messenger):
    """Draws the sites that were observed, in the shape of the data; `numpyro.factor` stays."""

    def process_message(self, msg: Any) -> None:
        if msg["type"] != "sample" or not msg["is_observed"] or msg["infer"].get("is_auxiliary", False):
            return
        shape = jnp.shape(msg["value"])
        batch = shape[: len(shape) - msg["fn"].event_dim]
        msg["fn"] = msg["fn"].expand(jnp.broadcast_shapes(batch, msg["fn"].batch_shape))
        msg["value"], msg["is_observed"] = None, False
