"""What a pilot is: it looks at a target and gives it back in coordinates where it is about standard normal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from civi.problem.target import Target


@runtime_checkable
class Pilot(Protocol):
    """One of none, laplace, gaussian."""

    def look(self, target: Target) -> Target:
        """The target, framed."""
        ...


@dataclass(frozen=True)
class NoPilot:
    """The target as it is, an autoencoder too."""

    def look(self, target: Any) -> Any:
        return target
