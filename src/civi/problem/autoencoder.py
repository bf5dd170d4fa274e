"""Semi-implicit variational autoencoder: an amortised family (encoder) and a decoder, trained jointly (appendix B)."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Float, PRNGKeyArray

from civi.errors import require
from civi.estimate import Picked
from civi.family import Amortised, Outer, SemiImplicit, repeated
from civi.parallel.mesh import shard
from civi.parts import constant, trained
from civi.problem.semi_implicit import LogProbEach, SemiImplicitProblem


@runtime_checkable
class Data(Protocol):
    """The data set that an autoencoder is trained on."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...

    def batch(self, key: PRNGKeyArray, count: int) -> Any:
        """`count` random rows, as a pytree whose leaves have the rows on their first axis."""
        ...


@runtime_checkable
class Decoder(Protocol):
    """p(x | z)."""

    def log_prob_each(self, x_J: Any, z_J: Float[Array, "J D"]) -> Float[Array, " J"]:
        """log p(x_j | z_j)."""
        ...


class AutoencoderProblem(SemiImplicitProblem):
    """log p(x, z) = log N(z; 0, I) + log p(x | z), with one z in R^dim for every datum of a batch.

    neg_elbo is per datum; multiply it by the number of rows (the paper's N) for the whole data set. Every datum has
    J / batch of the J outer samples, with those of one datum adjacent. Over the first `warm_up` steps (None: no
    warm-up) the KL to the prior has weight kl_weight t / warm_up, and kl_weight afterwards. log p(x | z) has weight 1,
    so that the scale of the gradients, which Adam normalises by, hardly changes.
    """

    family: Amortised
    decoder: Decoder = trained("decoder")
    data: Data = constant()
    dim: int = constant(static=True)
    batch: int = constant(static=True)
    warm_up: int | None = eqx.field(static=True, default=None)
    kl_weight: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        require(self.batch >= 1, f"problem.batch must be at least 1, not {self.batch}")

    @property
    def has_batches(self) -> bool:
        return True

    @property
    def trained_frame(self) -> None:
        return None

    def check(self) -> None:
        """Nothing to check: the shapes follow from the architecture."""

    def first_values(self, key: PRNGKeyArray, count: int) -> tuple[Float[Array, "J D"], Float[Array, " J"]]:
        """One draw of z for each of up to `count` data, and log p(x, z) at these draws."""
        rows = min(count, self.data.rows)
        x_N = shard(self.data.batch(key, rows), "outer")
        z_J = self.family.given(x_N).sample(key, rows)
        return z_J, log_joint_each(self.decoder, x_N, z_J)

    def draw_outer(self, key: PRNGKeyArray, count: int) -> Outer:
        return self.family.draw_outer(key, count)

    def on_batch(
        self, key: PRNGKeyArray, t: Float[Array, ""] | None = None, nu: Picked | None = None
    ) -> tuple[SemiImplicit, LogProbEach]:
        x_N = self.data.batch(key, self.batch)
        x_N = shard(x_N if nu is None else nu.of(x_N), "outer")
        is_weighted = self.warm_up is not None or self.kl_weight != 1
        likelihood_weight = 1 / self.weight(t) if is_weighted and t is not None else 1.0
        return self.family.given(x_N), lambda z_J: log_joint_each(self.decoder, x_N, z_J, likelihood_weight)

    def weight(self, t: Float[Array, ""]) -> Float[Array, ""]:
        """The weight of the KL to the prior at step t."""
        risen = jnp.minimum(t / self.warm_up, 1.0) if self.warm_up else jnp.ones(())
        return self.kl_weight * risen


def log_joint_each(
    decoder: Decoder, x_N: Any, z_J: Float[Array, "J D"], likelihood_weight: Float[Array, ""] | float = 1.0
) -> Float[Array, " J"]:
    """log N(z_j; 0, I) + likelihood_weight log p(x_n | z_j) for the datum n that z_j belongs to.

    A likelihood weight of 1/w is equivalent to a weight w on the KL to the prior, up to a factor 1/w of the objective.
    """
    x_J = repeated(x_N, len(z_J))
    return norm.logpdf(z_J).sum(-1) + likelihood_weight * decoder.log_prob_each(x_J, z_J)
