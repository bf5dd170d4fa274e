"""The interface of pilots. A pilot returns the target in a frame: coordinates where it is about standard normal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from civi.problem.target import Target


@runtime_checkable
class Pilot(Protocol):
    """A pilot: none, laplace or gaussian."""

    def look(self, target: Target) -> Target:
        """The target in the frame that the pilot finds for it."""
        ...


class Guesses(NamedTuple):
    """The Gaussians that a pilot found from its starts: draws of each, (start, draw, dim), and the ELBO of each."""

    draws: np.ndarray
    elbo: np.ndarray


@dataclass(frozen=True)
class NoPilot:
    """No pilot: returns the target, or the data of an autoencoder, unchanged."""

    def look(self, target: Any) -> Any:
        return target
