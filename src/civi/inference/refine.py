"""NUTS from draws of a fitted posterior: a warm-up for the step size alone, because q already has the metric.

The chains run in the coordinates w of the fit's frame, with the covariance of q in w as the inverse mass matrix. They
are one compiled program with the data as arguments, so that another posterior of the same shapes uses it again.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, UInt32

from civi.errors import TargetError, require
from civi.family import SemiImplicit
from civi.inference.arguments import check_count
from civi.inference.draws import draw, weigh
from civi.inference.nuts import Reference
from civi.inference.programs import call, prepare
from civi.inference.seeds import Words, derived
from civi.problem.target import Target, outward
from civi.problem.target.base import points_at_a_time
from civi.progress import Say, silent

METRIC_DRAWS, START_DRAWS = 4000, 1000
DENSE = 300


class Chains(NamedTuple):
    """How many chains are run, for how long, and the acceptance probability that their step sizes aim at."""

    chains: int
    draws: int
    warmup: int
    accept: float

    def check(self) -> None:
        """Raise SettingError unless R-hat can be computed from chains of this length."""
        check_count("chains", self.chains, 2)
        check_count("draws", self.draws, 4)
        check_count("warmup", self.warmup)
        require(0 < self.accept < 1, f"accept must be in (0, 1), not {self.accept}")


def run_chains(family: SemiImplicit, target: Target, words: Words, plan: Chains, say: Say = silent) -> Reference:
    """Draws of NUTS chains that start at draws of q, in the coordinates z of the target.

    Args:
        family: the approximation q.
        target: the target on all its data, in the coordinates of the family.
        words: the seed.
        plan: number and length of the chains.
        say: shows what is being done.
    """
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin  # noqa: PLC0415 start-up time

    plan.check()
    say("drawing the metric and the starts")
    w = draw(family, target, derived(words, 0), METRIC_DRAWS).w
    starts = _starts(family, target, derived(words, 1), w, plan.chains)
    seeds = np.stack([derived(words, 2, chain)[:2] for chain in range(plan.chains)])
    accept = np.asarray(plan.accept, w.dtype)
    inputs = (target, starts, metric_of(w), seeds, accept, plan.warmup, plan.draws)
    say("compiling NUTS")
    prepare(_chains, *inputs, lasting=True)
    say(f"running {plan.chains} chains of {plan.warmup + plan.draws:,} transitions")
    found, diverging = jax.block_until_ready(call(_chains, *inputs, lasting=True))
    say("measuring R-hat and effective sample sizes")
    draws, divergences = np.asarray(found), int(np.asarray(diverging).sum())
    return Reference(draws, split_gelman_rubin(draws), effective_sample_size(draws), divergences)


def metric_of(draws: np.ndarray) -> np.ndarray:
    """The covariance (D, D) of draws (N, D), or their variances (D,) in more than DENSE dimensions."""
    wide = draws.shape[1] > DENSE
    return (draws.var(0, ddof=1) if wide else np.cov(draws, rowvar=False).reshape(2 * draws.shape[1:])).astype(
        draws.dtype
    )


def _starts(family: SemiImplicit, target: Target, words: Words, w: np.ndarray, chains: int) -> np.ndarray:
    """The first draws of q with a finite log p, one for each chain."""
    usable = np.isfinite(weigh(family, target, words, w[: max(START_DRAWS, chains)], 1).log_p)
    first = np.flatnonzero(usable)[:chains]
    if len(first) < chains:
        raise TargetError(f"log p is finite at only {usable.sum()} of {len(usable)} draws of q: fit again")
    return w[first]


def _chains(
    target: Any,
    starts_C: Float[Array, "C D"],
    metric: Array,
    seeds_C: UInt32[Array, "C 2"],
    accept: Float[Array, ""],
    warmup: int,
    draws: int,
) -> tuple[Float[Array, "C N D"], Bool[Array, "C N"]]:
    """All chains: their draws z, and which transitions diverged."""
    from numpyro.infer import NUTS  # noqa: PLC0415 start-up time

    kernel = NUTS(
        potential_fn=lambda w: -target.log_prob(w),
        step_size=starts_C.shape[1] ** -0.25,
        adapt_step_size=False,
        adapt_mass_matrix=False,
        inverse_mass_matrix=metric,
        dense_mass=metric.ndim == 2,
    )
    one = partial(_chain, kernel, accept, warmup, draws)
    if points_at_a_time(target) == 1:
        w_CN, diverging_CN = jax.lax.map(lambda inputs: one(*inputs), (starts_C, seeds_C))
    else:
        w_CN, diverging_CN = jax.vmap(one)(starts_C, seeds_C)
    return outward(target, w_CN), diverging_CN


def _chain(
    kernel: Any, accept: Array, warmup: int, draws: int, start: Float[Array, " D"], seed: UInt32[Array, " 2"]
) -> tuple[Float[Array, "N D"], Bool[Array, " N"]]:
    """One chain: dual averaging of the step size during the warm-up, then `draws` transitions with its average.

    NumPyro's own warm-up restarts the step size with each window for the mass matrix, also if that is fixed, and a
    short warm-up would end a few transitions after the last restart.
    """
    from numpyro.infer.hmc_util import dual_averaging  # noqa: PLC0415 start-up time

    begin, average = dual_averaging()
    state = kernel.init(seed, 0, init_params=start, model_args=(), model_kwargs={})

    def move(carried: tuple[Any, Any], time: Array) -> tuple[tuple[Any, Any], tuple[Array, Array]]:
        state = kernel.sample(carried[0], (), {})
        warm = time < warmup
        steps = jax.tree.map(partial(jnp.where, warm), average(accept - state.accept_prob, carried[1]), carried[1])
        log_step = jnp.where(time < warmup - 1, steps[0], steps[1])
        adapted = state.adapt_state._replace(step_size=jnp.exp(log_step))
        return (state._replace(adapt_state=adapted), steps), (state.z, state.diverging)

    steps = begin(jnp.log(10 * state.adapt_state.step_size))
    w_N, diverging_N = jax.lax.scan(move, (state, steps), jnp.arange(warmup + draws))[1]
    return w_N[warmup:], diverging_N[warmup:]
