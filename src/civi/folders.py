"""Where files are kept that can be made or fetched again."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def cache_folder(kind: str) -> Path:
    """The folder `kind` below CIVI_CACHE_DIR, or below civi in the user's cache folder."""
    return Path(os.environ.get("CIVI_CACHE_DIR") or platformdirs.user_cache_path("civi")) / kind
