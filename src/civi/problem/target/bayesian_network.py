"""Regression with a Bayesian neural network of one hidden layer, on all rows or a mini-batch."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from civi.parallel.mesh import shard
from civi.parts import constant, data_rows
from civi.problem.target.rows import sum_over_rows

LOG_2PI = float(np.log(2 * np.pi))
RATE, ROWS = 0.1, 2000


class Weights(NamedTuple):
    """The weights of the network and the logarithms of the two precisions."""

    first: Float[Array, "D H"]
    first_bias: Float[Array, " H"]
    last: Float[Array, " H"]
    last_bias: Float[Array, ""]
    log_noise_precision: Float[Array, ""]
    log_weight_precision: Float[Array, ""]


class BayesianNetwork(eqx.Module):
    """log p(y, z) = weight sum_n log N(y_n; f(x_n), 1/gamma) + log p(w | lambda) + log p(gamma) + log p(lambda).

    f(x) = relu(x W + b) v + c, w = (W, b, v, c) ~ N(0, 1/lambda), gamma and lambda ~ Gamma(1, rate RATE), and
    z = (w, log gamma, log lambda). If `noise_sd` is given, 1/gamma = noise_sd^2 is not a part of z; the same holds for
    `weight_sd` and 1/lambda = weight_sd^2. `weight` is 1 for all rows and N/B for a mini-batch of B rows. On many
    devices x may be padded to more rows than y; the padding is ignored.
    """

    x: Float[Array, "M D"] = data_rows()
    y: Float[Array, " N"] = constant()
    hidden: int = eqx.field(static=True, default=50)
    noise_sd: float | None = eqx.field(static=True, default=None)
    weight_sd: float | None = eqx.field(static=True, default=None)
    weight: float = eqx.field(static=True, default=1.0)

    @property
    def weights(self) -> int:
        """Number of weights of the network."""
        return (self.x.shape[1] + 2) * self.hidden + 1

    @property
    def dim(self) -> int:
        return self.weights + (self.noise_sd is None) + (self.weight_sd is None)

    @property
    def rows(self) -> int:
        """Number of rows of data."""
        return len(self.y)

    def unpack(self, z: Float[Array, " P"]) -> Weights:
        """The parts of z."""
        inputs, hidden, at = self.x.shape[1], self.hidden, self.weights
        first, bias, last, last_bias = jnp.split(z[:at], np.cumsum([inputs * hidden, hidden, hidden]))
        precisions = [
            jnp.asarray(-2 * np.log(sd)) if sd is not None else None for sd in (self.noise_sd, self.weight_sd)
        ]
        latent = iter(z[at:])
        noise, weight = (next(latent) if given is None else given for given in precisions)
        return Weights(first.reshape(inputs, hidden), bias, last, last_bias[0], noise, weight)

    def predict(self, z: Float[Array, " P"], x: Float[Array, "M D"]) -> Float[Array, " M"]:
        """f(x) for every row of x."""
        part = self.unpack(z)
        return jax.nn.relu(x @ part.first + part.first_bias) @ part.last + part.last_bias

    def predictive(
        self, z: Float[Array, " P"], x: Float[Array, "M D"]
    ) -> tuple[Float[Array, " M"], Float[Array, " M"]]:
        """Mean and standard deviation of a new y at every row of x, given z."""
        mean = self.predict(z, x)
        return mean, jnp.broadcast_to(jnp.exp(-0.5 * self.unpack(z).log_noise_precision), mean.shape)

    def log_prob(self, z: Float[Array, " P"]) -> Float[Array, ""]:
        part = self.unpack(z)

        def of_rows(x: Array, y: Array) -> Array:
            return log_normal(y - self.predict(z, x), part.log_noise_precision)

        log_likelihood = sum_over_rows(of_rows, self.x[: self.rows], self.y, ROWS)
        log_prior = log_normal(z[: self.weights], part.log_weight_precision)
        if self.noise_sd is None:
            log_prior += log_gamma(part.log_noise_precision)
        if self.weight_sd is None:
            log_prior += log_gamma(part.log_weight_precision)
        return self.weight * log_likelihood + log_prior

    def batch(self, key: PRNGKeyArray, count: int) -> BayesianNetwork:
        """The posterior on a mini-batch of `count` rows, drawn with replacement."""
        index = jax.random.randint(key, (count,), 0, self.rows)
        x, y = shard((self.x[index], self.y[index]), "inner")
        weight = self.weight * self.rows / count
        return BayesianNetwork(x, y, self.hidden, self.noise_sd, self.weight_sd, weight)


def log_normal(values: Float[Array, " N"], log_precision: Float[Array, ""]) -> Float[Array, ""]:
    """sum_n log N(values_n; 0, exp(-log_precision))."""
    return -0.5 * (jnp.exp(log_precision) * values @ values + values.size * (LOG_2PI - log_precision))


def log_gamma(log_precision: Float[Array, ""]) -> Float[Array, ""]:
    """The log density of log g for g ~ Gamma(1, RATE)."""
    return np.log(RATE) - RATE * jnp.exp(log_precision) + log_precision
