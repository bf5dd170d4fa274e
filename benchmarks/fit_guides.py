"""NumPyro's automatic guides on the models of fit_models.py for a given time: the baselines of `civi.fit`.

SVI with Adam and PARTICLES draws per step runs in blocks of steps until the CPU time, including compilation, is used
up; other work on the machine does not count. The learning rate decays to 0 over that time, by half a cosine. A step
with a result that is not finite is skipped, and the next step uses new random numbers. NumPyro's `stable_update` would
retry with the same numbers for ever.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import optax
from jax.flatten_util import ravel_pytree
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoBNAFNormal, AutoMultivariateNormal, AutoNormal
from numpyro.infer.svi import SVIState
from numpyro.infer.util import unconstrain_fn

from fit_models import ModelCase

GUIDES = {"AutoNormal": AutoNormal, "AutoMultivariateNormal": AutoMultivariateNormal, "AutoBNAFNormal": AutoBNAFNormal}
RATES = {"AutoNormal": 1e-2, "AutoMultivariateNormal": 1e-2, "AutoBNAFNormal": 3e-3}
PARTICLES, BLOCK, DRAWS = 16, 50, 20_000


def guide_draws(case: ModelCase, name: str, seconds: float, seed: int = 0) -> tuple[np.ndarray, int]:
    """Fit a guide and draw from it.

    Args:
        case: the model.
        name: one of GUIDES.
        seconds: CPU seconds to train for.
        seed: random seed.

    Returns:
        Unconstrained draws (draw, D) in the order of `ravel_pytree`, and the number of steps.
    """
    begun = time.process_time()
    guide, arguments = GUIDES[name](case.model), dict(case.kwargs)
    optimiser = numpyro.optim.optax_to_numpyro(optax.inject_hyperparams(optax.adam)(learning_rate=RATES[name]))
    svi = SVI(case.model, guide, optimiser, Trace_ELBO(num_particles=PARTICLES))
    state = svi.init(jax.random.PRNGKey(seed), *case.args, **arguments)

    def step(state: SVIState) -> SVIState:
        new, loss = svi.update(state, *case.args, **arguments)
        good = jnp.isfinite(ravel_pytree(new.optim_state)[0].sum() + loss)
        return new._replace(
            optim_state=jax.tree.map(lambda a, b: jnp.where(good, a, b), new.optim_state, state.optim_state)
        )

    @jax.jit
    def block(state: SVIState, over: jax.Array) -> SVIState:
        rate = RATES[name] * 0.5 * (1 + jnp.cos(jnp.pi * over))
        count, (params, inner) = state.optim_state
        inner = inner._replace(hyperparams={"learning_rate": rate})
        return jax.lax.fori_loop(0, BLOCK, lambda _, s: step(s), state._replace(optim_state=(count, (params, inner))))

    steps = 0
    while (over := (time.process_time() - begun) / seconds) < 1:
        state = jax.block_until_ready(block(state, jnp.asarray(over)))
        steps += BLOCK
    return _unconstrained(case, guide, svi.get_params(state), seed), steps


def _unconstrained(case: ModelCase, guide: Any, params: dict[str, jax.Array], seed: int) -> np.ndarray:
    """The guide's draws as vectors. NumPyro's own transforms handle sites whose support depends on other sites."""
    draws = guide.sample_posterior(jax.random.PRNGKey(seed + 1), params, sample_shape=(DRAWS,))
    latent = {name: value for name, value in draws.items() if name in guide._init_locs}

    def into_vector(sites: dict[str, jax.Array]) -> jax.Array:
        return ravel_pytree(unconstrain_fn(case.model, case.args, dict(case.kwargs), sites))[0]

    return np.asarray(jax.lax.map(into_vector, latent, batch_size=1000), np.float64)
