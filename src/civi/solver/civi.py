"""CI-VI (Algorithms 1 and 2): State, Info, init, step.

noise -> mixing network -> conditional -> log ratios -> tracker -> gradient -> primary update -> auxiliary update
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from civi.errors import require
from civi.estimate import LogRatios, Sketch, log_ratios, mix_own
from civi.family import Architecture, Outer, SemiImplicit
from civi.problem.autoencoder import Batch
from civi.solver.base import OUTPUTS, Info, Model, Settings, groups, split
from civi.tracker import TRACKERS, Auxiliary, Bank, Pool, PoolState, Start, Tracked, Tracker
from civi.update import UPDATES, FirstOrder, Samples, Update

INNER_MEANS = ("safe", "plain")
WEIGHS = ("entropy", "ratio")


class CiviState(NamedTuple):
    """What the next step needs."""

    params: Model
    optimiser: optax.OptState
    pool: PoolState
    pool_key: PRNGKeyArray
    data_key: PRNGKeyArray
    tracker: Any


class Evaluated(NamedTuple):
    """What the gradient leaves behind: the tracker after `observe`, weights k and the value of the objective."""

    tracker: Any
    weight_S: Float[Array, " S"]
    neg_elbo: Float[Array, ""]


@dataclass(frozen=True)
class Civi:
    """Compositional implicit variational inference.

    inner_mean = safe mixes the own term into numerator and denominator with weight 1/(K_eff + 1); plain is the paper's.
    weigh = entropy weights only grad log q by k (p does not depend on the inner noise); ratio weights grad log g.
    warm_up = steps over which an autoencoder's KL to the prior gets its full weight, as t / warm_up (0: at once).
    """

    steps: int = 3000
    samples: Samples = field(default_factory=Samples)
    pool: Pool = field(default_factory=Pool)
    inner_mean: str = "safe"
    tracker: Tracker = field(default_factory=Bank, metadata={"kinds": TRACKERS})
    weigh: str = "entropy"
    sketch: Sketch = field(default_factory=Sketch)
    update: Update = field(default_factory=FirstOrder, metadata={"kinds": UPDATES})
    output: str = "last"
    warm_up: int = 0

    def __post_init__(self) -> None:
        require(self.warm_up >= 0, f"warm_up must not be negative (0: none), not {self.warm_up}")
        require(self.steps >= 1, f"steps must be at least 1, not {self.steps}")
        for name, allowed in {"inner_mean": INNER_MEANS, "weigh": WEIGHS, "output": OUTPUTS}.items():
            value = getattr(self, name)
            require(value in allowed, f"{name} must be one of {', '.join(allowed)}, not '{value}'")
        each = self.pool.draw == "each"
        require(
            not each or self.pool.chunk in (0, self.samples.outer),
            f"pool.draw = each uses all {self.pool.chunk} samples of the chunk: set samples.outer to the same number",
        )
        require(not each or not self.samples.growth, "samples.growth needs pool.draw = uniform, so that K1 can grow")
        message = "samples.batch keeps a batch of data with its chunk of outer samples: set pool.renew to 1"
        require(not self.samples.batch or self.pool.renew == 1, message)
        self._chunked_pool()

    def _chunked_pool(self) -> Pool:
        return replace(self.pool, chunk=self.pool.chunk or self.samples.outer)

    def init(self, model: Model, key: PRNGKeyArray) -> CiviState:
        """theta_1, the first chunk, and log y_1 = log g(theta_1)."""
        pool_key, inner_key, data_key = jax.random.split(key, 3)
        params, fixed = split(model)
        pool = self._chunked_pool().init(model.family.draw_outer, pool_key)
        batch_key = self._batch_key(data_key, pool)
        _, ratios = self._oracle(params, fixed, batch_key, None, pool.outer, "auxiliary", jnp.asarray(1.0), inner_key)
        tracker = self.tracker.init(Start(ratios, self.samples.most("inner", self.steps)))
        return CiviState(params, self._optimiser(params).init(params), pool, pool_key, data_key, tracker)

    def step(self, fixed: Model, state: CiviState, t: Int[Array, ""], key: PRNGKeyArray) -> tuple[CiviState, Info]:
        """One iteration of Algorithm 1."""
        share_key, sketch_key, inner_key, auxiliary_key = jax.random.split(key, 4)
        t = jnp.asarray(t, float)
        pool = self._chunked_pool()
        draw_outer = eqx.combine(state.params, fixed).family.draw_outer
        batch_key = self._batch_key(state.data_key, state.pool)

        outer_count = self.samples.at("outer", t, self.steps)
        share_J = pool.shares(outer_count, self.samples.most("outer", self.steps), share_key)
        picked = self.sketch.pick(share_J, sketch_key)
        subset_S = None if self.sketch.form == "none" else picked.index_S
        outer_S = jax.tree.map(lambda values_J: values_J if subset_S is None else values_J[subset_S], state.pool.outer)

        def objective(params: Model) -> tuple[Array, Evaluated]:
            seen = self._oracle(params, fixed, batch_key, subset_S, outer_S, "inner", t, inner_key)
            tracked, tracker = self.tracker.observe(state.tracker, *jax.lax.stop_gradient(seen), picked.index_S)
            _, ratios = seen
            value, evaluated = self._weighted(ratios, tracked, tracker, picked.share_S)
            return self._warmth(t) * value, evaluated

        gradient, seen = jax.grad(objective, has_aux=True)(state.params)

        change, optimiser = self._optimiser(state.params).update(gradient, state.optimiser, state.params)
        params = optax.apply_updates(state.params, change)

        next_pool, new_J = pool.advance(state.pool, draw_outer, state.pool_key)

        def oracle(query: Model) -> LogRatios:
            next_key = self._batch_key(state.data_key, next_pool)
            return self._oracle(query, fixed, next_key, None, next_pool.outer, "auxiliary", t, auxiliary_key)[1]

        tracker = self.tracker.refresh(seen.tracker, Auxiliary(state.params, params, new_J, oracle))

        weight_mean, weight_sd = _mean_and_sd(seen.weight_S, picked.share_S)
        info = Info(seen.neg_elbo, weight_mean, weight_sd, optax.tree.norm(gradient), acceptance=jnp.ones(()))
        return CiviState(params, optimiser, next_pool, state.pool_key, state.data_key, tracker), info

    def _warmth(self, t: Float[Array, ""]) -> Float[Array, ""]:
        """The weight of the KL to the prior: that of log p(x | z) is 1, so that Adam sees gradients of one size."""
        return jnp.minimum(t / self.warm_up, 1.0) if self.warm_up else jnp.ones(())

    def _batch_key(self, key: PRNGKeyArray, pool: PoolState) -> PRNGKeyArray:
        """For this chunk's data: y_j is only comparable with g_j on the same batch, so both are renewed together."""
        return jax.random.fold_in(key, pool.next_block)

    def _oracle(
        self,
        params: Model,
        fixed: Model,
        batch_key: PRNGKeyArray,
        index_S: Int[Array, " S"] | None,
        outer: Outer,
        kind: str,
        t: Float[Array, ""],
        key: PRNGKeyArray,
    ) -> tuple[SemiImplicit, LogRatios]:
        """Oracle_g: log ratios at these parameters from K_t fresh inner samples of this kind (K2 or K3)."""
        family, target = eqx.combine(params, fixed).on_batch(batch_key, self.samples.batch, index_S)
        if self.warm_up:
            require(isinstance(target, Batch), "warm_up is for autoencoders, whose prior is known: leave it at 0")
            target = cast(Batch, target).weighted(1 / self._warmth(t))
        inner_eps = family.noise.sample(key, self.samples.most(kind, self.steps))
        kept = self.samples.at(kind, t, self.steps)
        return family, log_ratios(family, target, outer, inner_eps, kept)

    def _weighted(
        self, ratios: LogRatios, tracked: Tracked, tracker: Any, share_S: Float[Array, " S"]
    ) -> tuple[Array, Evaluated]:
        """sum_j share_j k_j log g_j with constant k_j = g_j / y_j (Eq. Logscale), whose gradient is the paper's."""
        log_g_S, log_y_S = ratios.fresh_J, tracked.log_y_S
        if self.inner_mean == "safe":
            own_weight = 1 / (tracked.effective_S + 1)
            log_g_S = mix_own(log_g_S, ratios.own_J, own_weight)
            log_y_S = mix_own(log_y_S, ratios.own_J, own_weight)
        log_y_S = jax.lax.stop_gradient(log_y_S)
        weight_S = jnp.exp(jax.lax.stop_gradient(log_g_S) - log_y_S)
        weight_of_p_S = weight_S if self.weigh == "ratio" else jnp.ones_like(weight_S)
        log_q_S = log_g_S + ratios.log_p_J
        objective = share_S @ (weight_S * log_q_S - weight_of_p_S * ratios.log_p_J)
        return objective, Evaluated(tracker, weight_S, _weighted_mean(log_y_S, share_S))

    def _optimiser(self, params: Model) -> optax.GradientTransformation:
        return self.update.transformation(groups(params), self.steps)


def _mean_and_sd(values: Float[Array, " S"], share: Float[Array, " S"]) -> tuple[Array, Array]:
    mean = _weighted_mean(values, share)
    return mean, jnp.sqrt(_weighted_mean((values - mean) ** 2, share))


def _weighted_mean(values: Float[Array, " S"], share: Float[Array, " S"]) -> Float[Array, ""]:
    """The mean by shares; a sketch may have picked only samples that nu did not draw, and then all count alike."""
    weight = jnp.where(share.sum() > 0, share, 1.0)
    return weight @ values / weight.sum()


def civi(family: Architecture) -> Settings:
    """CI-VI: tracked inner mean (bank of mixing outputs), safe bound, Adam."""
    return Settings(family, Civi())
