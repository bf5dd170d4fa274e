"""What a NumPyro model is made of: its sites from one trace, and which rows its plates see."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.infer import init_to_uniform
from numpyro.primitives import Messenger

from civi.errors import TargetError
from civi.problem.target.explain import explain

ModelFunction = Callable[..., Any]


@dataclass(frozen=True)
class Subsample:
    """A plate that sees `seen` of its `size` rows at a time."""

    size: int
    subsample_size: int


@dataclass(frozen=True)
class Sites:
    """Latent sites, which of them are discrete (and can be summed out), observed values, plates that subsample, axes.

    A plate with latent sites of its own always sees all its rows, as there is one parameter for each; so does every
    plate of a model with discrete sites, as the logarithm of a sum over them is not unbiased on a batch.
    """

    latent: list[str]
    discrete: dict[str, bool]
    observed: dict[str, np.ndarray]
    plates: dict[str, Subsample]
    axes: dict[str, list[str]]


class Rows(Messenger):
    """Makes the plates that subsample see the rows of `index`, or all rows where it has none for them.

    NumPyro weighs a plate's sites by size / number of rows seen: 1 for all rows, and an unbiased N/B for B random ones.
    All rows are known when JAX traces the model, so that they can index NumPy arrays. Observed NumPy arrays become
    JAX's, as NumPyro compares the former with traced supports in NumPy.
    """

    def __init__(self, fn: ModelFunction | None = None, index: Mapping[str, Any] | None = None) -> None:
        self.index = index or {}
        self.plates: dict[str, Subsample] = {}
        super().__init__(fn)

    def process_message(self, msg: Any) -> None:
        if msg["type"] == "sample" and isinstance(msg["value"], np.ndarray):
            msg["value"] = jnp.asarray(msg["value"])
        if msg["type"] != "plate":
            return
        size, subsample_size = msg["args"]
        with jax.ensure_compile_time_eval():
            rows = self.index.get(msg["name"], jnp.arange(size))
        if subsample_size not in (None, size):
            self.plates[msg["name"]] = Subsample(size, subsample_size)
        msg["args"], msg["value"] = (size, len(rows)), rows


def sites_of(model: ModelFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sites:
    """Run the model once, on all rows; a model that fails is refused with its reason."""
    trace, plates = _trace(model, args, kwargs)
    samples = {name: site for name, site in trace.items() if site["type"] == "sample"}
    latent = {name: site for name, site in samples.items() if not site["is_observed"]}
    if not latent:
        raise TargetError("the model has no latent sites: there is nothing to infer")
    discrete = {name: site["fn"].has_enumerate_support for name, site in latent.items() if _is_discrete(site)}
    within = {frame.name for site in latent.values() for frame in site["cond_indep_stack"]}
    return Sites(
        list(latent),
        discrete,
        {name: np.asarray(site["value"]) for name, site in samples.items() if _is_data(site)},
        {} if discrete or within & set(plates) else plates,
        {name: _axes(site) for name, site in trace.items() if site["type"] in ("sample", "deterministic")},
    )


def impossible(model: ModelFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Which sites have no finite log density where the model starts."""
    trace, _ = _trace(model, args, kwargs)
    found = []
    for name, site in trace.items():
        if site["type"] == "sample":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                bad = ~np.isfinite(site["fn"].log_prob(site["value"]))
            found += [f"{name} ({int(bad.sum())} of {bad.size} values)"] if bad.any() else []
    return f"not finite at {', '.join(found)}" if found else "its gradient is not finite"


def _trace(
    model: ModelFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Subsample]]:
    """The sites of one run, and the plates that subsample."""
    rows = Rows(handlers.substitute(handlers.seed(model, jax.random.key(0)), substitute_fn=init_to_uniform))
    try:
        with handlers.block():
            return handlers.trace(rows).get_trace(*args, **kwargs), rows.plates
    except Exception as error:
        raise TargetError(f"the model fails: {explain(error)}{hint(rows.plates)}") from error


def _is_discrete(site: Any) -> bool:
    return site["fn"].support.is_discrete


def _is_data(site: Any) -> bool:
    """Observed, and not a `numpyro.factor`."""
    return site["is_observed"] and not site["infer"].get("is_auxiliary", False)


def _axes(site: Any) -> list[str]:
    """A name for each axis of a site's value: its plate's, or the site's own with a number."""
    shape = jnp.shape(site["value"])
    names = [f"{site['name']}_dim_{i}" for i in range(len(shape))]
    events = site["fn"].event_dim if site["type"] == "sample" else len(shape) - len(site["cond_indep_stack"])
    for frame in site["cond_indep_stack"]:
        axis = len(shape) - events + frame.dim
        if 0 <= axis < len(shape) and shape[axis] == frame.size:
            names[axis] = frame.name
    return names


def hint(plates: Mapping[str, Subsample]) -> str:
    """What is behind most failures of a model that subsamples."""
    shown = ", ".join(f"{name} ({plate.subsample_size} of {plate.size})" for name, plate in plates.items())
    return f". Its plate {shown} must index data with all rows: data[rows], or numpyro.subsample" if plates else ""
