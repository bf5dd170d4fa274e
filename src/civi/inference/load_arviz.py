"""ArviZ before version 1, which is optional: its import on first use, and the conversion to its InferenceData."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from civi.errors import DependencyError

if TYPE_CHECKING:
    from xarray import Dataset

INSTEAD = "use posterior.to_datatree(key), which ArviZ 1 reads, or install 'arviz<1' (Python 3.11: 'civi[arviz]')"


def import_arviz() -> Any:
    """Import ArviZ < 1 without its FutureWarning about the next version. The import is slow: call this only on use.

    On import ArviZ notes in the user's cache folder when it last showed this warning, and fails if the folder cannot be
    created. It then gets a temporary folder instead.
    """
    try:
        found = version("arviz")
    except PackageNotFoundError:
        raise DependencyError(f"ArviZ is not installed: {INSTEAD}") from None
    if int(found.split(".")[0]) >= 1:
        raise DependencyError(f"ArviZ {found} has no InferenceData: {INSTEAD}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            import arviz  # noqa: PLC0415 start-up time
        except OSError:
            folder = tempfile.TemporaryDirectory(prefix="civi-")
            with folder as name, patch("platformdirs.user_cache_dir", lambda *_, **__: name):
                import arviz  # noqa: PLC0415 start-up time
    return arviz


def inference_data(groups: Mapping[str, Dataset]) -> Any:
    """The data sets as arviz.InferenceData; raises DependencyError without ArviZ < 1."""
    return import_arviz().InferenceData(**groups)
