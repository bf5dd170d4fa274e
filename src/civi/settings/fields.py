"""The annotated fields of a settings dataclass: describe them as JSON, list them and check their values."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from numbers import Real
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from civi.errors import SettingError, unknown
from civi.settings.values import fault, shown, spell, words

Kind = TypeVar("Kind", bound=type)


@dataclass(frozen=True, eq=False)
class Choice:
    """Annotates a field that holds an instance of one of the classes `members` or, for type str, one of their names."""

    members: Mapping[str, Any]

    def name_of(self, value: Any) -> str:
        """The registered name of a part's class, or its Python name if it is a user's class."""
        return next((name for name, kind in self.members.items() if type(value) is kind), type(value).__name__)


class Setting(NamedTuple):
    """A row in the list of settings; the value is written as `override` accepts it."""

    name: str
    type: str
    value: str
    meaning: str


class Field(NamedTuple):
    """The parsed annotation of a field."""

    hint: Any
    choice: Choice | None
    meaning: str

    @property
    def words(self) -> str:
        return f"one of {', '.join(self.choice.members)}" if self.choice else words(self.hint)


def fields_of(settings: Any) -> dict[str, Field]:
    """The fields of a settings dataclass, by name."""
    kind: Any = type(settings)
    return _declared(kind)


@cache
def _declared(kind: type) -> dict[str, Field]:
    """The fields of a class.

    `get_type_hints` returns nothing for a class that is `self_checking`, so it is given the bare annotations.
    """
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        own = SimpleNamespace(__annotations__=vars(base).get("__annotations__", {}))
        hints |= get_type_hints(own, vars(sys.modules[base.__module__]), include_extras=True)
    return {field.name: _field(hints[field.name]) for field in fields(kind)}


def _field(hint: Any) -> Field:
    bare, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    choice = next((note for note in notes if isinstance(note, Choice)), None)
    return Field(bare, choice, next((note for note in notes if isinstance(note, str)), ""))


def names(settings: Any) -> list[str]:
    """The names of the top-level settings and groups of settings."""
    return list(fields_of(settings))


def describe(settings: Any) -> Any:
    """The settings as JSON values; a part that is chosen by name has this name under the key `kind`."""
    if isinstance(settings, Mapping):
        return dict(settings)
    if isinstance(settings, tuple):
        return [describe(item) for item in settings]
    if not is_dataclass(settings):
        return settings.item() if isinstance(settings, Real) and hasattr(settings, "item") else settings
    described: dict[str, Any] = {}
    for name, field in fields_of(settings).items():
        value = getattr(settings, name)
        kind = {"kind": field.choice.name_of(value)} if field.choice and is_part(value) else {}
        described[name] = kind | describe(value) if kind else describe(value)
    return described


def listing(settings: Any, prefix: str = "") -> list[Setting]:
    """All settings, each with its dotted name, a description of its type, its value and its meaning.

    Args:
        settings: a settings dataclass.
        prefix: prepended to the names, for example "family.".
    """
    rows: list[Setting] = []
    for name, field in fields_of(settings).items():
        value, full = getattr(settings, name), f"{prefix}{name}"
        if field.choice and is_part(value):
            rows.append(Setting(full, field.words, field.choice.name_of(value), field.meaning))
        elif not is_part(value):
            rows.append(Setting(full, field.words, spell(value), field.meaning))
        rows += listing(value, f"{full}.") if is_part(value) else []
    return rows


def check_settings(settings: Any, prefix: str = "") -> None:
    """Raise SettingError if a value does not have its annotated type; for `__post_init__` of settings dataclasses.

    Args:
        settings: a settings dataclass.
        prefix: the name of the group of settings, for example "tracker"; empty for the top level.
    """
    for name, field in fields_of(settings).items():
        full = f"{prefix}.{name}" if prefix else name
        value = getattr(settings, name)
        check_value(full, field, value, shown(value))


def self_checking(kind: Kind) -> Kind:
    """Class decorator for dataclasses that call `check_settings`: exempts them from run-time type checkers.

    The tests run under such a checker. With this decorator a wrong value raises SettingError there, as it does for
    users.
    """
    setattr(kind, "__no_type_check__", True)  # noqa: B010
    return kind


def check_value(path: str, field: Field, value: Any, written: str) -> None:
    """Raise SettingError unless the annotation allows the value.

    Args:
        path: dotted name of the setting.
        field: its annotation.
        value: the value to check.
        written: the value as it is shown in the error message.
    """
    if field.choice and field.hint is str and isinstance(value, str) and value not in field.choice.members:
        raise unknown(path.rpartition(".")[2], value, field.choice.members)
    wrong = fault(field.hint, value)
    if wrong is not None:
        wrong = f"must be {field.words}" if field.choice else wrong
        raise SettingError(f"{path} {wrong}, not {written}")


def is_part(value: Any) -> bool:
    """Whether a value is itself a settings dataclass."""
    return is_dataclass(value) and not isinstance(value, Mapping)
