"""A Bayesian neural network whose output layer is integrated out in closed form, on all rows."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from civi.parts import constant, data_rows
from civi.problem.target.bayesian_network import LOG_2PI, ROWS, log_gamma, log_normal
from civi.problem.target.rows import sum_over_rows

SHIFT = 10 * float(np.finfo(np.float32).eps)


class OutputLayer(NamedTuple):
    """The Gaussian posterior N(m, S^-1) of the output layer, with S = P^-T L L^T P^-1.

    Attributes:
        mean: m.
        whitener: P.
        factor: L.
        log_volume: the logarithm of the square root of det S.
    """

    mean: Float[Array, " F"]
    whitener: Float[Array, "F F"]
    factor: Float[Array, "F F"]
    log_volume: Float[Array, ""]


class MarginalNetwork(eqx.Module):
    """log p(y, z) with z = (W, b, log gamma), the model of `BayesianNetwork` without its output layer a = (v, c).

    Given W and b the network is linear in a, with features phi(x) = (relu(x W + b), 1). So a has a Gaussian posterior,

        a | z, y ~ N(m, S^-1),   S = lambda I + gamma Phi^T Phi,   m = gamma S^-1 Phi^T y,

    and its integral is, with N rows and F features,

        log p(y | z) = [N log(gamma / 2 pi) + F log lambda - gamma |y - Phi m|^2 - lambda |m|^2 - log det S] / 2.

    All solvers then approximate fewer parameters, without the strong dependence of the two layers. The log density is
    not a sum over rows, so there are no mini-batches. On many devices x may be padded to more rows than y; the padding
    is ignored.
    """

    x: Float[Array, "M D"] = data_rows()
    y: Float[Array, " N"] = constant()
    hidden: int = eqx.field(static=True, default=50)
    weight_sd: float = eqx.field(static=True, default=1.0)

    @property
    def weights(self) -> int:
        """Number of weights of the first layer."""
        return (self.x.shape[1] + 1) * self.hidden

    @property
    def dim(self) -> int:
        return self.weights + 1

    def features(self, z: Float[Array, " P"], x: Float[Array, "M D"]) -> Float[Array, "M F"]:
        """phi(x) for every row of x."""
        inputs = self.x.shape[1]
        first, bias = jnp.split(z[: self.weights], [inputs * self.hidden])
        units = jax.nn.relu(x @ first.reshape(inputs, self.hidden) + bias)
        return jnp.concatenate([units, jnp.ones((len(x), 1))], axis=1)

    def log_prob(self, z: Float[Array, " P"]) -> Float[Array, ""]:
        output = self._output_layer(z)

        def squares(x: Array, y: Array) -> Array:
            residual = y - self.features(z, x) @ output.mean
            return residual @ residual

        error = sum_over_rows(squares, self.x[: len(self.y)], self.y, ROWS)
        log_precision, precision = z[-1], self.weight_sd**-2
        exponent = jnp.exp(log_precision) * error + precision * output.mean @ output.mean
        log_ratio = 0.5 * len(output.mean) * np.log(precision) - output.log_volume
        log_likelihood = 0.5 * (len(self.y) * (log_precision - LOG_2PI) - exponent) + log_ratio
        return log_likelihood + log_normal(z[:-1], jnp.log(jnp.asarray(precision))) + log_gamma(log_precision)

    def predictive(
        self, z: Float[Array, " P"], x: Float[Array, "M D"]
    ) -> tuple[Float[Array, " M"], Float[Array, " M"]]:
        """Mean and standard deviation of a new y at every row of x, given z: output layer and noise are averaged."""
        output, features = self._output_layer(z), self.features(z, x)
        spread = solve_triangular(output.factor, (features @ output.whitener).T, lower=True)
        return features @ output.mean, jnp.sqrt(jnp.exp(-z[-1]) + (spread**2).sum(0))

    def _output_layer(self, z: Float[Array, " P"]) -> OutputLayer:
        """Factorise S twice, because units that are nearly alike make it too ill-conditioned for single precision.

        P is the inverse factor of S plus a multiple of I that is larger than the rounding errors of S. In the features
        phi P, whose matrix P^T S P is well-conditioned, everything is computed again. The result does not depend on P,
        so P is a constant for the gradient.
        """
        precision, scale = self.weight_sd**-2, jnp.exp(z[-1])
        rough = stop_gradient(self._products(z, jnp.eye(self.hidden + 1))[:-1, :-1] * scale)
        diagonal = precision + SHIFT * jnp.trace(rough)
        first = jnp.linalg.cholesky(rough + diagonal * jnp.eye(len(rough)))
        whitener = solve_triangular(first, jnp.eye(len(rough)), lower=True).T
        gram = scale * self._products(z, whitener)
        factor = jnp.linalg.cholesky(gram[:-1, :-1] + precision * whitener.T @ whitener)
        mean = whitener @ cho_solve((factor, True), gram[:-1, -1])
        log_volume = jnp.log(jnp.diagonal(first)).sum() + jnp.log(jnp.diagonal(factor)).sum()
        return OutputLayer(mean, whitener, factor, log_volume)

    def _products(self, z: Float[Array, " P"], whitener: Float[Array, "F F"]) -> Float[Array, "F+1 F+1"]:
        """[Phi P, y]^T [Phi P, y]."""

        def of_rows(x: Array, y: Array) -> Array:
            rows = jnp.concatenate([self.features(z, x) @ whitener, y[:, None]], axis=1)
            return rows.T @ rows

        return sum_over_rows(of_rows, self.x[: len(self.y)], self.y, ROWS)
