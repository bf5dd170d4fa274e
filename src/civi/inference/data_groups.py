"""The groups of a posterior in the schema of ArviZ, which `to_datatree` and `to_inference_data` convert.

A posterior with a density always has these groups:

- posterior: draws of the parameters, under the user's names;
- sample_stats: lp (log p), log_q_lower and log_q_upper (bounds on log q), and log_weight (normalised, Pareto-smoothed).

A NumPyro model also has observed_data, posterior_predictive and log_likelihood, each with one variable per observed
site. Axes have the names of the plates.
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

from civi.inference.diagnose.divergence import WeightedDraws
from civi.inference.diagnose.importance import smooth_weights
from civi.inference.draws import in_space
from civi.inference.labelled import Groups
from civi.problem.target.numpyro_sites import Rows, started
from civi.problem.target.traced import ModelSpace, Origin


def groups_of_draws(constrain: Callable[[Array], Any], weighted: WeightedDraws, key: PRNGKeyArray) -> Groups:
    """All groups of weighted draws, as one chain.

    Args:
        constrain: maps one unconstrained vector to the user's parameters.
        weighted: unconstrained draws with log p and both bounds on log q.
        key: random key of the posterior predictive draws.
    """
    draws = in_space(constrain, weighted.z)
    stats = {
        "lp": weighted.log_p,
        "log_q_lower": weighted.log_q_plain,
        "log_q_upper": weighted.log_q,
        "log_weight": smooth_weights(weighted.log_p - weighted.log_q).log_weights,
    }
    groups: Groups = {"posterior": named(draws), "sample_stats": stats}
    origin = constrain.origin if isinstance(constrain, ModelSpace) else None
    if origin is not None:
        groups |= _of_model(origin, draws, key)
    chains = {
        group: {name: np.asarray(value)[None] for name, value in items.items()} for group, items in groups.items()
    }
    if origin is not None and origin.sites.observed:
        chains["observed_data"] = observed_values(origin)
    return chains


def named(draws: Any) -> dict[str, Any]:
    """The arrays of a pytree of draws by name; a bare array is called z, and nested names are joined by dots."""
    leaves = jax.tree_util.tree_leaves_with_path(draws)
    return {jax.tree_util.keystr(path, simple=True, separator=".") or "z": leaf for path, leaf in leaves}


def axes_of(constrain: Callable[[Array], Any]) -> dict[str, list[str]]:
    """Names of the axes of every site of a NumPyro model; empty for a log density."""
    origin = constrain.origin if isinstance(constrain, ModelSpace) else None
    return {} if origin is None else origin.sites.axes


def _of_model(origin: Origin, draws: dict[str, Any], key: PRNGKeyArray) -> Groups:
    """Posterior predictive draws of the observed sites, and the log likelihood of each observed value.

    If discrete sites are summed out, the posterior predictive draws sample them anew. There is then no log_likelihood
    group, because NumPyro cannot compute the likelihood of a single value with discrete sites summed out.
    """
    observed = origin.sites.observed
    if not observed:
        return {}
    latent = {name: draws[name] for name in origin.sites.latent if name in draws}
    new = Predictive(Unobserved(Rows(origin.model)), latent, return_sites=list(observed))
    groups: Groups = {"posterior_predictive": new(key, *origin.args, **origin.kwargs)}
    if not origin.sites.discrete:
        seeded = Rows(handlers.seed(origin.model, jax.random.key(0)))
        values = log_likelihood(seeded, latent, *origin.args, **origin.kwargs)
        groups["log_likelihood"] = {name: values[name] for name in observed}
    return groups


def observed_values(origin: Origin) -> dict[str, np.ndarray]:
    """The data of each observed site, which the model may have computed from its arguments."""

    def values() -> dict[str, Array]:
        trace, _ = started(origin.model, origin.args, origin.kwargs)
        return {name: jnp.asarray(trace[name]["value"]) for name in origin.sites.observed}

    return {name: np.asarray(value) for name, value in jax.jit(values)().items()}


class Unobserved(Messenger):
    """Effect handler that samples the observed sites, in the shape of the data. `numpyro.factor` is kept as it is."""

    def process_message(self, msg: Any) -> None:
        if msg["type"] != "sample" or not msg["is_observed"] or msg["infer"].get("is_auxiliary", False):
            return
        shape = jnp.shape(msg["value"])
        batch = shape[: len(shape) - msg["fn"].event_dim]
        msg["fn"] = msg["fn"].expand(jnp.broadcast_shapes(batch, msg["fn"].batch_shape))
        msg["value"], msg["is_observed"] = None, False
