"""Second players: networks that are trained beside q, with their own objective and optimiser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import equinox as eqx
import jax
import optax
from jaxtyping import Array, PRNGKeyArray

from civi.errors import require
from civi.settings import check_settings, self_checking

Loss = Callable[[Any, PRNGKeyArray], Array]
Hidden = Annotated[tuple[int, ...], "Widths of the hidden layers of the second player's networks."]


class PlayerState(NamedTuple):
    """A network and the state of its optimiser."""

    network: Any
    optimiser: optax.OptState


@self_checking
@dataclass(frozen=True)
class Training:
    """How a second player is trained: Adam on fresh draws of q."""

    updates: Annotated[int, "Updates of the second player per step; 0: it stays as it is."] = 1
    draws: Annotated[int | None, "Draws of q per update of the second player; none: samples.outer."] = None
    learning_rate: Annotated[float, "Learning rate of the second player."] = 1e-3

    def __post_init__(self) -> None:
        check_settings(self, "training")
        require(self.updates >= 0, f"training.updates must not be negative, not {self.updates}")
        some = self.draws is None or self.draws >= 1
        require(some, f"training.draws must be at least 1, or none (samples.outer), not {self.draws}")
        require(self.learning_rate > 0, f"training.learning_rate must be positive, not {self.learning_rate}")

    def init(self, network: Any) -> PlayerState:
        """The state before the first update."""
        return PlayerState(network, optax.adam(self.learning_rate).init(eqx.filter(network, eqx.is_array)))

    def improve(self, state: PlayerState, loss: Loss, key: PRNGKeyArray) -> PlayerState:
        """The state after `updates` updates, each on `loss(network, key)` with a key of its own."""
        rule = optax.adam(self.learning_rate)

        def update(state: PlayerState, key: PRNGKeyArray) -> tuple[PlayerState, None]:
            gradient = jax.grad(loss)(state.network, key)
            change, optimiser = rule.update(gradient, state.optimiser)
            return PlayerState(optax.apply_updates(state.network, change), optimiser), None

        return jax.lax.scan(update, state, jax.random.split(key, self.updates))[0] if self.updates else state
