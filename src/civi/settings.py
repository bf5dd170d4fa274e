"""Settings as data: every part of a run is a frozen dataclass, described as JSON and changed by `name=value`.

A field whose metadata has `kinds` holds one of several classes, chosen by name: `tracker=ring tracker.beta=0.2`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from civi.errors import SettingError, unknown


def describe(settings: Any) -> Any:
    """The settings as JSON values; a part chosen by name has its name under `kind`."""
    if not is_dataclass(settings):
        return list(settings) if isinstance(settings, tuple) else settings
    described: dict[str, Any] = {}
    for field in fields(settings):
        value = getattr(settings, field.name)
        kinds = field.metadata.get("kinds")
        described[field.name] = {"kind": _kind_name(value, kinds), **describe(value)} if kinds else describe(value)
    return described


def override(settings: Any, assignments: Iterable[str]) -> Any:
    """Apply all of `name=value` (dots reach into parts) at once, so that only the result must be valid."""
    changes: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, value = assignment.partition("=")
        if not equals or not path:
            raise SettingError(f"'{assignment}' is not of the form name=value, for example tracker.beta=0.3")
        _plant(changes, path.strip().split("."), value.strip())
    return _changed(settings, changes, "")


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Where two described settings differ, one line each."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [*old, *(name for name in new if name not in old)]
        return [line for name in names for line in differences(old.get(name), new.get(name), f"{path}.{name}")]
    return [] if old == new else [f"{path.lstrip('.')}: {old} -> {new}"]


def _plant(changes: dict[str, Any], path: list[str], value: str) -> None:
    head, *rest = path
    branch = changes.setdefault(head, {})
    if rest:
        _plant(branch, rest, value)
    else:
        branch["="] = value


def _changed(settings: Any, changes: dict[str, Any], path: str) -> Any:
    known = {field.name: field for field in fields(settings)}
    new: dict[str, Any] = {}
    for name, change in changes.items():
        full = f"{path}{name}"
        if name not in known:
            raise unknown("setting", full, [path + other for other in known])
        value, kinds = getattr(settings, name), known[name].metadata.get("kinds")
        if "=" in change:
            value = _chosen(full, change.pop("="), kinds) if kinds else _parsed(full, change.pop("="), value)
        if change and not is_dataclass(value):
            raise SettingError(f"'{full}' has no parts: set it as {full}=value")
        new[name] = _changed(value, change, f"{full}.") if change else value
    return replace(settings, **new)


def _chosen(path: str, name: str, kinds: dict[str, type]) -> Any:
    if name not in kinds:
        raise unknown(path, name, kinds)
    return kinds[name]()


def _parsed(path: str, text: str, current: Any) -> Any:
    if is_dataclass(current):
        parts = ", ".join(f"{path}.{field.name}" for field in fields(current))
        raise SettingError(f"'{path}' is a group of settings: set one of {parts}")
    try:
        if isinstance(current, bool):
            return {"true": True, "false": False}[text.lower()]
        if isinstance(current, tuple):
            return tuple(int(part) for part in text.split(",") if part)
        return type(current)(text)
    except (ValueError, KeyError):
        kind = {"int": "a whole number", "float": "a number", "bool": "true or false", "tuple": "numbers with commas"}
        raise SettingError(f"{path} must be {kind[type(current).__name__]}, not '{text}'") from None


def _kind_name(value: Any, kinds: dict[str, type]) -> str:
    return next((name for name, kind in kinds.items() if type(value) is kind), type(value).__name__)
