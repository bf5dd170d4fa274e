"""Pathwise objectives by name."""

from __future__ import annotations

from civi.objective.path import PathGradient

PATHWISE: dict[str, type] = {"path": PathGradient}
