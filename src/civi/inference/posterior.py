"""What `civi.fit` returns: draws, density and evidence of the fitted posterior, and how far to trust them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from rich.table import Table

from civi.errors import TargetError
from civi.estimate import log_density, mix_own
from civi.family import Amortised, Conditioned, SemiImplicit
from civi.inference.diagnose import Bounds, log_q, neg_elbo_bounds
from civi.inference.diagnose.divergence import Weighed, weigh
from civi.inference.diagnose.importance import resample as resampled
from civi.inference.diagnose.importance import smooth
from civi.inference.diagnose.trust import Finding, Seen, chain_findings, findings, verdict
from civi.inference.inference_data import inference_data
from civi.inference.load_arviz import import_arviz
from civi.inference.nuts import Reference
from civi.inference.pilot.base import Guesses
from civi.inference.save import save
from civi.problem.autoencoder import Decoder
from civi.problem.target import Framed, Target, inward, log_volume, outward, unframed
from civi.problem.target.space import VectorSpace

INNER, CANDIDATES = 20_000, 2000
DRAWS, SETS = 4000, 5
NO_DENSITY = "these are draws of a Markov chain, which have no density: fit with another solver for log_prob and elbo"
PER_DATUM = "this posterior is amortised, one for every datum: call given(x) with your data first"


class LogProb(NamedTuple):
    """log q(z) from below and from above, in expectation."""

    lower: np.ndarray
    upper: np.ndarray


class Elbo(NamedTuple):
    """E_q[log p - log q], a lower bound on the log evidence, with its standard error."""

    value: float
    se: float


@dataclass(frozen=True)
class Diagnosis:
    """All findings and the worst verdict among them; prints as a table."""

    findings: list[Finding]

    @property
    def verdict(self) -> str:
        """good, doubtful or bad."""
        return verdict(self.findings)

    def __rich__(self) -> Table:
        table = Table("check", "value", "verdict", "what it means", title=f"the fit is {self.verdict}")
        for finding in self.findings:
            table.add_row(finding.name, f"{finding.value:.3g}", finding.verdict, finding.sentence)
        return table

    def __str__(self) -> str:
        lines = [f"{f.name}: {f.value:.3g} ({f.verdict}). {f.sentence}" for f in self.findings]
        return "\n".join([f"the fit is {self.verdict}", *lines])


@dataclass(frozen=True, kw_only=True)
class Posterior(ABC):
    """The result of a fit or a run: draws and, where there is one, the density of the posterior approximation.

    `constrain` maps one unconstrained vector to the user's own names, shapes and space. `history` has an array per
    column of the training history (empty for draws of a Markov chain).
    """

    constrain: Callable[[Array], Any] = field(default_factory=VectorSpace)
    history: dict[str, np.ndarray] = field(default_factory=dict)
    message: str = ""
    seconds: float = 0.0

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of unconstrained parameters."""

    @abstractmethod
    def sample_unconstrained(self, key: PRNGKeyArray, count: int = 4000, *, resample: bool = False) -> np.ndarray:
        """Draws as vectors in R^dim."""

    @abstractmethod
    def diagnose(self, key: PRNGKeyArray) -> Diagnosis:
        """Every check with its value, a verdict and a plain sentence."""

    @abstractmethod
    def to_inference_data(self, key: PRNGKeyArray, count: int = 4000) -> Any:
        """ArviZ InferenceData."""

    @abstractmethod
    def draws_to_measure(self, key: PRNGKeyArray, count: int) -> np.ndarray:
        """`count` unconstrained draws that represent the posterior, for comparisons."""

    @abstractmethod
    def bounds(self, key: PRNGKeyArray, outer: int, inner: int) -> Bounds | None:
        """Bounds on the negative ELBO; None where there is no density."""

    @abstractmethod
    def log_density(self, z: Array) -> Array | None:
        """log q at unconstrained points by the plain mean; None where there is no density."""

    def sample(self, key: PRNGKeyArray, count: int = 4000, *, resample: bool = False) -> Any:
        """Draws in the user's own names, shapes and space, with one leading axis.

        With `resample`, Pareto-smoothed importance resampling from five times as many draws: closer to the posterior
        where `diagnose` finds k_hat below 0.7.
        """
        return jax.vmap(self.constrain)(jnp.asarray(self.sample_unconstrained(key, count, resample=resample)))

    def log_prob(self, z: Float[Array | np.ndarray, "N D"], *, inner: int = INNER) -> LogProb:
        """log q at unconstrained points, from below and from above."""
        raise TargetError(NO_DENSITY)

    def elbo(self, key: PRNGKeyArray, *, inner: int = INNER) -> Elbo:
        """The evidence lower bound with its standard error."""
        raise TargetError(NO_DENSITY)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write everything except the target to one file, for `civi.load`.

        Args:
            path: the file, by convention with the suffix .civi.
            overwrite: whether to replace an existing file, which is an error otherwise.
        """
        kind, parts = self._saved()
        record = {"history": self.history, "message": self.message, "seconds": self.seconds}
        save(kind, record | parts, self.constrain, self.dim, Path(path), overwrite=overwrite)

    @abstractmethod
    def _saved(self) -> tuple[str, dict[str, Any]]:
        """The name of this kind of posterior in a file, and its parts."""


@dataclass(frozen=True, kw_only=True)
class SemiImplicitPosterior(Posterior):
    """A fitted semi-implicit (or explicit) posterior.

    `family` is q in the frame of the pilot, if there was one, and `seen` the target in that frame. `r_hat` is the
    largest over all parameters between independent runs (None for one run), `converged` whether training had stopped
    gaining (None where that was not tested), and `guesses` what the pilot found from each of its starts.
    """

    family: SemiImplicit
    seen: Target
    guesses: Guesses | None = None
    converged: bool | None = None
    r_hat: float | None = None

    @property
    def dim(self) -> int:
        return self.seen.dim

    def sample_unconstrained(self, key: PRNGKeyArray, count: int = 4000, *, resample: bool = False) -> np.ndarray:
        if not resample:
            return np.asarray(outward(self.seen, self.family.sample(key, count)))
        draw_key, pick_key = jax.random.split(key)
        drawn = self._weighed(draw_key, 5 * count)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(pick_key)).tolist())
        return resampled(drawn.z, smooth(drawn.log_p - drawn.log_q), count, rng)

    def draws_to_measure(self, key: PRNGKeyArray, count: int) -> np.ndarray:
        return self.sample_unconstrained(key, count)

    def bounds(self, key: PRNGKeyArray, outer: int, inner: int) -> Bounds | None:
        return neg_elbo_bounds(self.family, self.seen, key, outer, inner)

    def log_density(self, z: Array) -> Array | None:
        return log_q(self.family, self.seen, z)

    def log_prob(self, z: Float[Array | np.ndarray, "N D"], *, inner: int = INNER) -> LogProb:
        """log q at unconstrained points: the plain mean, and the mean with an eps that could have made z.

        That eps is drawn from its posterior given z, by choice among CANDIDATES others.
        """
        w = inward(self.seen, jnp.atleast_2d(jnp.asarray(z, float)))
        lower, upper = _log_prob(self.family, w, jax.random.key(0), inner)
        volume = log_volume(self.seen)
        return LogProb(np.asarray(lower) - volume, np.asarray(upper) - volume)

    def elbo(self, key: PRNGKeyArray, *, inner: int = INNER) -> Elbo:
        """The evidence lower bound, with q's density from above so that it stays one."""
        bounds = neg_elbo_bounds(self.family, self.seen, key, outer=4000, inner=inner)
        return Elbo(-bounds.upper, bounds.upper_se)

    def diagnose(self, key: PRNGKeyArray) -> Diagnosis:
        sets = [self._weighed(jax.random.fold_in(key, i), DRAWS) for i in range(SETS)]
        drawn, fewer = sets[0], self._weighed(jax.random.fold_in(key, 0), DRAWS, inner=INNER // 20)
        seen = Seen(
            draws=drawn.z.astype(np.float64),
            log_ratios=drawn.log_p - drawn.log_q,
            k_hats=np.array([smooth(one.log_p - one.log_q).k_hat for one in sets]),
            log_q=drawn.log_q,
            log_q_fewer=fewer.log_q,
            log_q_plain=drawn.log_q_plain,
            at_guesses=None if self.guesses is None else self._log_ratios_at(self.guesses.draws),
            elbo_of_guesses=None if self.guesses is None else self.guesses.elbo,
            r_hat=self.r_hat,
            converged=self.converged,
        )
        return Diagnosis(findings(seen))

    def to_inference_data(self, key: PRNGKeyArray, count: int = 4000) -> Any:
        """ArviZ InferenceData; `civi.inference.inference_data` says what is in its groups."""
        target, weighed = unframed(self.seen), self._weighed(key, count)
        return inference_data(target, self.constrain, weighed, jax.random.fold_in(key, 1))

    def _saved(self) -> tuple[str, dict[str, Any]]:
        framed = self.seen if isinstance(self.seen, Framed) else None
        parts = {name: getattr(self, name) for name in ("family", "guesses", "converged", "r_hat", "dim")}
        parts |= {name: getattr(framed, name, None) for name in ("frame", "log_p", "slope")}
        return "semi-implicit", parts

    def _weighed(self, key: PRNGKeyArray, count: int, inner: int = INNER) -> Weighed:
        """Unconstrained draws with log p(x, z) and both bounds on log q(z), in float64."""
        drawn = weigh(self.family, self.seen, key, count, inner)
        volume = log_volume(self.seen)
        logs = (np.asarray(values, np.float64) - volume for values in drawn[1:])
        return Weighed(np.asarray(outward(self.seen, drawn.z)), *logs)

    def _log_ratios_at(self, draws: np.ndarray) -> np.ndarray:
        z = draws.reshape(-1, self.dim)
        log_p = np.asarray(jax.vmap(unframed(self.seen).log_prob)(jnp.asarray(z, float)))
        return (log_p - self.log_prob(z).upper).reshape(draws.shape[:2])


@dataclass(frozen=True, kw_only=True)
class SampledPosterior(Posterior):
    """Draws of a Markov chain (NUTS): no density, but R-hat and effective sizes."""

    reference: Reference

    @property
    def dim(self) -> int:
        return self.reference.draws.shape[-1]

    def sample_unconstrained(self, key: PRNGKeyArray, count: int = 4000, *, resample: bool = False) -> np.ndarray:
        """A random selection of the stored draws."""
        pooled = self.reference.draws.reshape(-1, self.dim)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())
        return pooled[rng.choice(len(pooled), count, replace=count > len(pooled))]

    def draws_to_measure(self, key: PRNGKeyArray, count: int) -> np.ndarray:
        return self.reference.pooled(count)

    def bounds(self, key: PRNGKeyArray, outer: int, inner: int) -> Bounds | None:
        return None

    def log_density(self, z: Array) -> Array | None:
        return None

    def diagnose(self, key: PRNGKeyArray) -> Diagnosis:
        return Diagnosis(chain_findings(self.reference))

    def to_inference_data(self, key: PRNGKeyArray, count: int = 4000) -> Any:
        """All stored chains, in the user's names and space."""
        draws = jax.vmap(jax.vmap(self.constrain))(jnp.asarray(self.reference.draws))
        named = draws if isinstance(draws, dict) else {"z": draws}
        return import_arviz().from_dict(posterior={name: np.asarray(value) for name, value in named.items()})

    def chain_measures(self) -> dict[str, Any]:
        """Largest R-hat, smallest effective size, and number of divergent transitions."""
        reference = self.reference
        size = float(reference.effective_size.min())
        return {"r_hat": float(reference.r_hat.max()), "effective_size": size, "divergences": reference.divergences}

    def _saved(self) -> tuple[str, dict[str, Any]]:
        return "sampled", {"reference": self.reference}


@dataclass(frozen=True, kw_only=True)
class AmortisedPosterior(Posterior):
    """The encoder and decoder of an autoencoder: a posterior for every datum, after `given(x)`."""

    family: Amortised
    decoder: Decoder
    latent_dim: int

    @property
    def dim(self) -> int:
        return self.latent_dim

    def given(self, x: Any) -> Conditioned:
        """q(z | x) of these data: its `sample(key, count)` draws z of every datum in turn."""
        return self.family.given(x)

    def sample_unconstrained(self, key: PRNGKeyArray, count: int = 4000, *, resample: bool = False) -> np.ndarray:
        raise TargetError(PER_DATUM)

    def draws_to_measure(self, key: PRNGKeyArray, count: int) -> np.ndarray:
        raise TargetError(PER_DATUM)

    def log_prob(self, z: Float[Array | np.ndarray, "N D"], *, inner: int = INNER) -> LogProb:
        raise TargetError(PER_DATUM)

    def elbo(self, key: PRNGKeyArray, *, inner: int = INNER) -> Elbo:
        raise TargetError(PER_DATUM)

    def bounds(self, key: PRNGKeyArray, outer: int, inner: int) -> Bounds | None:
        return None

    def log_density(self, z: Array) -> Array | None:
        return None

    def diagnose(self, key: PRNGKeyArray) -> Diagnosis:
        raise TargetError(PER_DATUM)

    def to_inference_data(self, key: PRNGKeyArray, count: int = 4000) -> Any:
        raise TargetError(PER_DATUM)

    def _saved(self) -> tuple[str, dict[str, Any]]:
        return "amortised", {"family": self.family, "decoder": self.decoder, "latent_dim": self.latent_dim}


@eqx.filter_jit
def _log_prob(family: SemiImplicit, w_J: Array, key: PRNGKeyArray, inner: int) -> tuple[Array, Array]:
    plain_key, own_key, pick_key = jax.random.split(key, 3)
    lower_J = log_density(family, w_J, plain_key, inner)
    eps_K = family.noise.sample(own_key, CANDIDATES)
    pairs_JK = family.conditional.log_prob_pairs(family.mix(eps_K), w_J)
    chosen_J = jax.random.categorical(pick_key, pairs_JK, axis=1)
    own_J = jnp.take_along_axis(pairs_JK, chosen_J[:, None], axis=1)[:, 0]
    return lower_J, mix_own(lower_J, own_J, jnp.asarray(1 / (inner + 1)))
