"""Modules, named tuples and arrays stored as JSON and .npy files in a zip file, without pickle.

Only classes from a fixed list can be stored. `format.json` has the name and version of the format and the SHA-256 of
every other member, `content.json` has the structure, and `arrays/` has the arrays.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from civi.errors import DataError, OutputError

Arrays = dict[str, np.ndarray]
EPOCH = (1980, 1, 1, 0, 0, 0)


def pack(value: Any, known: Mapping[str, type], arrays: Arrays, path: str = "") -> Any:
    """Convert a value to JSON.

    Args:
        value: the value to store.
        known: the classes that may be stored, by name.
        arrays: filled with the arrays of the value, under their paths.
        path: the path of the value inside the value that is stored.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray | jax.Array):
        arrays[path] = np.asarray(value)
        return {"array": path, "jax": isinstance(value, jax.Array)}
    if type(value) is dict:
        return {"dict": {name: pack(item, known, arrays, f"{path}.{name}") for name, item in value.items()}}
    if type(value) in (list, tuple):
        return {type(value).__name__: [pack(item, known, arrays, f"{path}.{i}") for i, item in enumerate(value)]}
    kind = type(value).__name__
    if known.get(kind) is not type(value):
        raise OutputError(f"a {kind} cannot be saved ({path}): only classes of civi itself can")
    fields = {name: pack(getattr(value, name), known, arrays, f"{path}.{name}") for name in _fields(type(value))}
    return {"kind": kind, "fields": fields}


def unpack(packed: Any, known: Mapping[str, type], arrays: Mapping[str, np.ndarray]) -> Any:
    """Rebuild the value that `pack` was given, from its JSON form, the known classes and the arrays."""
    if not isinstance(packed, dict):
        return packed
    if "array" in packed:
        return _array(arrays[packed["array"]], as_jax=packed["jax"])
    if "dict" in packed:
        return {name: unpack(item, known, arrays) for name, item in packed["dict"].items()}
    if "list" in packed or "tuple" in packed:
        items = [unpack(item, known, arrays) for item in packed["list" if "list" in packed else "tuple"]]
        return items if "list" in packed else tuple(items)
    if packed["kind"] not in known:
        raise DataError(f"it contains a {packed['kind']}, which this version of civi does not know")
    return known[packed["kind"]](**{name: unpack(item, known, arrays) for name, item in packed["fields"].items()})


def write_archive(path: Path, header: Mapping[str, Any], content: Any, arrays: Arrays) -> None:
    """Write header, content and arrays to one zip file. The same content always gives the same bytes."""
    members = {"content.json": json.dumps(content, indent=1).encode()}
    members |= {f"arrays/{name}.npy": _npy(array) for name, array in arrays.items()}
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}
    format_json = json.dumps({**header, "sha256": sums}, indent=1).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {"format.json": format_json, **members}.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), data)


def read_archive(path: Path, form: str, version: int) -> tuple[Any, Arrays]:
    """Read the content and the arrays. A damaged file and another format or version are errors."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
            header = json.loads(members["format.json"])
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}: check the path") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, NotImplementedError) as error:
        raise DataError(f"{path} is not a {form}, or it is damaged: {str(error).strip()}") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    if not isinstance(header, dict) or header.get("format") != form:
        raise DataError(f"{path} is not a {form}")
    if header.get("version") != version:
        raise DataError(
            f"{path} has version {header.get('version')} of the format, written by civi {header.get('civi')}, but this "
            f"civi reads version {version}: use civi {header.get('civi')}, or fit again"
        )
    return _checked(path, members, header.get("sha256", {}))


def _checked(path: Path, members: dict[str, bytes], sums: Mapping[str, str]) -> tuple[Any, Arrays]:
    """The content and the arrays, after their checksums were compared."""
    for name in sorted({"content.json", *sums, *members} - {"format.json"}):
        if name not in members or hashlib.sha256(members[name]).hexdigest() != sums.get(name):
            raise DataError(f"{path} is damaged: {name} does not match its checksum")
    arrays = {
        name.removeprefix("arrays/").removesuffix(".npy"): np.load(io.BytesIO(data), allow_pickle=False)
        for name, data in members.items()
        if name.startswith("arrays/")
    }
    return json.loads(members["content.json"]), arrays


def _fields(kind: Any) -> tuple[str, ...]:
    return kind._fields if hasattr(kind, "_fields") else tuple(field.name for field in dataclasses.fields(kind))


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _array(array: np.ndarray, *, as_jax: bool) -> Any:
    if not as_jax:
        return array
    made = jnp.asarray(array)
    if made.dtype != array.dtype:
        raise DataError(
            f"it was fitted in {array.dtype}: enable that first with jax.config.update('jax_enable_x64', True)"
        )
    return made
