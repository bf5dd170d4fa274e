"""NumPyro's automatic guides on the models of fit_models.py, for as long as one says: what `civi.fit` is compared with.

SVI with Adam and PARTICLES draws a step, in blocks of steps until the time is up, compilation included.
"""

from __future__ import annotations

import time

import jax
import numpy as np
from fit_models import ModelCase
from jax.flatten_util import ravel_pytree
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoBNAFNormal, AutoMultivariateNormal, AutoNormal
from numpyro.infer.util import unconstrain_fn
from numpyro.optim import Adam

GUIDES = {"AutoNormal": AutoNormal, "AutoMultivariateNormal": AutoMultivariateNormal, "AutoBNAFNormal": AutoBNAFNormal}
RATES = {"AutoNormal": 1e-2, "AutoMultivariateNormal": 1e-2, "AutoBNAFNormal": 3e-3}
PARTICLES, BLOCK, DRAWS = 16, 200, 20_000


def guide_draws(case: ModelCase, name: str, seconds: float, seed: int = 0) -> tuple[np.ndarray, int]:
    """Unconstrained draws (draw, D) in the order of `ravel_pytree`, and the number of steps there was time for."""
    begun = time.perf_counter()
    guide = GUIDES[name](case.model)
    svi = SVI(case.model, guide, Adam(RATES[name]), Trace_ELBO(num_particles=PARTICLES))
    state = svi.init(jax.random.PRNGKey(seed), *case.args, **dict(case.kwargs))

    @jax.jit
    def block(state: object) -> object:
        return jax.lax.fori_loop(0, BLOCK, lambda _, s: svi.stable_update(s, *case.args, **dict(case.kwargs))[0], state)

    steps = 0
    while time.perf_counter() - begun < seconds:
        state = jax.block_until_ready(block(state))
        steps += BLOCK
    return _unconstrained(case, guide, svi.get_params(state), seed), steps


def _unconstrained(case: ModelCase, guide: object, params: dict[str, jax.Array], seed: int) -> np.ndarray:
    """The guide's draws as vectors; sites whose support depends on others go through NumPyro's own transforms."""
    draws = guide.sample_posterior(jax.random.PRNGKey(seed + 1), params, sample_shape=(DRAWS,))
    latent = {name: value for name, value in draws.items() if name in guide._init_locs}

    def into_vector(sites: dict[str, jax.Array]) -> jax.Array:
        return ravel_pytree(unconstrain_fn(case.model, case.args, dict(case.kwargs), sites))[0]

    return np.asarray(jax.lax.map(into_vector, latent, batch_size=1000), np.float64)
