"""The user's data file as arguments of a model: the members of a JSON object, or the columns of a CSV file."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from civi.errors import DataError
from civi.experiment.data.table import check_values, read_frame

SHOWN = 5


def read_arguments(path: Path) -> dict[str, Any]:
    """Read numbers and arrays by name; integers stay integers. Text and missing values are errors that say where."""
    if path.suffix.lower() not in (".json", ".csv"):
        raise DataError(f"{path} must be a .json or a .csv file")
    return _from_json(path) if path.suffix.lower() == ".json" else _from_csv(path)


def bind_arguments(
    model: Callable[..., Any], name: str, path: Path | None, arguments: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Bind the data to the parameters of a model; missing or unexpected arguments are errors.

    Args:
        model: the model.
        name: its name, for messages.
        path: the data file, for messages; None if there is none.
        arguments: the data by name.

    Returns:
        Positional and keyword arguments of the model.
    """
    parameters = inspect.signature(model).parameters.values()
    takes = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters)
    needs = [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    signature = f"{name}({', '.join(takes)})"
    missing = [need for need in needs if need not in arguments]
    if missing:
        where = f"{path} has no such column or member" if path else "give them with --data"
        raise DataError(f"the model {signature} needs {', '.join(missing)}: {where}")
    extra = [given for given in arguments if given not in takes and not anything]
    if extra:
        raise DataError(
            f"the model {signature} does not take {', '.join(extra)} of {path}: drop them, or add them to it"
        )
    bound = inspect.signature(model).bind(**arguments)
    bound.apply_defaults()
    return bound.args, bound.kwargs


def _from_csv(path: Path) -> dict[str, Any]:
    frame = read_frame(path)
    if frame.empty:
        raise DataError(f"{path} has no rows below the header")
    check_values(path, frame)
    return {str(name): _narrow(path, str(name), frame[name].to_numpy()) for name in frame}


def _from_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_unique)
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}: check the path") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except RecursionError as error:
        raise DataError(f"{path} is not a JSON file that can be read (it is nested too deeply)") from error
    except ValueError as error:
        raise DataError(f"{path} is not a JSON file that can be read ({error})") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} must contain a JSON object with one member per argument of the model")
    return {name: _member(path, name, value) for name, value in content.items()}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of a JSON object; a name that occurs twice is an error, because one value would be lost."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} occurs more than once in an object")
    return members


def _member(path: Path, name: str, value: Any) -> Any:
    """A number or an array of numbers."""
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError) as error:
        raise DataError(f"{path}: {name} has rows of different lengths: make it a rectangular array") from error
    if array.size == 0:
        raise DataError(f"{path}: {name} is empty: give at least one number, or leave it out")
    if array.dtype.kind == "O" and any(type(item) is int and abs(item) >= 2**63 for item in array.flat):
        raise DataError(f"{path}: {name} has a whole number that does not fit into 64 bits: rescale it")
    if array.dtype.kind == "O" and all(item is None or isinstance(item, int | float) for item in array.flat):
        array = array.astype(float)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{path}: {name} is not made of numbers: encode it as numbers or leave it out")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        places = ", ".join(str(int(row[0]) + 1) if len(row) else "its value" for row in bad[:SHOWN])
        more = ", ..." if len(bad) > SHOWN else ""
        raise DataError(
            f"{path}: {name} has {len(bad)} of {array.size} values missing, NaN or infinite (row {places}{more}): fill "
            "them in, or drop the rows"
        )
    narrow = _narrow(path, name, array)
    return array.item() if array.ndim == 0 else narrow


def _narrow(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    """Convert to 32 bits, JAX's default precision, and refuse numbers that do not fit."""
    is_float = array.dtype.kind == "f"
    largest = float(np.finfo(np.float32).max) if is_float else np.iinfo(np.int32).max
    too_large = np.argwhere((array > largest) | (array < -largest))
    if len(too_large):
        where = f" in row {int(too_large[0][0]) + 1}" if array.ndim else ""
        value = array[tuple(too_large[0])]
        raise DataError(
            f"{path}: {name} has {value}{where}, which does not fit into 32 bits (at most {largest:.9g}): rescale it"
            + ("" if is_float else ", or write it with a decimal point")
        )
    return array.astype(np.float32 if is_float else np.int32)
