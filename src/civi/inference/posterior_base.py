"""The interface of all posteriors that `civi.fit`, `civi.load` and runs return, and the types of its results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from civi.errors import TargetError
from civi.files import as_path
from civi.inference.arguments import KeyOrSeed
from civi.inference.data_groups import axes_of
from civi.inference.diagnose import Bounds
from civi.inference.diagnose.diagnosis import Diagnosis
from civi.inference.draws import in_space
from civi.inference.labelled import Groups, datasets, tree_of
from civi.inference.load_arviz import import_arviz, inference_data
from civi.inference.loo import Loo
from civi.inference.report.compose import write_report
from civi.inference.report.content import Content
from civi.inference.save import save
from civi.inference.warm_start import WarmStart
from civi.page.elements import tag
from civi.problem.target.space import VectorSpace
from civi.progress import Say, phases, silent

if TYPE_CHECKING:
    from xarray import DataTree

INNER = 20_000
NO_DENSITY = "these are draws of a Markov chain, which have no density: fit with another solver for log_prob and elbo"


class LogProb(NamedTuple):
    """Estimates of log q(z) that are in expectation a lower and an upper bound."""

    lower: np.ndarray
    upper: np.ndarray


class Elbo(NamedTuple):
    """E_q[log p - log q], a lower bound on the log evidence, with its Monte Carlo standard error."""

    value: float
    se: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Posterior(ABC):
    """The result of a fit or a run: draws of the posterior approximation and, if it has one, its density.

    Attributes:
        constrain: maps one unconstrained vector to the parameters of the user, with their names and shapes.
        history: the training history, one array per column (empty for draws of a Markov chain).
        message: how training ended.
        seconds: wall time of the fit.
        phases: seconds of each phase of the fit, by name.

    Example:
        >>> import civi, jax
        >>> from civi.inference.posterior import SemiImplicitPosterior
        >>> family = civi.Architecture().init(2, jax.random.key(0))
        >>> target = civi.LogDensity(lambda z: -0.5 * (z**2).sum(), 2)
        >>> posterior = SemiImplicitPosterior(family=family, target=target)  # untrained: civi.fit trains one
        >>> posterior.sample(1, 100).shape
        (100, 2)
        >>> lower, upper = posterior.log_prob(posterior.sample(1, 100))  # bounds on the mean of log q
        >>> bool(lower.mean() <= upper.mean())
        True
    """

    constrain: Callable[[Array], Any] = field(default_factory=VectorSpace)
    history: dict[str, np.ndarray] = field(default_factory=dict)
    message: str = ""
    seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} of {self.dim} unconstrained parameters", *self._details()]
        return "\n  ".join(line for line in [*lines, self.message] if line)

    def _repr_html_(self) -> str:
        first, *others = repr(self).split("\n")
        return tag("div", tag("strong", first), [tag("div", line) for line in others])

    def _details(self) -> list[str]:
        """Further lines of the representation."""
        return []

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of unconstrained parameters."""

    @abstractmethod
    def sample_unconstrained(self, key: KeyOrSeed, count: int = 4000, *, resample: bool = False) -> np.ndarray:
        """Draw unconstrained vectors.

        Args:
            key: random key, or a whole number as its seed.
            count: number of draws.
            resample: whether to use Pareto-smoothed importance resampling (see `sample`).

        Returns:
            An array of shape (count, dim).
        """

    @abstractmethod
    def diagnose(self, key: KeyOrSeed, *, progress: bool = True) -> Diagnosis:
        """Check how far the posterior can be trusted.

        Args:
            key: random key of the draws that the checks use.
            progress: whether to show what is being done, in a terminal or a notebook.

        Returns:
            For each check its value, a verdict (good, doubtful or bad) and a sentence that explains it.
        """

    @abstractmethod
    def groups(self, key: KeyOrSeed, count: int) -> Groups:
        """Draws and what belongs to them as arrays by group and name, in the schema of ArviZ.

        Args:
            key: random key, or a whole number as its seed.
            count: number of draws.
        """

    def to_datatree(self, key: KeyOrSeed, count: int = 4000) -> DataTree:
        """Convert to an xarray.DataTree with the groups of ArviZ's schema, which ArviZ 1 reads; needs no ArviZ.

        Args:
            key: random key, or a whole number as its seed.
            count: number of draws.

        Returns:
            A tree with the axes chain and draw; draws of an approximation are one chain.
            `civi.inference.data_groups` lists its groups.
        """
        return tree_of(datasets(self.groups(key, count), axes_of(self.constrain)))

    def to_inference_data(self, key: KeyOrSeed, count: int = 4000) -> Any:
        """Convert to InferenceData of ArviZ before version 1, which must be installed.

        Args:
            key: random key, or a whole number as its seed.
            count: number of draws.

        Returns:
            An arviz.InferenceData with the groups of `to_datatree`.
        """
        import_arviz()
        return inference_data(datasets(self.groups(key, count), axes_of(self.constrain)))

    @abstractmethod
    def content(self, key: KeyOrSeed, title: str = "", *, say: Say = silent) -> Content:
        """What the report shows; `report` writes it as a page."""

    def report(self, path: str | Path, *, key: KeyOrSeed = 0, title: str = "", progress: bool = True) -> None:
        """Write a report: one HTML file with the verdict, learning curves, parameters, weights and checks.

        Args:
            path: the file; an existing one is replaced.
            key: random key of the draws that it shows, or a whole number as its seed.
            title: title of the page; by default the name of the model.
            progress: whether to show what is being done.
        """
        with phases("report", progress) as say:
            content = self.content(key, title, say=say)
            say("writing the page")
            write_report(content, as_path(path))

    @abstractmethod
    def draws_to_measure(self, key: KeyOrSeed, count: int) -> np.ndarray:
        """`count` unconstrained draws for comparisons between posteriors, of shape (count, dim)."""

    @abstractmethod
    def bounds(self, key: KeyOrSeed, outer: int, inner: int) -> Bounds | None:
        """Bounds on the negative ELBO from `outer` draws with `inner` inner samples; None if there is no density."""

    @abstractmethod
    def log_density(self, z: Array) -> Array | None:
        """log q at unconstrained points (N, dim) by the plain inner mean; None if there is no density."""

    def sample(self, key: KeyOrSeed, count: int = 4000, *, resample: bool = False) -> Any:
        """Draw from the posterior, in the names, shapes and constrained space of the user's parameters.

        Args:
            key: random key, or a whole number as its seed.
            count: number of draws.
            resample: whether to draw five times as many and then resample them by Pareto-smoothed importance weights.
                This moves the draws closer to the posterior, and is reliable if `diagnose` finds k_hat below 0.7.

        Returns:
            A pytree of NumPy arrays with a leading axis of length `count`.
        """
        return in_space(self.constrain, self.sample_unconstrained(key, count, resample=resample))

    def log_prob(self, z: Float[Array | np.ndarray, "*N D"], *, inner: int = INNER) -> LogProb:
        """Estimate log q, from below and from above in expectation.

        Args:
            z: unconstrained points.
            inner: number of inner samples.
        """
        raise TargetError(NO_DENSITY)

    def elbo(self, key: KeyOrSeed, *, inner: int = INNER, progress: bool = True) -> Elbo:
        """Estimate the evidence lower bound.

        Args:
            key: random key, or a whole number as its seed.
            inner: number of inner samples per draw.
            progress: whether to show what is being done.

        Returns:
            The estimate and its Monte Carlo standard error.
        """
        raise TargetError(NO_DENSITY)

    def refine(
        self,
        key: KeyOrSeed,
        *,
        draws: int = 1000,
        chains: int = 4,
        warmup: int = 100,
        accept: float = 0.9,
        progress: bool = True,
    ) -> Posterior:
        """Run NUTS from draws of q, with the covariance of q as its metric, on all data.

        Args:
            key: random key, or a whole number as its seed.
            draws: number of draws per chain.
            chains: number of chains, which run as one program.
            warmup: number of transitions that adapt the step size and are discarded.
            accept: the acceptance probability that the step size aims at.
            progress: whether to show what is being done.

        Returns:
            A posterior of draws of Markov chains, under the same names; `diagnose` judges them by R-hat, effective
            sample sizes and divergences.
        """
        raise TargetError(f"refine starts from a fitted density: {NO_DENSITY}")

    def warm_start(self, key: KeyOrSeed, chains: int = 4, *, dense: bool = True) -> WarmStart:
        """Start points and metric for NUTS of NumPyro or BlackJAX on the user's own model or log density.

        Args:
            key: random key, or a whole number as its seed.
            chains: number of start points.
            dense: whether the metric is a covariance matrix (up to 300 parameters) or its diagonal.

        Returns:
            init_params, and inverse_mass_matrix in the order of `jax.flatten_util.ravel_pytree`.
        """
        raise TargetError(f"warm_start takes draws of a fitted density: {NO_DENSITY}")

    def loo(self, key: KeyOrSeed, count: int = 4000, *, progress: bool = True) -> Loo:
        """Estimate the expected log predictive density by leave-one-out cross-validation, for a NumPyro model.

        Draws are weighted by p / q, so that an approximation that is slightly off still gives a valid estimate.

        Args:
            key: random key, or a whole number as its seed.
            count: number of draws.
            progress: whether to show what is being done.

        Returns:
            elpd with its standard error, p_loo, and a k_hat for every observation.
        """
        raise TargetError("leave-one-out cross-validation needs a single posterior of a NumPyro model")

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write everything except the target to one file, which `civi.load` reads.

        Args:
            path: the file, by convention with the suffix .civi.
            overwrite: whether to replace an existing file. Without it, an existing file is an error.
        """
        kind, parts = self._saved()
        record = {"history": self.history, "message": self.message, "seconds": self.seconds, "phases": self.phases}
        save(kind, record | parts, self.constrain, self.dim, as_path(path), overwrite=overwrite)

    @abstractmethod
    def _saved(self) -> tuple[str, dict[str, Any]]:
        """The name of this kind of posterior in the file format, and its parts."""
