"""The sites of a NumPyro model, from one trace, and control over the rows that its plates subsample."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions import biject_to, constraints
from numpyro.infer import init_to_uniform
from numpyro.infer.util import helpful_support_errors
from numpyro.primitives import Messenger
from numpyro.util import _validate_model

from civi.errors import TargetError
from civi.problem.target.centring import REPARAMETERISED, is_location_scale
from civi.problem.target.explain import GIVE_DIM, explain
from civi.problem.target.program import on_device
from civi.tables.rows import given_rows

ModelFunction = Callable[..., Any]
_one_thread = threading.RLock()


@dataclass(frozen=True)
class Subsample:
    """A plate that subsamples `subsample_size` of its `size` rows."""

    size: int
    subsample_size: int


@dataclass(frozen=True)
class Sites:
    """The sites of a model.

    Attributes:
        latent: names of the sites to infer.
        discrete: of each discrete latent site, whether it can be summed out.
        observed: names of the sites with data.
        plates: the plates that may subsample. A plate that contains latent sites always uses all its rows, because each
            row has its own parameter. So does every plate of a model with discrete sites, because the logarithm of a
            sum over them is biased on a mini-batch.
        axes: names of the axes of every site.
        deterministic: names of the deterministic sites.
        unconstrained: shape of the unconstrained value of each continuous latent site.
        values: shape of the value of each discrete latent site.
        nesting: the largest number of nested plates.
        location_scale: names of the latent sites that could have a degree of centring.
    """

    latent: list[str]
    discrete: dict[str, bool]
    observed: list[str]
    plates: dict[str, Subsample]
    axes: dict[str, list[str]]
    deterministic: list[str]
    unconstrained: dict[str, Any]
    values: dict[str, Any]
    nesting: int
    location_scale: list[str]


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
        if msg["type"] == "sample" and isinstance(msg["value"], np.ndarray | list | tuple):
            msg["value"] = jnp.asarray(np.asarray(msg["value"]))
        if msg["type"] != "plate":
            return
        size, subsample_size = msg["args"]
        with jax.ensure_compile_time_eval():
            count = given_rows(size) or size
            rows = self.index.get(msg["name"], on_device(np.arange(count)))
        if subsample_size not in (None, size):
            self.plates[msg["name"]] = Subsample(size, subsample_size)
        msg["args"], msg["value"] = (size, len(rows)), rows


def sites_of(model: ModelFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sites:
    """Trace the model once, on all rows; raises TargetError with the reason if it fails or has no latent sites.

    The model runs on abstract values, so nothing is computed or compiled.
    """
    found: list[Sites] = []

    def run() -> None:
        trace, plates = started(model, args, kwargs)
        found.append(_read(trace, plates))

    with explained({}):
        jax.eval_shape(run)
    return found[0]


def started(
    model: ModelFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Subsample]]:
    """The trace of one run of the model at a random start, and the plates that subsample."""
    rows = Rows(handlers.substitute(handlers.seed(model, jax.random.key(0)), substitute_fn=init_to_uniform))
    with explained(rows.plates), handlers.block():
        return handlers.trace(rows).get_trace(*args, **kwargs), rows.plates


@contextmanager
def explained(plates: Mapping[str, Subsample]) -> Iterator[None]:
    """Run a model with light validation, and turn its errors into TargetErrors."""
    try:
        with light_validation():
            yield
    except TargetError:
        raise
    except Exception as error:
        raise TargetError(f"the model fails: {explain(error)}{hint(plates)}") from error


@contextmanager
def light_validation() -> Iterator[None]:
    """Check only those parameters of distributions that NumPy can check.

    NumPyro's own check computes with the known parameters in JAX, for which it compiles programs. The checks of values
    against supports stay, because they make the log density -inf outside of a support. Threads wait for each other,
    because NumPyro's stack of effect handlers is shared by all threads.
    """
    with _one_thread:
        full_check = dist.Distribution.validate_args
        dist.Distribution.validate_args = _check_numbers
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "(Site .*)?Out-of-support values")
                yield
        finally:
            dist.Distribution.validate_args = full_check


def _check_numbers(self: dist.Distribution, strict: bool = True) -> None:
    for name, value in self.get_args().items():
        constraint = self.arg_constraints[name]
        if (
            constraints.is_dependent(constraint)
            or constraint.event_dim
            or not isinstance(value, float | int | np.ndarray)
        ):
            continue
        is_valid = constraint(value)
        if isinstance(is_valid, bool | np.bool_ | np.ndarray) and not np.all(is_valid):
            raise ValueError(f"{type(self).__name__} distribution got invalid {name} parameter.")


def _read(trace: dict[str, Any], plates: dict[str, Subsample]) -> Sites:
    """What is known of the sites without their values."""
    samples = {name: site for name, site in trace.items() if site["type"] == "sample"}
    latent = {name: site for name, site in samples.items() if not site["is_observed"]}
    if not latent:
        raise TargetError(f"the model has no latent sites: there is nothing to infer{GIVE_DIM}")
    discrete = {name: site["fn"].has_enumerate_support for name, site in latent.items() if _is_discrete(site)}
    within = {frame.name for site in latent.values() for frame in site["cond_indep_stack"]}
    _check_latent(trace, latent, "error" if discrete else "loose")
    return Sites(
        latent=list(latent),
        discrete=discrete,
        observed=[name for name, site in samples.items() if _is_data(site)],
        plates={} if discrete or within & set(plates) else plates,
        axes={name: _axes(site) for name, site in trace.items() if site["type"] in ("sample", "deterministic")},
        deterministic=[name for name, site in trace.items() if site["type"] == "deterministic"],
        unconstrained={name: _unconstrained(site) for name, site in latent.items() if name not in discrete},
        values={name: _abstract(site["value"]) for name, site in latent.items() if name in discrete},
        nesting=max((-frame.dim for site in samples.values() for frame in site["cond_indep_stack"]), default=0),
        location_scale=[] if discrete else _location_scale(trace, latent),
    )


def _location_scale(trace: dict[str, Any], latent: dict[str, Any]) -> list[str]:
    """The location-scale sites, without those that come from a reparameterisation in the model itself."""
    made = {
        f"{name}_{ending}" for name in trace for ending in REPARAMETERISED if trace[name]["type"] == "deterministic"
    }
    return [name for name, site in latent.items() if name not in made and is_location_scale(site)]


def _check_latent(trace: dict[str, Any], latent: dict[str, Any], missing_plate: str) -> None:
    for name, site in latent.items():
        if isinstance(site["fn"], dist.Delta):
            raise TargetError(f"the latent site {name} has a delta distribution: use numpyro.deterministic instead")
    _validate_model(trace, plate_warning=missing_plate)


def _unconstrained(site: Any) -> Any:
    """Shape of the unconstrained value."""
    try:
        with helpful_support_errors(site):
            return _abstract(biject_to(site["fn"].support).inv(site["value"]))
    except Exception as error:
        raise TargetError(f"the model fails at the site {site['name']}: {explain(error)}") from error


def _abstract(value: Any) -> Any:
    return jax.ShapeDtypeStruct(jnp.shape(value), jnp.result_type(value))


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
