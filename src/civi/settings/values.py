"""The types that a setting can have: how they are described, parsed from text, and checked.

int, float, bool, str    integers up to 2^31 - 1 in absolute value, numbers up to the largest of 32 bits; true or false
None                     not set, written none
Literal["a", "b"]        one of the given values
tuple[int, ...]          numbers separated by commas; an empty tuple is written none
mapping                  a Mapping class with a classmethod of(**numbers), written mixing:0.1,decoder:0
unions                   such as int | None
any other class          a part, which has settings of its own
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

LARGEST = 2**31 - 1
LARGEST_FLOAT = 3.4028235e38
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", NoneType: "none"}
PLURALS = {int: "whole numbers", float: "numbers", str: "texts"}


def words(hint: Any) -> str:
    """Description of a type for error messages, for example "a whole number or none"."""
    return " or ".join(_member_words(member) for member in _members(hint))


def parse(hint: Any, text: str) -> Any:
    """Parse a text as a value of this type; raises ValueError if it is not one.

    Args:
        hint: the type, without `Annotated`.
        text: the part after the equals sign in name=value.
    """
    for member in sorted(_members(hint), key=lambda member: (member is not NoneType, member is str)):
        try:
            return _parse_member(member, text)
        except (ValueError, KeyError):
            continue
    raise ValueError(f"'{text}' is not {words(hint)}")


def spell(value: Any) -> str:
    """The value as text, such that `parse` returns the value."""
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ",".join(f"{name}:{spell(number)}" for name, number in value.items())
    return ",".join(map(spell, value)) if isinstance(value, tuple) else str(value)


def shown(value: Any) -> str:
    """The value as it is shown in error messages."""
    return "none" if value is None else repr(value)


def fault(hint: Any, value: Any) -> str | None:
    """What is wrong with a value, for example "must be a number"; None if it is valid.

    Args:
        hint: the type, without `Annotated`.
        value: any Python object.
    """
    if not any(_fits(member, value) for member in _members(hint)):
        remedy = " (a tuple)" if isinstance(value, list) else ""
        return f"must be {words(hint)}{remedy}"
    for number in _numbers(value):
        if not math.isfinite(number):
            return "must be finite"
        if isinstance(number, Integral) and abs(int(number)) > LARGEST:
            return f"must be at most {LARGEST}" if int(number) > 0 else f"must be at least -{LARGEST}"
        if abs(float(number)) > LARGEST_FLOAT:
            return f"must be at most {LARGEST_FLOAT:g} in absolute value"
    return None


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_mapping(member: Any) -> bool:
    return isinstance(member, type) and issubclass(member, Mapping) and hasattr(member, "of")


def _member_words(member: Any) -> str:
    if get_origin(member) is Literal:
        return f"one of {', '.join(map(str, get_args(member)))}"
    if get_origin(member) is tuple:
        return f"comma-separated {PLURALS[get_args(member)[0]]}"
    if _is_mapping(member):
        return "numbers by group such as mixing:0.1,decoder:0"
    return WORDS.get(member) or f"a {getattr(member, '__name__', member)}"


def _parse_member(member: Any, text: str) -> Any:
    if member is NoneType:
        return {"none": None}[text.lower()]
    if member is bool:
        return {"true": True, "false": False}[text.lower()]
    if get_origin(member) is Literal:
        return {str(value): value for value in get_args(member)}[text]
    if get_origin(member) is tuple:
        parts = [] if text.lower() == "none" else text.split(",")
        return tuple(_parse_member(get_args(member)[0], part.strip()) for part in parts)
    if _is_mapping(member):
        return member.of(**_parse_pairs(text))
    if member in (int, float, str):
        return member(text)
    raise ValueError(f"a {member} cannot be written as text")


def _parse_pairs(text: str) -> dict[str, float]:
    """Parse mixing:0.1,decoder:0 as a dictionary; every name may occur once."""
    pairs: dict[str, float] = {}
    for part in text.split(","):
        name, colon, number = (piece.strip() for piece in part.partition(":"))
        if not name or not colon or name in pairs:
            raise ValueError(f"'{part}' must be name:number with a name that occurs once")
        pairs[name] = float(number)
    return pairs


def _fits(member: Any, value: Any) -> bool:
    if member in (int, float):
        return isinstance(value, Integral if member is int else Real) and not isinstance(value, bool)
    if get_origin(member) is Literal:
        return any(type(value) is type(one) and value == one for one in get_args(member))
    if get_origin(member) is tuple:
        return isinstance(value, tuple) and all(_fits(get_args(member)[0], item) for item in value)
    if _is_mapping(member):
        return isinstance(value, member) and all(_fits(float, number) for number in value.values())
    return member is Any or isinstance(value, member)


def _numbers(value: Any) -> Iterator[Any]:
    """The numbers in a value: the value itself, or its items."""
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, tuple):
        yield from (item for item in value if isinstance(item, Real))
    elif isinstance(value, Real):
        yield value
