"""Errors with a message for the user: what was wrong and what to do. The command line prints them in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CiviError(Exception):
    """Something the user can mend; the message says how."""


class SettingError(CiviError, ValueError):
    """A setting outside its range, or a name that does not exist."""


class TargetError(CiviError, ValueError):
    """A log density that cannot be fitted as it is."""


class DataError(CiviError, ValueError):
    """A data file that is missing, damaged, or cannot be used."""


class OutputError(CiviError, OSError):
    """A folder or file that cannot be written, or must not be overwritten."""


class CheckpointError(CiviError, RuntimeError):
    """A checkpoint that is missing, damaged, or belongs to another run."""


class DistributedError(CiviError, RuntimeError):
    """A run on many devices that cannot be started or go on."""


def unknown(what: str, name: str, known: Iterable[str]) -> SettingError:
    """The error for a name that does not exist, with the nearest that does."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return SettingError(f"unknown {what} '{name}': {hint}known: {', '.join(names)}")


def require(condition: bool, message: str) -> None:
    """Raise SettingError with this message unless the condition holds."""
    if not condition:
        raise SettingError(message)
