"""The lock of a run's folder: a file with the process and the host that write there.

The process holds a kernel lock (flock) on the file, which ends with the process, however it ends. A file that nobody
holds is left over from a process that was killed, and is replaced. On a file system without such locks, the file is
left over if its process is gone from this host; the processes of other hosts cannot be seen, and their lock is kept.
"""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from civi.errors import OutputError

NAME = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder, which is created if it does not exist, for as long as the block runs.

    Raises OutputError if another process holds the lock. A folder that was created and stayed empty is removed again.
    """
    new = _missing(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = _acquire(folder / NAME, folder)
    except OutputError:
        raise
    except OSError as error:
        _remove_empty(new)
        raise OutputError(f"cannot write to {folder}: {error.strerror or error}") from error
    try:
        yield
    finally:
        with suppress(OSError):
            (folder / NAME).unlink(missing_ok=True)
        os.close(descriptor)
        _remove_empty(new)


def _acquire(path: Path, folder: Path) -> int:
    """Open and lock the file and write this process into it; OutputError if another process holds it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not _lock(descriptor):
                raise OutputError(_refusal(folder, _holder(path)))
            if _same_file(path, descriptor):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock an open file without waiting; False if another process holds it."""
    try:
        import fcntl  # noqa: PLC0415 not on every platform

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return not _may_live(_parsed(os.pread(descriptor, 1000, 0)))
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        return not _may_live(_parsed(os.pread(descriptor, 1000, 0)))
    return True


def _may_live(holder: dict[str, Any]) -> bool:
    """Whether the process in a lock file may still run: it does on this host, or it belongs to another host."""
    if not holder:
        return False
    return holder["host"] != socket.gethostname() or (holder["pid"] != os.getpid() and _runs(holder["pid"]))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _same_file(path: Path, descriptor: int) -> bool:
    """Whether the open file still has this name: its last owner may have deleted it meanwhile."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _holder(path: Path) -> dict[str, Any]:
    with suppress(OSError):
        return _parsed(path.read_bytes()[:1000])
    return {}


def _parsed(content: bytes) -> dict[str, Any]:
    """Process and host in a lock file; empty if there is none or if it cannot be read."""
    with suppress(ValueError):
        holder = json.loads(content)
        if isinstance(holder, dict) and type(holder.get("pid")) is int and type(holder.get("host")) is str:
            return holder
    return {}


def _refusal(folder: Path, holder: dict[str, Any]) -> str:
    who = f"process {holder['pid']} on {holder['host']}" if holder else "another process"
    return f"{folder} is in use by {who}: wait until it ends or stop it, or choose another --out ({NAME} names it)"


def _missing(folder: Path) -> list[Path]:
    """The folder and those above it that do not exist, innermost first."""
    missing: list[Path] = []
    with suppress(OSError):
        for path in (folder, *folder.parents):
            if path.exists():
                break
            missing.append(path)
    return missing


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return
