"""The protocol `Problem`: min over theta of E_nu[ f_nu( E_omega[ g_omega(theta) ] ) ], as Algorithm 1 needs it.

The inner mean y = E_omega[g_omega(theta)] has an entry for every outer sample. A problem handles its own data,
mini-batches and warm-up; the engine (`civi.solver.engine`) knows nothing about them. A problem declares its trained
arrays with `civi.parts`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Array, Float, Int, PRNGKeyArray

from civi.estimate import Look, Sketch
from civi.tracker import Pool
from civi.update import SampleSizes


class Inner(NamedTuple):
    """Randomness of one look: `count` inner samples are drawn from `key`, and the first `kept` are used."""

    key: PRNGKeyArray
    count: int  # type: ignore[assignment]
    kept: Int[Array, ""]


class Chunk(NamedTuple):
    """The outer samples in use, and a key that changes with them, so that a mini-batch lasts as long as its chunk."""

    outer: Any
    key: PRNGKeyArray


class InitDraws(NamedTuple):
    """Randomness before the first step: for the pool, for the mini-batch of each chunk, and for the first look."""

    pool_key: PRNGKeyArray
    chunk_key: PRNGKeyArray
    inner: Inner


class StepDraws(NamedTuple):
    """Randomness of one step: for nu (K1), for the sketch, for the look (K2) and for the auxiliary look (K3)."""

    nu_key: PRNGKeyArray
    sketch_key: PRNGKeyArray
    inner: Inner
    auxiliary: Inner


@runtime_checkable
class Problem(Protocol):
    """Implemented by PosteriorProblem, AutoencoderProblem and OracleProblem."""

    def check(self) -> None:
        """Raise an error if the problem cannot be evaluated, before anything is compiled."""
        ...

    def first_values(self, key: PRNGKeyArray, count: int) -> tuple[Array, Array]:
        """`count` points and the values of log p at them, which are checked before training starts."""
        ...

    def pool(self, pool: Pool, outer: int) -> Pool:
        """The pool with its chunk size filled in; `outer` is K1."""
        ...

    def init_draws(self, sizes: SampleSizes, key: PRNGKeyArray) -> InitDraws:
        """Randomness before the first step."""
        ...

    def step_draws(self, sizes: SampleSizes, t: Float[Array, ""], key: PRNGKeyArray) -> StepDraws:
        """Randomness of step t."""
        ...

    def draw_outer(self, key: PRNGKeyArray, count: int) -> Any:
        """Noise of `count` outer samples, for the pool."""
        ...

    def draw_nu(self, pool: Pool, sizes: SampleSizes, sketch: Sketch, t: Float[Array, ""], draws: StepDraws) -> Any:
        """nu_1 .. nu_K1 over the chunk, reduced by the sketch.

        Args:
            pool: the pool with its chunk size filled in.
            sizes: K1 as a function of the step.
            sketch: which of the drawn entries are kept.
            t: the step.
            draws: randomness of the step.
        """
        ...

    def look(self, chunk: Chunk, nu: Any, inner: Inner, t: Float[Array, ""]) -> Look:
        """Oracle_g: the inner mean from fresh inner samples.

        Args:
            chunk: the outer samples in use.
            nu: the entries to evaluate; None: all.
            inner: randomness and number of the inner samples.
            t: the step, for the warm-up.
        """
        ...

    def weight(self, t: Float[Array, ""]) -> Float[Array, ""]:
        """Factor of the objective at step t, for the warm-up; 1 without a warm-up."""
        ...
