"""Modules, named tuples and arrays stored as JSON and .npy files in a zip file, without pickle.

Only classes from a fixed list can be stored. `format.json` has the name and version of the format and the SHA-256 of
every other member, `content.json` has the structure, and `arrays/` has the arrays.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import tokenize
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from civi.errors import DataError, OutputError

Arrays = dict[str, np.ndarray]
EPOCH = (1980, 1, 1, 0, 0, 0)
MAX_DEPTH, MAX_JSON, ENCRYPTED = 30, 1 << 24, 0x1
UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, TypeError, NotImplementedError, RuntimeError),
    *(MemoryError, OverflowError, AttributeError, SyntaxError, tokenize.TokenError),
)


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


def unpack(packed: Any, known: Mapping[str, type], arrays: Mapping[str, np.ndarray], depth: int = 0) -> Any:
    """Rebuild the value that `pack` was given, from its JSON form, the known classes and the arrays.

    `depth` counts the levels above this value; more than MAX_DEPTH of them are an error.
    """
    if depth > MAX_DEPTH:
        raise DataError(f"it is nested more than {MAX_DEPTH} levels deep")
    if packed is None or isinstance(packed, bool | int | float | str):
        return packed
    if not isinstance(packed, dict):
        raise DataError(f"it contains a {type(packed).__name__} where an object is expected")

    def below(content: Any) -> Any:
        return unpack(content, known, arrays, depth + 1)

    if "array" in packed:
        if not isinstance(packed["array"], str) or packed["array"] not in arrays:
            raise DataError(f"the array {str(packed['array'])[:100]!r} is missing")
        return _array(arrays[packed["array"]], as_jax=packed.get("jax") is True)
    if "dict" in packed:
        return {name: below(item) for name, item in _expected(packed["dict"], dict).items()}
    if "list" in packed or "tuple" in packed:
        kind = list if "list" in packed else tuple
        return kind(below(item) for item in _expected(packed[kind.__name__], list))
    name = packed.get("kind")
    if not isinstance(name, str) or name not in known:
        raise DataError(f"it contains a {str(name)[:100]}, which this version of civi does not know")
    return known[name](**{field: below(item) for field, item in _expected(packed.get("fields"), dict).items()})


def _expected(content: Any, kind: type) -> Any:
    """The content, which must be of this type."""
    if not isinstance(content, kind):
        raise DataError(f"it contains a {type(content).__name__} where a {kind.__name__} is expected")
    return content


def write_archive(path: Path, header: Mapping[str, Any], content: Any, arrays: Arrays) -> None:
    """Write header, content and arrays to one zip file. The same content always gives the same bytes."""
    members = {"content.json": json.dumps(content, indent=1).encode()}
    members |= {f"arrays/{name}.npy": _npy(array) for name, array in arrays.items()}
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}
    format_json = json.dumps({**header, "sha256": sums}, indent=1).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {"format.json": format_json, **members}.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), data)


def read_archive(path: Path, form: str, version: int, older: Sequence[int] = ()) -> tuple[Any, Arrays]:
    """Read the content and the arrays. A damaged or forged file and another format or version are errors.

    Args:
        path: the file.
        form: name of the format.
        version: version of the format that is written today.
        older: earlier versions that can still be read.
    """
    try:
        members = _members(path)
        header = json.loads(members["format.json"])
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}: check the path") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except UNREADABLE as error:
        reason = str(error).strip() or type(error).__name__
        raise DataError(f"{path} is not a {form}, or it is damaged: {reason}") from error
    if not isinstance(header, dict) or header.get("format") != form:
        raise DataError(f"{path} is not a {form}")
    if header.get("version") not in (version, *older):
        found, civi = (str(header.get(name))[:50] for name in ("version", "civi"))
        raise DataError(
            f"{path} has version {found} of the format, written by civi {civi}, but this civi reads version {version}: "
            f"use civi {civi}, or fit again"
        )
    try:
        return _checked(members, header.get("sha256"))
    except UNREADABLE as error:
        raise DataError(f"{path} is damaged: {str(error).strip() or type(error).__name__}") from error


def _members(path: Path) -> dict[str, bytes]:
    """The members of the zip file. civi stores them uncompressed, so together they cannot be larger than the file."""
    with zipfile.ZipFile(path) as archive:
        entries, size = archive.infolist(), path.stat().st_size
        if len({entry.filename for entry in entries}) < len(entries):
            raise ValueError("a member occurs more than once")
        if any(entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & ENCRYPTED for entry in entries):
            raise ValueError("a member is compressed or encrypted, which civi never writes")
        if sum(entry.file_size for entry in entries) > size:
            raise ValueError("its members are larger than the file")
        if any(entry.file_size > MAX_JSON for entry in entries if entry.filename.endswith(".json")):
            raise ValueError(f"a .json member has more than {MAX_JSON} bytes")
        return {entry.filename: archive.read(entry) for entry in entries}


def _checked(members: dict[str, bytes], sums: Any) -> tuple[Any, Arrays]:
    """The content and the arrays, after their checksums were compared."""
    sums = sums if isinstance(sums, dict) else {}
    for name in sorted({"content.json", *sums, *members} - {"format.json"}):
        if name not in members or hashlib.sha256(members[name]).hexdigest() != sums.get(name):
            raise ValueError(f"{name} does not match its checksum")
    arrays = {
        name.removeprefix("arrays/").removesuffix(".npy"): _from_npy(name, data)
        for name, data in members.items()
        if name.startswith("arrays/")
    }
    return json.loads(members["content.json"]), arrays


def _from_npy(name: str, data: bytes) -> np.ndarray:
    """The array in a .npy file. Its header must agree with its size, so that nothing larger is allocated."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"{name} has an unknown version")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind not in "biuf" or min(shape, default=0) < 0:
        raise ValueError(f"{name} is not an array of numbers")
    if math.prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise ValueError(f"{name} is not as large as its shape {shape}")
    flat = np.frombuffer(data, dtype, offset=file.tell())
    return flat.reshape(shape, order="F" if fortran else "C").copy()


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
