"""The posterior of a fitted semi-implicit family; the other kinds are imported here too."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from civi.errors import require
from civi.estimate import log_density, mix_own
from civi.family import SemiImplicit
from civi.inference.arguments import KeyOrSeed, as_key, as_words, check_count
from civi.inference.data_groups import groups_of_draws
from civi.inference.diagnose import Bounds, log_q, neg_elbo_bounds
from civi.inference.diagnose.diagnosis import Diagnosis
from civi.inference.diagnose.divergence import WeightedDraws, mean_and_se, with_own
from civi.inference.diagnose.importance import resample as resampled
from civi.inference.diagnose.importance import smooth_weights
from civi.inference.diagnose.trust import Evidence, findings, modes
from civi.inference.draws import BLOCK, draw, in_space, weigh
from civi.inference.labelled import Groups
from civi.inference.loo import Loo, check_size, loo
from civi.inference.pilot.base import Guesses
from civi.inference.posterior_amortised import AmortisedPosterior
from civi.inference.posterior_base import INNER, Elbo, LogProb, Posterior
from civi.inference.posterior_sampled import SampledPosterior
from civi.inference.refine import METRIC_DRAWS, Chains, run_chains
from civi.inference.report.content import Content
from civi.inference.report.gather import gathered
from civi.inference.run_curve import RunCurve
from civi.inference.seeds import Words, derived, generator
from civi.inference.warm_start import WarmStart, origin_of, warm_start
from civi.problem.target import Framed, Target, inward, log_volume
from civi.problem.target.base import rows_seen
from civi.problem.target.feeding import log_offset
from civi.problem.target.names import name_of, parameter_names
from civi.progress import Say, phases, silent

__all__ = [
    "AmortisedPosterior",
    "Diagnosis",
    "Elbo",
    "LogProb",
    "Posterior",
    "SampledPosterior",
    "SemiImplicitPosterior",
]

CANDIDATES = 2000
SAVED = ("family", "guesses", "centring", "converged", "r_hat", "runs", "dim")
DRAWS, SETS, FURTHER_INNER, EVALUATIONS = 4000, 5, 5000, 1_000_000_000


@dataclass(frozen=True, kw_only=True, repr=False)
class SemiImplicitPosterior(Posterior):
    """A fitted semi-implicit (or explicit) posterior.

    Attributes:
        family: q, in the frame of the pilot if there was one.
        target: the target, in the frame of the pilot if there was one.
        guesses: what the pilot found from each of its starts; None without a pilot.
        centring: the degree of centring of each hierarchical site that has one: 1 is as written, 0 is non-centred.
        converged: whether training had converged; None if this was not tested.
        r_hat: largest R-hat over all parameters between independent runs; None for a single run.
        runs: the learning curve of each run.
    """

    family: SemiImplicit
    target: Target
    guesses: Guesses | None = None
    centring: dict[str, float] = field(default_factory=dict)
    converged: bool | None = None
    r_hat: float | None = None
    runs: list[RunCurve] = field(default_factory=list)

    @property
    def dim(self) -> int:
        return self.target.dim

    def sample_unconstrained(self, key: KeyOrSeed, count: int = 4000, *, resample: bool = False) -> np.ndarray:
        words = as_words(key)
        check_count("count", count)
        if not resample:
            return draw(self.family, self.target, words, count).z
        drawn = self._weighted_draws(words, 5 * count)
        weights = smooth_weights(drawn.log_p - drawn.log_q)
        return resampled(drawn.z, weights, count, generator(derived(words, 2)))

    def draws_to_measure(self, key: KeyOrSeed, count: int) -> np.ndarray:
        return self.sample_unconstrained(key, count)

    def _details(self) -> list[str]:
        state = {True: "converged", False: "did not converge", None: ""}[self.converged]
        between = "" if self.r_hat is None else f"R-hat between runs {self.r_hat:.3f}"
        forms = [f"{site} {_form(degree)}" for site, degree in self.centring.items()]
        return [", ".join(part for part in (state, between) if part), ", ".join(forms)]

    def bounds(self, key: KeyOrSeed, outer: int, inner: int) -> Bounds | None:
        found, offset = neg_elbo_bounds(self.family, self.target, as_key(key), outer, inner), log_offset(self.target)
        return found._replace(upper=found.upper - offset, lower=found.lower - offset)

    def log_density(self, z: Array) -> Array | None:
        return log_q(self.family, self.target, z)

    def log_prob(self, z: Float[Array | np.ndarray, "*N D"], *, inner: int = INNER) -> LogProb:
        """Estimate log q, from below by the plain inner mean and from above by the safe mean.

        The own term of the safe mean needs an eps that could have generated z. It is drawn from q(eps | z), by
        importance resampling among CANDIDATES draws of eps.

        Args:
            z: unconstrained points.
            inner: number of inner samples.
        """
        points = np.atleast_2d(np.asarray(z, float))
        fits = points.ndim == 2 and points.shape[1] == self.dim
        require(fits, f"log_prob takes points of shape (n, {self.dim}), not an array of shape {np.shape(z)}")
        check_count("inner", inner)
        w = inward(self.target, points)
        lower, upper = _log_prob(self.family, jnp.asarray(w, float), jax.random.key(0), inner)
        volume = log_volume(self.target, w)
        return LogProb(np.asarray(lower) - volume, np.asarray(upper) - volume)

    def elbo(self, key: KeyOrSeed, *, inner: int = INNER, progress: bool = True) -> Elbo:
        """Estimate the evidence lower bound. It uses the upper bound on log q, so that it remains a lower bound."""
        words = as_words(key)
        check_count("inner", inner)
        with phases("elbo", progress) as say:
            drawn = self._weighted_draws(words, self._draws(), inner, say)
        value, se = mean_and_se(drawn.log_p - drawn.log_q)
        return Elbo(value + log_offset(self.target), se)

    def diagnose(self, key: KeyOrSeed, *, progress: bool = True) -> Diagnosis:
        words = as_words(key)
        with phases("diagnose", progress) as say:
            return _judged(self._examined(words, say=say)[1])

    def content(self, key: KeyOrSeed, title: str = "", *, sets: int = SETS, say: Say = silent) -> Content:
        """What the report shows.

        Args:
            key: random key, or a whole number as its seed.
            title: title of the page; by default the name of the model.
            sets: number of sets of draws that the checks use; one is faster, but its k_hat varies more.
            say: shows what is being done.
        """
        words = as_words(key)
        drawn, evidence = self._examined(words, sets, say)
        say("predicting the data")
        predictive_key = jax.random.wrap_key_data(jnp.asarray(derived(words, 2)[:2]))
        groups = groups_of_draws(self.constrain, drawn, predictive_key)
        judged, (value, se) = _judged(evidence), mean_and_se(drawn.log_p - drawn.log_q)
        elbo = (value + log_offset(self.target), se)
        more = {"findings": judged.findings, "modes": judged.modes, "elbo": elbo}
        return gathered(self, groups, title or f"Fit of {name_of(self.constrain)}", **more)

    def _examined(self, words: Words, sets: int = SETS, say: Say = silent) -> tuple[WeightedDraws, Evidence]:
        """Weighted draws, and what the checks are computed from."""
        count = self._draws()
        drawn = self._weighted_draws(words, count, say=say)
        more = (derived(words, 4), (sets - 1) * count, FURTHER_INNER, say)
        further = self._weighted_draws(*more) if sets > 1 else None
        say("checking the modes of the pilot and the tail of the weights")
        log_ratios = drawn.log_p - drawn.log_q
        every = [log_ratios, *([] if further is None else np.split(further.log_p - further.log_q, sets - 1))]
        evidence = Evidence(
            draws=drawn.z.astype(np.float64),
            log_ratios=log_ratios,
            k_hats=np.array([smooth_weights(one).k_hat for one in every]),
            log_q=drawn.log_q,
            log_q_fewer=drawn.log_q_fewer,
            log_q_plain=drawn.log_q_plain,
            at_guesses=None if self.guesses is None else self._log_ratios_at(self.guesses.draws, words),
            elbo_of_guesses=None if self.guesses is None else self.guesses.elbo,
            r_hat=self.r_hat,
            converged=self.converged,
            ended=self.message,
            names=parameter_names(self.constrain, self.dim),
            trained=any(map(len, self.history.values())),
        )
        return drawn, evidence

    def groups(self, key: KeyOrSeed, count: int) -> Groups:
        words = as_words(key)
        check_count("count", count, 10)
        weighted = self._weighted_draws(words, count)
        predictive_key = jax.random.wrap_key_data(jnp.asarray(derived(words, 2)[:2]))
        return groups_of_draws(self.constrain, weighted, predictive_key)

    def refine(
        self,
        key: KeyOrSeed,
        *,
        draws: int = 1000,
        chains: int = 4,
        warmup: int = 100,
        accept: float = 0.9,
        progress: bool = True,
    ) -> SampledPosterior:
        begun, plan, words = time.perf_counter(), Chains(chains, draws, warmup, accept), as_words(key)
        with phases("refine", progress) as say:
            reference = run_chains(self.family, self.target, words, plan, say)
        message, seconds = f"{chains} chains of NUTS from draws of a fit", time.perf_counter() - begun
        return SampledPosterior(reference=reference, constrain=self.constrain, message=message, seconds=seconds)

    def warm_start(self, key: KeyOrSeed, chains: int = 4, *, dense: bool = True) -> WarmStart:
        check_count("chains", chains)
        z = self.sample_unconstrained(key, max(METRIC_DRAWS, chains))
        return warm_start(self.constrain, z, chains, dense=dense)

    def loo(self, key: KeyOrSeed, count: int = 4000, *, progress: bool = True) -> Loo:
        words, origin = as_words(key), origin_of(self.constrain)
        check_count("count", count, 100)
        check_size(origin, count)
        with phases("loo", progress) as say:
            drawn = self._weighted_draws(words, count, say=say)
            return loo(origin, in_space(self.constrain, drawn.z), drawn.log_p - drawn.log_q, say)

    def _saved(self) -> tuple[str, dict[str, Any]]:
        framed = self.target if isinstance(self.target, Framed) else None
        parts = {name: getattr(self, name) for name in SAVED}
        parts |= {name: getattr(framed, name, None) for name in ("frame", "log_p", "slope")}
        return "semi-implicit", parts

    def _draws(self) -> int:
        """Number of draws that checks use: DRAWS, or fewer if the data have millions of rows."""
        return max(DRAWS // SETS, min(DRAWS, EVALUATIONS // rows_seen(self.target) // 100 * 100))

    def _weighted_draws(self, words: Words, count: int, inner: int = INNER, say: Say = silent) -> WeightedDraws:
        """Unconstrained draws with log p(x, z) and both bounds on log q(z), the log densities in float64."""
        say(f"weighing {count:,} draws")
        drawn = draw(self.family, self.target, derived(words, 0), count)
        weighed = weigh(self.family, self.target, derived(words, 1), drawn.w, inner)
        return WeightedDraws(
            drawn.z,
            weighed.log_p,
            with_own(weighed.log_q_plain, drawn.own, inner),
            weighed.log_q_plain,
            with_own(weighed.log_q_fewer, drawn.own, BLOCK),
        )

    def _log_ratios_at(self, draws: np.ndarray, words: Words) -> np.ndarray:
        """log p - log q at unconstrained points (start, draw, dim); log q is the plain mean."""
        w = inward(self.target, draws.reshape(-1, self.dim))
        weighed = weigh(self.family, self.target, derived(words, 3), w, INNER)
        return (weighed.log_p - weighed.log_q_plain).reshape(draws.shape[:2])


def _judged(evidence: Evidence) -> Diagnosis:
    return Diagnosis(findings(evidence), modes(evidence))


def _form(degree: float) -> str:
    return {0.0: "non-centred", 1.0: "centred"}.get(degree, f"centred to {degree:.2g}")


@eqx.filter_jit
def _log_prob(family: SemiImplicit, w_J: Array, key: PRNGKeyArray, inner: int) -> tuple[Array, Array]:
    """Lower and upper bound on log q at the points w, in the coordinates of the family."""
    plain_key, own_key, pick_key = jax.random.split(key, 3)
    lower_J = log_density(family, w_J, plain_key, inner)
    eps_K = family.noise.sample(own_key, CANDIDATES)
    pairs_JK = family.conditional.log_prob_pairs(family.mix(eps_K), w_J)
    chosen_J = jax.random.categorical(pick_key, pairs_JK, axis=1)
    own_J = jnp.take_along_axis(pairs_JK, chosen_J[:, None], axis=1)[:, 0]
    return lower_J, mix_own(lower_J, own_J, jnp.asarray(1 / (inner + 1)))
