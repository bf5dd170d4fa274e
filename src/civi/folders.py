"""Where files that can be made or fetched again are kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(kind: str) -> Path:
    """The folder `kind` below CIVI_CACHE_DIR, or below civi in the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("CIVI_CACHE_DIR") or Path(home) / "civi") / kind
