"""The cache folder, for files that can be recomputed or downloaded again."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def cache_folder(kind: str) -> Path:
    """The subfolder `kind` of CIVI_CACHE_DIR, or of `civi` in the user's cache folder if that is not set."""
    return Path(os.environ.get("CIVI_CACHE_DIR") or platformdirs.user_cache_path("civi")) / kind
