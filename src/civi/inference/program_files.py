"""Compiled programs on disk, so that other processes need not compile them: JAX's own cache in a private folder."""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

from civi.errors import OutputError
from civi.files import as_path
from civi.folders import cache_folder

LARGEST = 2_000_000_000
CPU_FILE = Path("/proc/cpuinfo")


def keep_programs(folder: str | Path | None = None) -> Path:
    """Keep the programs that JAX compiles from now on in a folder, and load those that are there.

    A loaded program gives the same bits as one that is compiled in place. Programs are executed when they are used, so
    the folder is created for its owner alone, and one that others can write to is refused. If it holds more than 2 GB,
    the files that were written first are deleted.

    Args:
        folder: where to keep them; by default a folder for this type of processor, in `programs` of CIVI_CACHE_DIR or
            of the user's cache folder.

    Returns:
        The folder.

    Example:
        >>> import civi, os, tempfile
        >>> folder = os.path.join(tempfile.mkdtemp(), "programs")
        >>> civi.keep_programs(folder).name
        'programs'
    """
    path = cache_folder("programs") / _machine() if folder is None else as_path(folder)
    _make_private(path)
    _delete_oldest(path)
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    compilation_cache.reset_cache()
    return path


def _machine() -> str:
    """The type of the processor and a digest of its instruction set, because programs are compiled for it."""
    name = platform.machine() or "unknown"
    try:
        lines = [
            line for line in CPU_FILE.read_text().splitlines() if line.startswith(("model name", "flags", "Features"))
        ]
    except OSError:
        lines = [platform.processor()]
    return f"{name}-{hashlib.sha256(repr(sorted(set(lines))).encode()).hexdigest()[:12]}"


def _make_private(path: Path) -> None:
    """Create the folder; raises OutputError if that fails or if others could write to it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        open_to_others = path.stat().st_mode & 0o022
    except OSError as error:
        raise OutputError(f"cannot keep programs in {path}: {error.strerror or error}") from error
    if open_to_others:
        raise OutputError(f"others can write to {path}, and programs in it are executed: run chmod go-w on it first")


def _delete_oldest(path: Path) -> None:
    """Delete the files that were written first until LARGEST bytes are left."""
    found = [(file, file.stat()) for file in path.iterdir() if file.is_file()]
    total = sum(status.st_size for _, status in found)
    for file, status in sorted(found, key=lambda pair: pair[1].st_mtime):
        if total <= LARGEST:
            return
        file.unlink(missing_ok=True)
        total -= status.st_size
