"""What a pilot is: it looks at a target and gives it back in coordinates where it is about standard normal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from civi.problem.target import Target


@runtime_checkable
class Pilot(Protocol):
    """One of none, laplace, gaussian."""

    def look(self, target: Target) -> Target:
        """The target, framed."""
        ...


class Guesses(NamedTuple):
    """Draws of the Gaussian that each start of a pilot ended with (start, draw, dim), and its ELBO."""

    draws: np.ndarray
    elbo: np.ndarray


@dataclass(frozen=True)
class NoPilot:
    """The target as it is, an autoencoder too."""

    def look(self, target: Any) -> Any:
        return target
