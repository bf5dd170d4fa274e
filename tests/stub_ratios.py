"""Stub log ratios with chosen values, for trackers that use nothing else."""

import jax.numpy as jnp
import numpy as np

from civi.estimate import LogRatios
from linear_gaussian import linear_family


def stub_ratios(g_J, kept: int) -> LogRatios:
    """A look whose plain means are g_J."""
    count = len(g_J)
    log_g_J = jnp.asarray(np.log(g_J), jnp.float32)
    z_J, mixed_K, log_p_J = jnp.zeros((count, 2)), jnp.zeros((kept, 2)), jnp.zeros(count)
    return LogRatios(linear_family(), z_J, mixed_K, jnp.asarray(kept), log_g_J, log_g_J, log_p_J)
