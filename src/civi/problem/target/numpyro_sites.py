"""The sites of a NumPyro model, from one trace, and control over the rows that its plates subsample."""

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
    """A plate that subsamples `subsample_size` of its `size` rows."""

    size: int
    subsample_size: int


@dataclass(frozen=True)
class Sites:
    """The sites of a model.

    `discrete` says of each discrete latent site whether it can be summed out. `plates` holds the plates that may
    subsample, and `axes` the names of the axes of every site. A plate that contains latent sites always uses all its
    rows, because each row has its own parameter. So does every plate of a model with discrete sites, because the
    logarithm of a sum over them is biased on a mini-batch.
    """

    latent: list[str]
    discrete: dict[str, bool]
    observed: dict[str, np.ndarray]
    plates: dict[str, Subsample]
    axes: dict[str, list[str]]


class Rows(Messenger):
    """Effect handler that makes each plate use the rows `index[name]`, or all rows if it is not in `index`.

    NumPyro scales the log density of a plate's sites by size / number of rows: 1 for all rows, and an unbiased N/B for
    B random ones. The indices of all rows are compile-time constants, so that they can index NumPy arrays. Observed
    NumPy arrays become JAX arrays, because NumPyro would compare them with traced supports in NumPy.
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
    """Run the model once, on all rows; raises TargetError with the reason if it fails or has no latent sites."""
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
    """Error suffix that lists the sites whose log density is not finite at the initial point."""
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
    """The trace of one run of the model, and the plates that subsample."""
    rows = Rows(handlers.substitute(handlers.seed(model, jax.random.key(0)), substitute_fn=init_to_uniform))
    try:
        with handlers.block():
            return handlers.trace(rows).get_trace(*args, **kwargs), rows.plates
    except Exception as error:
        raise TargetError(f"the model fails: {explain(error)}{hint(rows.plates)}") from error


def _is_discrete(site: Any) -> bool:
    return site["fn"].support.is_discrete


def _is_data(site: Any) -> bool:
    """Whether a site is observed, and not a `numpyro.factor`."""
    return site["is_observed"] and not site["infer"].get("is_auxiliary", False)


def _axes(site: Any) -> list[str]:
    """A name for each axis of a site's value: the name of its plate, or the name of the site with a number."""
    shape = jnp.shape(site["value"])
    names = [f"{site['name']}_dim_{i}" for i in range(len(shape))]
    events = site["fn"].event_dim if site["type"] == "sample" else len(shape) - len(site["cond_indep_stack"])
    for frame in site["cond_indep_stack"]:
        axis = len(shape) - events + frame.dim
        if 0 <= axis < len(shape) and shape[axis] == frame.size:
            names[axis] = frame.name
    return names


def hint(plates: Mapping[str, Subsample]) -> str:
    """Error suffix with the most likely cause of a failure in a model that subsamples; empty for other models."""
    shown = ", ".join(f"{name} ({plate.subsample_size} of {plate.size})" for name, plate in plates.items())
    return f". Its plate {shown} must index the full data: use data[rows], or numpyro.subsample" if plates else ""
