"""What a tracker is: an estimate y of the inner mean E[g(theta_t)] that outlives one step.

    observe   before the gradient: the denominator log y for this step's outer samples, given this step's log ratios
    refresh   after the primary update: the auxiliary update, which may call the oracle again (K3 fresh inner samples)

A tracker keeps the plain inner mean in the scale of the look, which is log space unless the problem says otherwise. The
own term of the safe bound is mixed in where y is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Array, Bool, Float, Int

from civi.estimate import Look

Params = Any


class Tracked(NamedTuple):
    """The denominators of one step, and how many inner samples each effectively averages (K_eff)."""

    y_S: Float[Array, " S"]
    effective_S: Float[Array, "*S"]


class Auxiliary(NamedTuple):
    """What a tracker may use after the primary update: both iterates, which samples are new, and another look."""

    before: Params
    after: Params
    new_J: Bool[Array, " J"]
    look: Callable[[Params], Look]


@runtime_checkable
class Tracker(Protocol):
    """One of none, smoothed, extrapolated, ring, bank."""

    def init(self, look: Any, inner: int) -> Any:
        """The state before the first step, from the first chunk's look at theta_1 and the largest K2 of the run."""
        ...

    def observe(self, state: Any, look: Any, index_S: Int[Array, " S"]) -> tuple[Tracked, Any]:
        """Denominators for the outer samples `index_S` of the chunk, from a look at them."""
        ...

    def refresh(self, state: Any, auxiliary: Auxiliary) -> Any:
        """The auxiliary update."""
        ...
