"""Two problems outside variational inference whose solutions are known in closed form."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from civi.errors import require
from civi.problem.oracles import Oracles


class Portfolio(eqx.Module):
    """Mean-variance portfolio: maximise E[r'x] - lambda Var[r'x] over positions x, with returns r ~ N(mean, L L').

        g_omega(x) = (x, r_omega'x),    f_nu(x, m) = -m + lambda (r_nu'x - m)^2

    The optimum is x* = (L L')^-1 mean / (2 lambda). Nested Monte Carlo with K inner samples overestimates the variance
    by the factor (1 + 1/K), so it converges to x* K/(K + 1).

    Attributes:
        mean: expected returns.
        factor: L.
        risk_aversion: lambda.
    """

    mean: Float[Array, " A"]
    factor: Float[Array, "A A"]
    risk_aversion: float = eqx.field(static=True)

    @property
    def problem(self) -> Oracles:
        """The problem in compositional form."""
        return Oracles(self.inner, self.outer)

    def returns(self, key: PRNGKeyArray) -> Float[Array, " A"]:
        """One draw of r."""
        return self.mean + self.factor @ jax.random.normal(key, self.mean.shape)

    def inner(self, x: Float[Array, " A"], key: PRNGKeyArray) -> Float[Array, " J"]:
        return jnp.append(x, self.returns(key) @ x)

    def outer(self, y: Float[Array, " J"], key: PRNGKeyArray) -> Float[Array, ""]:
        x, expected = y[:-1], y[-1]
        return -expected + self.risk_aversion * (self.returns(key) @ x - expected) ** 2

    def optimum(self) -> Float[Array, " A"]:
        """The optimum x*."""
        return jnp.linalg.solve(2 * self.risk_aversion * self.factor @ self.factor.T, self.mean)

    def nested_optimum(self, inner: int) -> Float[Array, " A"]:
        """The point to which nested Monte Carlo with this number of inner samples converges."""
        return self.optimum() * inner / (inner + 1)

    def error(self, x: Float[Array, " A"]) -> Float[Array, ""]:
        """The relative error |x - x*| / |x*|."""
        return jnp.linalg.norm(x - self.optimum()) / jnp.linalg.norm(self.optimum())


class LinearDesign(eqx.Module):
    """Bayesian experimental design: choose the angles theta of R measurement directions in the plane.

        y = X(theta) w + noise e,    rows of X: (cos theta_r, sin theta_r),    w ~ N(0, L L'),    e ~ N(0, I)

    The expected information gain E_{w,y}[log p(y|w) - log E_{w'} p(y|w')] is 1/2 log det(I + X L L' X' / noise^2).
    Over a fixed pool of outer samples (w_j, e_j), with y_j = X w_j + noise e_j, its negative has the form of Eq. Final
    of the paper:

        log g_omega(theta)_j = log p(y_j | w_omega) - log p(y_j | w_j),    f_nu(y) = log y_nu,    nu uniform in 1..n

    The first and second moments of the pool are made exact. The mean over the pool then equals the expected information
    gain for every design.

    Attributes:
        factor: L.
        noise: standard deviation of the measurement noise.
        weight_J: the weights w_j of the pool.
        error_J: the errors e_j of the pool.
    """

    factor: Float[Array, "2 2"]
    noise: float = eqx.field(static=True)
    weight_J: Float[Array, "J 2"]
    error_J: Float[Array, "J R"]

    @property
    def problem(self) -> Oracles:
        """The problem in compositional form, with g in log space."""
        return Oracles(self.inner, self.outer, log_scale=True)

    def design(self, theta: Float[Array, " R"]) -> Float[Array, "R 2"]:
        """The design matrix X, whose rows are unit vectors at the angles theta."""
        return jnp.stack([jnp.cos(theta), jnp.sin(theta)], axis=1)

    def inner(self, theta: Float[Array, " R"], key: PRNGKeyArray) -> Float[Array, " J"]:
        weight = self.factor @ jax.random.normal(key, (len(self.factor),))
        residual_J = (self.weight_J - weight) @ self.design(theta).T / self.noise + self.error_J
        return 0.5 * (self.error_J**2 - residual_J**2).sum(axis=1)

    def outer(self, log_y: Float[Array, " J"], key: PRNGKeyArray) -> Float[Array, ""]:
        nu = (len(log_y) * jax.random.uniform(key)).astype(int)
        return log_y[nu]

    def information_gain(self, theta: Float[Array, " R"]) -> Float[Array, ""]:
        """Expected information gain in closed form, in nats."""
        spread = self.design(theta) @ self.factor / self.noise
        return 0.5 * jnp.linalg.slogdet(jnp.eye(len(spread)) + spread @ spread.T)[1]

    def best_gain(self) -> Float[Array, ""]:
        """The largest expected information gain of R unit rows.

        The best X'X distributes its trace R over the R largest eigenvalues s_i of L L' by water filling:
        m_i = max(0, level - noise^2 / s_i) with sum m_i = R. Any such X'X is attained by an X with unit rows.
        """
        rows = self.error_J.shape[1]
        price = jnp.sort(self.noise**2 / self._variances())[:rows]
        levels = (rows + jnp.cumsum(price)) / jnp.arange(1, len(price) + 1)
        filled = levels > price
        level = levels[filled.sum() - 1]
        return 0.5 * jnp.where(filled, jnp.log(level / price), 0).sum()

    def one_sample_gain(self) -> Float[Array, ""]:
        """The gain of the design to which nested Monte Carlo with one inner sample converges.

        It maximises E|X(w - w')|^2, so all rows of this design are the same.
        """
        return 0.5 * jnp.log(1 + self.error_J.shape[1] * self._variances().max() / self.noise**2)

    def gap(self, theta: Float[Array, " R"]) -> Float[Array, ""]:
        """The share of the best gain that this design misses, 1 - gain / best gain."""
        return 1 - self.information_gain(theta) / self.best_gain()

    def _variances(self) -> Float[Array, " 2"]:
        return jnp.linalg.svd(self.factor, compute_uv=False) ** 2


def portfolio() -> Portfolio:
    """A portfolio of four correlated assets."""
    factor = np.linalg.cholesky(0.7 * np.eye(4) + 0.3) * np.array([[0.9], [0.8], [0.7], [0.6]])
    return Portfolio(jnp.array([0.6, 0.4, 0.3, 0.2]), jnp.asarray(factor, float), 0.5)


def linear_design(key: PRNGKeyArray, rows: int = 2, pool: int = 64, noise: float = 1.0) -> LinearDesign:
    """A design for two unknown weights, with prior variances 4 and 2 along axes rotated by 30 degrees.

    Args:
        key: random key of the pool.
        rows: number of measurement directions R.
        pool: number of outer samples in the pool.
        noise: standard deviation of the measurement noise.
    """
    require(rows >= 1, f"rows must be at least 1, not {rows}")
    require(pool > 2 + rows, f"pool must be larger than {2 + rows}, not {pool}: its moments cannot be made exact")
    require(noise > 0, f"noise must be positive, not {noise}")
    turn = np.pi / 6
    axes = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    factor = axes * np.sqrt([4.0, 2.0])
    draws = _standardised(np.asarray(jax.random.normal(key, (pool, 2 + rows)), np.float64))
    weight_J, error_J = draws[:, :2] @ factor.T, draws[:, 2:]
    return LinearDesign(jnp.asarray(factor, float), noise, jnp.asarray(weight_J, float), jnp.asarray(error_J, float))


def _standardised(draws: np.ndarray) -> np.ndarray:
    """The draws, shifted and transformed so that their mean is exactly 0 and their covariance the identity."""
    centred = draws - draws.mean(axis=0)
    root = np.linalg.cholesky(centred.T @ centred / len(centred))
    return np.linalg.solve(root, centred.T).T
