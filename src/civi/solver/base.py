"""The protocol `Solver`: settings, an initial state and one training step. Everything else is in the training loop."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Array, Float, Int, PRNGKeyArray

from civi.family import Architecture
from civi.problem.base import Problem
from civi.update import FirstOrder, Samples, Update

Steps = Annotated[int, "Number of training steps."]
Output = Annotated[
    Literal["last", "average", "uniform"],
    "Which iterate is returned: the last, the average of the second half of the run, or one drawn uniformly.",
]


class Info(NamedTuple):
    """Diagnostics of one step; `acceptance` is the acceptance rate of the HMC chains, or 1 for methods without HMC."""

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
        """Number of steps of a run."""
        ...

    @property
    def output(self) -> str:
        """Which iterate is returned: last, average or uniform."""
        ...

    def init(self, problem: Problem, key: PRNGKeyArray) -> Any:
        """The state before the first step; its field `params` is theta_1."""
        ...

    def step(self, fixed: Problem, state: Any, t: Int[Array, ""], key: PRNGKeyArray) -> tuple[Any, Info]:
        """Step t = 1, 2, ...

        Args:
            fixed: the problem without its trained arrays, which are in `state.params`.
            state: the state after step t - 1.
            t: the step.
            key: randomness of this step.
        """
        ...


class Defaults(NamedTuple):
    """A recipe's sample sizes and update, for the solvers that do not set their own."""

    samples: Samples = Samples()
    update: Update = FirstOrder()


DEFAULTS = Defaults()


class Method(NamedTuple):
    """A named solver: the architecture of the family, and the solver that fits it."""

    family: Architecture
    solver: Any
