"""The posterior of draws of Markov chains."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from civi.inference.arguments import KeyOrSeed, as_key, check_count
from civi.inference.data_groups import named
from civi.inference.diagnose import Bounds
from civi.inference.diagnose.diagnosis import Diagnosis
from civi.inference.diagnose.trust import chain_findings
from civi.inference.labelled import Groups
from civi.inference.loo import Loo, check_size, loo
from civi.inference.nuts import Reference
from civi.inference.posterior_base import Posterior
from civi.inference.report.content import Content
from civi.inference.report.gather import gathered
from civi.inference.warm_start import origin_of
from civi.problem.target.names import name_of
from civi.progress import Say, phases, silent


@dataclass(frozen=True, kw_only=True, repr=False)
class SampledPosterior(Posterior):
    """Draws of Markov chains (NUTS). There is no density, but R-hat and effective sample sizes.

    Attributes:
        reference: the draws and their diagnostics.
    """

    reference: Reference

    @property
    def dim(self) -> int:
        return self.reference.draws.shape[-1]

    def sample_unconstrained(self, key: KeyOrSeed, count: int = 4000, *, resample: bool = False) -> np.ndarray:
        """A random selection of the stored draws, without replacement if there are enough; `resample` has no effect.

        Args:
            key: random key, or a whole number as its seed.
            count: number of draws.
            resample: ignored, as there is no density.

        Returns:
            An array of shape (count, dim).
        """
        pooled = self.reference.draws.reshape(-1, self.dim)
        check_count("count", count)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(as_key(key))).tolist())
        return pooled[rng.choice(len(pooled), count, replace=count > len(pooled))]

    def draws_to_measure(self, key: KeyOrSeed, count: int) -> np.ndarray:
        return self.reference.pooled(count)

    def bounds(self, key: KeyOrSeed, outer: int, inner: int) -> Bounds | None:
        return None

    def log_density(self, z: Array) -> Array | None:
        return None

    def diagnose(self, key: KeyOrSeed, *, progress: bool = True) -> Diagnosis:
        return Diagnosis(chain_findings(self.reference))

    def groups(self, key: KeyOrSeed, count: int) -> Groups:
        """All stored chains, in the names and space of the user's parameters; `key` and `count` are ignored."""
        draws = jax.vmap(jax.vmap(self.constrain))(jnp.asarray(self.reference.draws))
        return {"posterior": {name: np.asarray(value) for name, value in named(draws).items()}}

    def content(self, key: KeyOrSeed, title: str = "", *, say: Say = silent) -> Content:
        say("gathering the draws")
        found = gathered(
            self, self.groups(key, len(self.reference.draws)), title or f"Draws of {name_of(self.constrain)}"
        )
        sizes = self.reference.effective_size if len(found.names) == self.dim else None
        return replace(found, solver="nuts", findings=chain_findings(self.reference), effective_size=sizes)

    def loo(self, key: KeyOrSeed, count: int = 4000, *, progress: bool = True) -> Loo:
        check_count("count", count, 100)
        origin = origin_of(self.constrain)
        check_size(origin, count)
        with phases("loo", progress) as say:
            return loo(origin, self.sample(key, count), np.zeros(count), say)

    def chain_measures(self) -> dict[str, Any]:
        """Largest R-hat, smallest effective sample size, and number of divergent transitions."""
        reference = self.reference
        size = float(reference.effective_size.min())
        return {"r_hat": float(reference.r_hat.max()), "effective_size": size, "divergences": reference.divergences}

    def _saved(self) -> tuple[str, dict[str, Any]]:
        return "sampled", {"reference": self.reference}
