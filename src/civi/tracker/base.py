"""The protocol `Tracker`: an estimate y of the inner mean E[g(theta_t)] that is kept from step to step.

    observe   before the gradient: the denominator log y for this step's outer samples, given this step's look
    refresh   after the primary update: the auxiliary update, which may call the oracle again (K3 fresh inner samples)

A tracker stores the plain inner mean on the same scale as the look: in log space, unless the problem says otherwise.
The objective adds the own term of the safe mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Array, Bool, Float, Int

from civi.estimate import Look

Params = Any


class Tracked(NamedTuple):
    """The denominators of one step, and K_eff, the effective number of inner samples in each."""

    y_S: Float[Array, " S"]
    effective_S: Float[Array, "*S"]


class Auxiliary(NamedTuple):
    """Inputs of the auxiliary update: both iterates, which outer samples are new, and a function for another look."""

    before: Params
    after: Params
    new_J: Bool[Array, " J"]
    look: Callable[[Params], Look]


@runtime_checkable
class Tracker(Protocol):
    """Implemented by the classes in `TRACKERS`."""

    def init(self, look: Any, inner: int) -> Any:
        """The state before the first step.

        Args:
            look: a look at the whole first chunk, at theta_1.
            inner: the largest K2 of the run.
        """
        ...

    def observe(self, state: Any, look: Any, index_S: Int[Array, " S"]) -> tuple[Tracked, Any]:
        """The denominators of this step, and the new state.

        Args:
            state: the tracker's state.
            look: a look at the outer samples that the step uses.
            index_S: positions of these samples in the chunk.
        """
        ...

    def refresh(self, state: Any, auxiliary: Auxiliary) -> Any:
        """The state after the auxiliary update."""
        ...
