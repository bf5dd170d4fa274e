"""Import of ArviZ, on first use and without its warning."""

from __future__ import annotations

import warnings
from typing import Any


def import_arviz() -> Any:
    """Import ArviZ without its FutureWarning about the next version. The import is slow: call this only on use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz  # noqa: PLC0415 start-up time
    return arviz
