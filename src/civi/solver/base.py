"""What a solver is: its settings, and one step on a problem. The training loop owns everything else."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Array, Float, Int, PRNGKeyArray

from civi.family import Architecture
from civi.problem.base import Problem
from civi.update import FirstOrder, Samples, Update

Steps = Annotated[int, "Number of training steps."]
Output = Annotated[
    Literal["last", "average", "uniform"],
    "Which iterate is returned: the last, the average of all, or one drawn uniformly.",
]


class Info(NamedTuple):
    """Diagnostics of one step; acceptance is that of the inner Markov chain, 1 where a method has none."""

    neg_elbo: Float[Array, ""]
    weight_mean: Float[Array, ""]
    weight_sd: Float[Array, ""]
    gradient_norm: Float[Array, ""]
    acceptance: Float[Array, ""]


@runtime_checkable
class Solver(Protocol):
    """A method that trains the parameters of a problem."""

    @property
    def steps(self) -> int:
        """Length of a run."""
        ...

    @property
    def output(self) -> str:
        """Which iterate is returned: last, average or uniform."""
        ...

    def init(self, problem: Problem, key: PRNGKeyArray) -> Any:
        """The state before the first step; its field `params` is theta_1."""
        ...

    def step(self, fixed: Problem, state: Any, t: Int[Array, ""], key: PRNGKeyArray) -> tuple[Any, Info]:
        """Step t = 1, 2, ... on the trained arrays of the problem, given the rest of it."""
        ...


class Defaults(NamedTuple):
    """What a recipe chooses for every solver that does not itself say otherwise."""

    samples: Samples = Samples()
    update: Update = FirstOrder()


DEFAULTS = Defaults()


class Method(NamedTuple):
    """A named solver: the architecture of the family it fits, and how it fits it."""

    family: Architecture
    solver: Any
