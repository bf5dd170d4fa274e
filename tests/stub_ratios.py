"""Log ratios with chosen values, for trackers that look at nothing else."""

import jax.numpy as jnp
import numpy as np

from civi.estimate import LogRatios


def stub_ratios(g_J, kept: int) -> LogRatios:
    """What the oracle would give if the plain means were g_J."""
    count = len(g_J)
    log_g_J = jnp.asarray(np.log(g_J), jnp.float32)
    return LogRatios(jnp.zeros((count, 2)), jnp.zeros((kept, 2)), jnp.asarray(kept), log_g_J, log_g_J, jnp.zeros(count))
