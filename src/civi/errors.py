"""Errors that the user can correct. Messages say what was wrong and what to do; the CLI prints them in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

CALLED_IN_JIT = "civi runs its own compiled programs: call it outside of jit, vmap and grad"


class CiviError(Exception):
    """An error that the user can correct; the message says how.

    Example:
        >>> import civi
        >>> try:
        ...     civi.Architecture(scale=-1.0)
        ... except civi.CiviError as error:
        ...     print(error)
        family.scale must be positive and at most 1e+12, not -1
    """


class SettingError(CiviError, ValueError):
    """A setting is out of range, or a name does not exist."""


class TargetError(CiviError, ValueError):
    """A log density or a model cannot be fitted."""


class DataError(CiviError, ValueError):
    """A data file is missing, damaged or unusable."""


class OutputError(CiviError, OSError):
    """A folder or file cannot be written, or must not be overwritten."""


class CheckpointError(CiviError, RuntimeError):
    """A checkpoint is missing, damaged, or belongs to another run."""


class DistributedError(CiviError, RuntimeError):
    """A run on several devices cannot start or continue."""


class DependencyError(CiviError, ImportError):
    """An optional package is missing, or its version does not serve."""


def unknown(what: str, name: str, known: Iterable[str]) -> SettingError:
    """The error for an unknown name, with the closest known name as a suggestion.

    Args:
        what: the kind of thing, for example "solver".
        name: the unknown name.
        known: all valid names.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return SettingError(f"unknown {what} '{name}': {hint}known: {', '.join(names)}")


def require(condition: bool, message: str) -> None:
    """Raise SettingError with this message unless the condition holds."""
    if not condition:
        raise SettingError(message)
