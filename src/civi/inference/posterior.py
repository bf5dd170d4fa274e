"""What `civi.fit` returns: draws, density and evidence of the fitted posterior, and how far to trust them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from rich.table import Table

from civi.estimate import log_density, mix_own
from civi.family import SemiImplicit
from civi.inference.diagnose import neg_elbo_bounds
from civi.inference.diagnose.divergence import Weighed, weigh
from civi.inference.diagnose.importance import resample as resampled
from civi.inference.diagnose.importance import smooth
from civi.inference.diagnose.trust import Finding, Seen, findings, verdict
from civi.problem.target import Framed

INNER, CANDIDATES = 20_000, 2000
DRAWS, SETS = 4000, 5


class LogProb(NamedTuple):
    """log q(z) from below and from above, in expectation."""

    lower: np.ndarray
    upper: np.ndarray


class Guesses(NamedTuple):
    """Draws of the Gaussian that each start of the pilot ended with (start, draw, dim), and its ELBO."""

    draws: np.ndarray
    elbo: np.ndarray


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


@dataclass(frozen=True)
class Posterior:
    """A fitted semi-implicit posterior.

    `family` is q in the pilot's frame and `seen` the target in that frame; `constrain` maps one unconstrained vector to
    the user's own names, shapes and space. `r_hat` is the largest over all parameters between independent runs.
    """

    family: SemiImplicit
    seen: Framed
    constrain: Callable[[Array], Any]
    guesses: Guesses
    history: dict[str, np.ndarray]
    converged: bool
    message: str
    seconds: float
    r_hat: float = float("nan")

    @property
    def dim(self) -> int:
        """Number of unconstrained parameters."""
        return self.seen.dim

    def sample(self, key: PRNGKeyArray, count: int = 4000, *, resample: bool = False) -> Any:
        """Draws in the user's own names, shapes and space; one leading axis.

        With `resample`, Pareto-smoothed importance resampling from five times as many draws: closer to the posterior
        where `diagnose` finds k_hat below 0.7.
        """
        return jax.vmap(self.constrain)(jnp.asarray(self.sample_unconstrained(key, count, resample=resample)))

    def sample_unconstrained(self, key: PRNGKeyArray, count: int = 4000, *, resample: bool = False) -> np.ndarray:
        """Draws as vectors in R^dim."""
        if not resample:
            return np.asarray(self.seen.frame.outward(self.family.sample(key, count)))
        draw_key, pick_key = jax.random.split(key)
        drawn = self._weighed(draw_key, 5 * count)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(pick_key)).tolist())
        return resampled(drawn.z, smooth(drawn.log_p - drawn.log_q), count, rng)

    def log_prob(self, z: Float[Array | np.ndarray, "N D"], *, inner: int = INNER) -> LogProb:
        """log q at unconstrained points: the plain mean, and the mean with an eps that could have made z.

        That eps is drawn from its posterior given z, by choice among CANDIDATES others.
        """
        w = self.seen.frame.inward(jnp.atleast_2d(jnp.asarray(z, float)))
        lower, upper = _log_prob(self.family, w, jax.random.key(0), inner)
        log_volume = float(self.seen.frame.log_volume)
        return LogProb(np.asarray(lower) - log_volume, np.asarray(upper) - log_volume)

    def elbo(self, key: PRNGKeyArray, *, inner: int = INNER) -> Elbo:
        """The evidence lower bound, with q's density from above so that it stays one."""
        bounds = neg_elbo_bounds(self.family, self.seen, key, outer=4000, inner=inner)
        return Elbo(-bounds.upper, bounds.upper_se)

    def diagnose(self, key: PRNGKeyArray) -> Diagnosis:
        """Every check with its value, a verdict and a plain sentence."""
        sets = [self._weighed(jax.random.fold_in(key, i), DRAWS) for i in range(SETS)]
        drawn, fewer = sets[0], self._weighed(jax.random.fold_in(key, 0), DRAWS, inner=INNER // 20)
        seen = Seen(
            draws=drawn.z.astype(np.float64),
            log_ratios=drawn.log_p - drawn.log_q,
            k_hats=np.array([smooth(one.log_p - one.log_q).k_hat for one in sets]),
            log_q=drawn.log_q,
            log_q_fewer=fewer.log_q,
            log_q_plain=drawn.log_q_plain,
            at_guesses=self._log_ratios_at(self.guesses.draws),
            elbo_of_guesses=self.guesses.elbo,
            r_hat=self.r_hat,
            converged=self.converged,
        )
        return Diagnosis(findings(seen))

    def to_inference_data(self, key: PRNGKeyArray, count: int = 4000) -> Any:
        """ArviZ InferenceData; `civi.inference.inference_data` says what is in its groups."""
        from civi.inference.inference_data import inference_data

        return inference_data(self, self._weighed(key, count), jax.random.fold_in(key, 1))

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the posterior to one file, all but the target, for `civi.load`; a file there is kept."""
        from civi.inference.posterior_file import save

        save(self, Path(path), overwrite=overwrite)

    def _weighed(self, key: PRNGKeyArray, count: int, inner: int = INNER) -> Weighed:
        """Unconstrained draws with log p(x, z) and both bounds on log q(z), in float64."""
        drawn = weigh(self.family, self.seen, key, count, inner)
        log_volume = float(self.seen.frame.log_volume)
        logs = (np.asarray(values, np.float64) - log_volume for values in drawn[1:])
        return Weighed(np.asarray(self.seen.frame.outward(drawn.z)), *logs)

    def _log_ratios_at(self, draws: np.ndarray) -> np.ndarray:
        z = draws.reshape(-1, self.dim)
        log_p = np.asarray(jax.vmap(self.seen.target.log_prob)(jnp.asarray(z, float)))
        return (log_p - self.log_prob(z).upper).reshape(draws.shape[:2])


@eqx.filter_jit
def _log_prob(family: SemiImplicit, w_J: Array, key: PRNGKeyArray, inner: int) -> tuple[Array, Array]:
    plain_key, own_key, pick_key = jax.random.split(key, 3)
    lower_J = log_density(family, w_J, plain_key, inner)
    eps_K = family.noise.sample(own_key, CANDIDATES)
    pairs_JK = family.conditional.log_prob_pairs(family.mix(eps_K), w_J)
    chosen_J = jax.random.categorical(pick_key, pairs_JK, axis=1)
    own_J = jnp.take_along_axis(pairs_JK, chosen_J[:, None], axis=1)[:, 0]
    return lower_J, mix_own(lower_J, own_J, jnp.asarray(1 / (inner + 1)))
