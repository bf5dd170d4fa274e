"""Base class of the semi-implicit problems: outer samples come from a pool, and f_nu(y) = log y_nu."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from civi.estimate import LogRatios, Picked, Sketch, log_ratios
from civi.family import Outer, SemiImplicit
from civi.problem.base import Chunk, InitDraws, Inner, StepDraws
from civi.problem.control import TrainedFrame, steadied
from civi.tracker import Pool
from civi.update import SampleSizes

LogProbEach = Callable[[Float[Array, "J D"]], Float[Array, " J"]]


class SemiImplicitProblem(eqx.Module):
    """neg_elbo = E_j[ log E_k q(z_j | eps_k) - log p(x, z_j) ]: the paper's Eq. Final, with f_nu(y) = log y_nu."""

    @abstractmethod
    def draw_outer(self, key: PRNGKeyArray, count: int) -> Outer:
        """(u_j, eps_j) ~ q(u) q(eps)."""

    @property
    @abstractmethod
    def has_batches(self) -> bool:
        """Whether a step sees only a batch of the data."""

    @property
    @abstractmethod
    def trained_frame(self) -> TrainedFrame | None:
        """The frame of the target, if it is trained and its gradient needs a control variate."""

    @abstractmethod
    def on_batch(
        self, key: PRNGKeyArray, t: Float[Array, ""] | None = None, nu: Picked | None = None
    ) -> tuple[SemiImplicit, LogProbEach]:
        """The family and the function z_J -> log p(x, z_J), both for the mini-batch drawn from `key`.

        Args:
            key: draws the mini-batch.
            t: the step, for the warm-up; None: no warm-up.
            nu: the selected outer samples, for problems where every outer sample has its own datum; None: all.
        """

    def pool(self, pool: Pool, outer: int) -> Pool:
        """The pool with its chunk size filled in. Every chunk has its own mini-batch, so it is replaced as a whole."""
        pool.check_batches(self.has_batches)
        return pool.filled(outer)

    def init_draws(self, sizes: SampleSizes, key: PRNGKeyArray) -> InitDraws:
        pool_key, inner_key, chunk_key = jax.random.split(key, 3)
        return InitDraws(pool_key, chunk_key, _inner(inner_key, sizes, "auxiliary", jnp.asarray(1.0)))

    def step_draws(self, sizes: SampleSizes, t: Float[Array, ""], key: PRNGKeyArray) -> StepDraws:
        nu_key, sketch_key, inner_key, auxiliary_key = jax.random.split(solver_key(key), 4)
        inner, auxiliary = _inner(inner_key, sizes, "inner", t), _inner(auxiliary_key, sizes, "auxiliary", t)
        return StepDraws(nu_key, sketch_key, inner, auxiliary)

    def draw_nu(self, pool: Pool, sizes: SampleSizes, sketch: Sketch, t: Float[Array, ""], draws: StepDraws) -> Picked:
        """The share count_j / K1 of every outer sample of the chunk, reduced to the subset that the sketch keeps."""
        share_J = pool.shares(sizes.at("outer", t), sizes.most("outer"), draws.nu_key)
        return sketch.pick(share_J, draws.sketch_key)

    def look(self, chunk: Chunk, nu: Picked | None, inner: Inner, t: Float[Array, ""]) -> LogRatios:
        """log g_j of the outer samples nu (None: the whole chunk), from K_t fresh inner samples."""
        family, log_prob_each = self.on_batch(chunk.key, t, nu)
        outer: Any = chunk.outer if nu is None else nu.of(chunk.outer)
        inner_eps = family.noise.sample(inner.key, inner.count)
        ratios, frame = log_ratios(family, log_prob_each, outer, inner_eps, inner.kept), self.trained_frame
        return ratios if frame is None else steadied(ratios, outer, frame)

    def weight(self, t: Float[Array, ""]) -> Float[Array, ""]:
        return jnp.ones(())


def solver_key(key: PRNGKeyArray) -> PRNGKeyArray:
    """The half of a step's key that the solver uses; the other half selects the iterate for output=uniform."""
    return jax.random.split(key)[0]


def _inner(key: PRNGKeyArray, sizes: SampleSizes, kind: str, t: Float[Array, ""]) -> Inner:
    return Inner(key, sizes.most(kind), sizes.at(kind, t))
