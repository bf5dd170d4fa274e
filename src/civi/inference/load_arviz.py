"""Import of ArviZ, on first use, without its warning and without its need for a home folder."""

from __future__ import annotations

import tempfile
import warnings
from typing import Any
from unittest.mock import patch


def import_arviz() -> Any:
    """Import ArviZ without its FutureWarning about the next version. The import is slow: call this only on use.

    On import ArviZ notes in the user's cache folder when it last showed this warning, and fails if the folder cannot be
    created. It then gets a temporary folder instead.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            import arviz  # noqa: PLC0415 start-up time
        except OSError:
            folder = tempfile.TemporaryDirectory(prefix="civi-")
            with folder as name, patch("platformdirs.user_cache_dir", lambda *_, **__: name):
                import arviz  # noqa: PLC0415 start-up time
    return arviz
