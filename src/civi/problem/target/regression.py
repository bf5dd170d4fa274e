"""Bayesian logistic regression (appendix B): Bernoulli likelihood and Gaussian prior, on all rows or a mini-batch."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from civi.parallel.mesh import shard
from civi.parts import constant, data_rows
from civi.problem.target.rows import sum_over_rows

ROWS = 10_000


class LogisticRegression(eqx.Module):
    """log p(y, z) = weight sum_n [y_n x_n z - log(1 + exp(x_n z))] + log N(z; 0, prior_scale^2 I).

    `weight` is 1 for all rows and N/B for a mini-batch of B rows, so that the mini-batch log density is unbiased.
    On many devices x may be padded to more rows than y; the padding is ignored.
    """

    x: Float[Array, "M D"] = data_rows()
    y: Float[Array, " N"] = constant()
    weight: float = eqx.field(static=True, default=1.0)
    prior_scale: float = eqx.field(static=True, default=10.0)

    @property
    def dim(self) -> int:
        return self.x.shape[1]

    @property
    def rows(self) -> int:
        """Number of rows of data."""
        return len(self.y)

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        standard = z / self.prior_scale
        log_volume = self.dim * (np.log(self.prior_scale) + 0.5 * np.log(2 * np.pi))
        return self.weight * self._log_likelihood(z) - 0.5 * standard @ standard - log_volume

    def _log_likelihood(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        """Process ROWS rows at a time."""
        return sum_over_rows(lambda x, y: _log_bernoulli(x, y, z), self.x[: self.rows], self.y, ROWS)

    def batch(self, key: PRNGKeyArray, count: int) -> LogisticRegression:
        """The posterior on a mini-batch of `count` rows, drawn with replacement."""
        index = jax.random.randint(key, (count,), 0, self.rows)
        x, y = shard((self.x[index], self.y[index]), "inner")
        return LogisticRegression(x, y, self.weight * self.rows / count, self.prior_scale)


def _log_bernoulli(x: Float[Array, "N D"], y: Float[Array, " N"], z: Float[Array, " D"]) -> Float[Array, ""]:
    logit = x @ z
    return (y * logit - jax.nn.softplus(logit)).sum()
