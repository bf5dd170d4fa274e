"""The posterior of an autoencoder: one posterior per data point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from civi.errors import TargetError
from civi.family import Amortised, Conditioned
from civi.inference.arguments import KeyOrSeed
from civi.inference.diagnose import Bounds
from civi.inference.diagnose.diagnosis import Diagnosis
from civi.inference.labelled import Groups
from civi.inference.posterior_base import INNER, Elbo, LogProb, Posterior
from civi.inference.report.content import Content
from civi.inference.report.gather import recorded
from civi.problem.autoencoder import Decoder
from civi.progress import Say, silent

PER_DATUM = "this posterior is amortised (one posterior per data point): call given(x) with your data first"


@dataclass(frozen=True, kw_only=True, repr=False)
class AmortisedPosterior(Posterior):
    """The encoder and decoder of an autoencoder. `given(x)` returns the posterior of each data point in x.

    Attributes:
        family: the encoder, q(z | x).
        decoder: the decoder, p(x | z).
        latent_dim: dimension of z.
    """

    family: Amortised
    decoder: Decoder
    latent_dim: int

    @property
    def dim(self) -> int:
        return self.latent_dim

    def given(self, x: Any) -> Conditioned:
        """Condition on data.

        Args:
            x: data points, with a leading axis.

        Returns:
            q(z | x). Its `sample(key, count)` draws count / len(x) latents per data point, those of one data point
            next to each other.
        """
        return self.family.given(x)

    def sample_unconstrained(self, key: KeyOrSeed, count: int = 4000, *, resample: bool = False) -> np.ndarray:
        raise TargetError(PER_DATUM)

    def draws_to_measure(self, key: KeyOrSeed, count: int) -> np.ndarray:
        raise TargetError(PER_DATUM)

    def log_prob(self, z: Float[Array | np.ndarray, "*N D"], *, inner: int = INNER) -> LogProb:
        raise TargetError(PER_DATUM)

    def elbo(self, key: KeyOrSeed, *, inner: int = INNER, progress: bool = True) -> Elbo:
        raise TargetError(PER_DATUM)

    def bounds(self, key: KeyOrSeed, outer: int, inner: int) -> Bounds | None:
        return None

    def log_density(self, z: Array) -> Array | None:
        return None

    def diagnose(self, key: KeyOrSeed, *, progress: bool = True) -> Diagnosis:
        raise TargetError(PER_DATUM)

    def groups(self, key: KeyOrSeed, count: int) -> Groups:
        raise TargetError(PER_DATUM)

    def content(self, key: KeyOrSeed, title: str = "", *, say: Say = silent) -> Content:
        """Learning curves and settings only; the report of `civi run` also shows images and latents of test data."""
        return Content(**recorded(self, title or "Autoencoder"))

    def _saved(self) -> tuple[str, dict[str, Any]]:
        return "amortised", {"family": self.family, "decoder": self.decoder, "latent_dim": self.latent_dim}
