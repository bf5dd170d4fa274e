"""What a problem is: min over theta of E_nu[ f_nu( E_omega[ g_omega(theta) ] ) ], as Algorithm 1 sees it.

The inner mean y = E_omega[g_omega(theta)] has an entry for every outer sample. A problem knows its own data, batches
and warm-up; the engine (`civi.solver.engine`) knows none of them. Its trained arrays are declared with `civi.parts`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Array, Float, Int, PRNGKeyArray

from civi.estimate import Look, Sketch
from civi.tracker import Pool
from civi.update import SampleSizes


class Inner(NamedTuple):
    """Randomness of one look: `count` inner samples are drawn from `key`, and the first `kept` of them are used."""

    key: PRNGKeyArray
    count: int  # type: ignore[assignment]
    kept: Int[Array, ""]


class Chunk(NamedTuple):
    """The outer samples in use, and a key that changes with them: data drawn from it are kept as long as the chunk."""

    outer: Any
    key: PRNGKeyArray


class InitDraws(NamedTuple):
    """Randomness before the first step: of the pool, of the data of each chunk, and of the first look."""

    pool_key: PRNGKeyArray
    chunk_key: PRNGKeyArray
    inner: Inner


class StepDraws(NamedTuple):
    """Randomness of one step: of nu (K1), of the sketch, of the look (K2) and of the auxiliary look (K3)."""

    nu_key: PRNGKeyArray
    sketch_key: PRNGKeyArray
    inner: Inner
    auxiliary: Inner


@runtime_checkable
class Nu(Protocol):
    """The draws of nu: which entries of the chunk enter this step's gradient."""

    @property
    def index_S(self) -> Int[Array, " S"]:
        """Positions of these entries in the chunk."""
        ...


@runtime_checkable
class Problem(Protocol):
    """One of PosteriorProblem, AutoencoderProblem and OracleProblem."""

    def check(self) -> None:
        """Raise an error if the problem cannot be evaluated, before anything is compiled."""
        ...

    def first_values(self, key: PRNGKeyArray, count: int) -> tuple[Array, Array]:
        """Points and values of log p there, which must be finite for training to start."""
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
        """nu_1 .. nu_K1 over the chunk, sketched."""
        ...

    def look(self, chunk: Chunk, nu: Any, inner: Inner, t: Float[Array, ""]) -> Look:
        """Oracle_g: the inner mean of these entries (all entries for nu = None) from fresh inner samples."""
        ...

    def weight(self, t: Float[Array, ""]) -> Float[Array, ""]:
        """A factor of the objective at step t, for a warm-up; 1 without one."""
        ...
