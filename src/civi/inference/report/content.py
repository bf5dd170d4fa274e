"""What a report shows, as plain numbers and texts. It can be saved, so that the page can be made again later."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np

import civi
from civi.inference.diagnose.trust import Finding, Mode
from civi.inference.loo import Loo
from civi.inference.run_curve import RunCurve

LIBRARIES = ("jax", "jaxlib", "numpyro", "equinox", "optax", "numpy")
Arrays = dict[str, np.ndarray]


class Plane(NamedTuple):
    """Densities on a grid of two coordinates: p is the target, q the fit (None if it has no density).

    Attributes:
        x: first and last coordinate of the columns.
        y: first and last coordinate of the rows.
        p: the density of the target, (row, column).
        q: the density of the fit.
    """

    x: tuple[float, float]
    y: tuple[float, float]
    p: np.ndarray
    q: np.ndarray | None


@dataclass(frozen=True, kw_only=True)
class Content:
    """The content of the report of one posterior. What is not known is empty or None.

    Attributes:
        title: title of the page.
        solver: name of the solver.
        message: how training ended.
        headline: the most important result, in a sentence.
        findings: the results of the checks.
        modes: the regions that the pilot found.
        measures: further results, by name.
        elbo: the ELBO and its Monte Carlo standard error.
        objective: what is minimised, as the title of an axis.
        training_note: a sentence about the learning curves; empty if there is nothing special to say.
        runs: the learning curve of each run.
        names: names of the parameters.
        draws: draws of q, (draw, parameter).
        log_ratios: log p - log q of these draws.
        effective_size: effective sample size of each parameter, for draws of Markov chains.
        reference: reference draws, (draw, parameter).
        reference_name: where these come from.
        plane: densities of a target with two parameters.
        latents: draws of the posteriors of single data points, (datum, draw, dim).
        observed: the data of each observed site.
        predictive: posterior predictive draws of each observed site, with the draws as the leading axis.
        loo: leave-one-out cross-validation.
        too_many: number of observations, if there are too many for leave-one-out cross-validation; 0 otherwise.
        phases: seconds of each phase.
        settings: names and values of the settings.
        versions: versions of civi and of the libraries.
        fingerprints: checksums of the data.
        code: Python code that loads the posterior again.
    """

    title: str
    solver: str = "civi"
    message: str = ""
    headline: str = ""
    findings: list[Finding] = field(default_factory=list)
    modes: list[Mode] = field(default_factory=list)
    measures: dict[str, Any] = field(default_factory=dict)
    elbo: tuple[float, float] | None = None
    objective: str = "negative ELBO (nats)"
    training_note: str = ""
    runs: list[RunCurve] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    draws: np.ndarray | None = None
    log_ratios: np.ndarray | None = None
    effective_size: np.ndarray | None = None
    reference: np.ndarray | None = None
    reference_name: str = "NUTS"
    plane: Plane | None = None
    latents: np.ndarray | None = None
    observed: Arrays = field(default_factory=dict)
    predictive: Arrays = field(default_factory=dict)
    loo: Loo | None = None
    too_many: int = 0
    phases: dict[str, float] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)
    code: str = ""


def versions() -> dict[str, str]:
    """The versions of civi, Python and the libraries that compute."""
    found = {"civi": civi.__version__, "Python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found | {"system": f"{platform.system()} {platform.machine()}"}


def fingerprint(array: Any) -> str:
    """The shape of an array and the beginning of the SHA-256 of its type, shape and numbers."""
    values = np.ascontiguousarray(array)
    content = f"{values.dtype.str}{values.shape}".encode() + values.tobytes()
    return f"{values.shape} {values.dtype}, sha256 {hashlib.sha256(content).hexdigest()[:16]}"


def fingerprints(data: Any) -> dict[str, str]:
    """The fingerprints of all arrays of a named tuple or dataclass by name, also of those inside of its parts."""
    found: dict[str, str] = {}
    for name, value in (data._asdict() if hasattr(data, "_asdict") else vars(data)).items():
        if isinstance(value, np.ndarray) and value.size:
            found[name] = fingerprint(value)
        elif hasattr(value, "_asdict"):
            found |= {f"{name}.{part}": text for part, text in fingerprints(value).items()}
    return found


def flattened(values: Mapping[str, np.ndarray], lead: int = 1) -> tuple[list[str], np.ndarray]:
    """Names such as theta[3] and the columns (draw, parameter) of variables by name.

    Args:
        values: variables, with `lead` axes for chains and draws in front, which are joined.
        lead: number of these axes.
    """
    names: list[str] = []
    columns: list[np.ndarray] = []
    for name, value in values.items():
        array = np.asarray(value)
        shape = array.shape[lead:]
        columns.append(array.reshape(int(np.prod(array.shape[:lead])), -1).astype(np.float64))
        names += [name + "".join(f"[{i}]" for i in index) for index in np.ndindex(*shape)]
    return names, np.concatenate(columns, axis=1) if columns else np.zeros((0, 0))
