"""Imports that need a word of care."""

from __future__ import annotations

import warnings
from typing import Any


def import_arviz() -> Any:
    """ArviZ, without its notice about a coming version; slow, so only where it is used."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz  # noqa: PLC0415 start-up time
    return arviz
