"""A diffusion path in a double well, conditioned on noisy observations of it."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from civi.parts import constant

LOG_2PI = float(np.log(2 * np.pi))


class ConditionedDiffusion(eqx.Module):
    """The path z = (u_1, ..., u_D) of a Langevin diffusion given observations y_1, ..., y_O at every (D/O)-th time.

    log p(y, z) = sum_t log N(u_t; u_(t-1) + h b(u_(t-1)), h) + sum_i log N(y_i; u_(i D/O), noise^2)

    with u_0 = 0 and b(u) = strength u (1 - u^2) / (1 + u^2). The published comparisons (KSIVI and later) score paths
    with this drift, although their path was simulated with strength u (1 - u^2). The latter is stiff: its Euler steps
    explode for |u| > sqrt(1 + 2 / (h strength)). The density is normalised in (y, z), so that its integral over z is
    the marginal likelihood of the observations.
    """

    observations: Float[Array, " O"] = constant()
    dim: int = eqx.field(static=True, default=100)
    step: float = eqx.field(static=True, default=0.01)
    strength: float = eqx.field(static=True, default=10.0)
    noise: float = eqx.field(static=True, default=0.1)

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        before = jnp.concatenate([jnp.zeros(1), z[:-1]])
        drift = self.strength * before * (1 - before**2) / (1 + before**2)
        moves = (z - before - self.step * drift) / jnp.sqrt(self.step)
        every = self.dim // len(self.observations)
        errors = (z[every - 1 :: every] - self.observations) / self.noise
        log_scales = 0.5 * self.dim * np.log(self.step) + len(self.observations) * np.log(self.noise)
        return -0.5 * (moves @ moves + errors @ errors + (len(z) + len(errors)) * LOG_2PI) - log_scales
