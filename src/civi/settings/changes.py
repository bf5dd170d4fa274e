"""Changes to settings: apply `name=value` from the command line, and list the differences between two settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from civi.errors import SettingError, unknown
from civi.settings.fields import Field, check_value, fields_of, is_part, names
from civi.settings.values import parse


def override(settings: Any, assignments: Iterable[str]) -> Any:
    """Apply assignments `name=value` all at once, so that only the final result must be valid.

    Args:
        settings: a settings dataclass.
        assignments: texts such as "tracker.beta=0.3", where dots lead into parts; the last one for a name wins.
    """
    changes: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, value = assignment.partition("=")
        if not equals or not path.strip():
            raise SettingError(f"'{assignment}' is not of the form name=value, for example tracker.beta=0.3")
        _plant(changes, path.strip().split("."), value.strip())
    return _changed(settings, changes, "")


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """The differences between two results of `describe`, one line per setting."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(name for name in new if name not in old)]
        return [line for name in keys for line in differences(old.get(name), new.get(name), f"{path}.{name}")]
    return [] if old == new else [f"{path.lstrip('.')}: {old} -> {new}"]


def _plant(changes: dict[str, Any], path: list[str], value: str) -> None:
    head, *rest = path
    branch = changes.setdefault(head, {})
    if rest:
        _plant(branch, rest, value)
    else:
        branch["="] = value


def _changed(settings: Any, changes: dict[str, Any], path: str) -> Any:
    known = fields_of(settings)
    new: dict[str, Any] = {}
    for name, change in changes.items():
        full = f"{path}{name}"
        if not known:
            part = path.rstrip(".")
            raise SettingError(
                f"unknown setting '{full}': the chosen {part} has no settings: leave it out or choose another {part}"
            )
        if name not in known:
            raise unknown("setting", full, [path + other for other in known])
        value = getattr(settings, name)
        if "=" in change:
            value = _parsed(full, change.pop("="), known[name], value)
        if change and not is_part(value):
            raise SettingError(f"'{full}' has no settings below it: set it with {full}=value")
        new[name] = _changed(value, change, f"{full}.") if change else value
    return replace(settings, **new)


def _parsed(path: str, text: str, field: Field, current: Any) -> Any:
    """Parse a text as the value of a setting; raises SettingError that says what the value must be."""
    if field.choice:
        if text not in field.choice.members:
            raise unknown(path.rpartition(".")[2], text, field.choice.members)
        return text if field.hint is str else field.choice.members[text]()
    if is_part(current):
        parts = ", ".join(f"{path}.{name}" for name in names(current))
        raise SettingError(f"'{path}' is a group of settings: set one of {parts}")
    try:
        value = parse(field.hint, text)
    except ValueError:
        raise SettingError(f"{path} must be {field.words}, not '{text}'") from None
    check_value(path, field, value, f"'{text}'")
    return value
