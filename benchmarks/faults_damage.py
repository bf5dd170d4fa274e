"""Damaged and forged files, for faults.py: each is read, and must be refused with a CiviError or have no effect."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import random
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow.feather
import pyarrow.parquet

import civi
from civi.errors import CiviError
from civi.experiment.checkpoint import Checkpoints
from civi.experiment.data.arguments import read_arguments
from civi.experiment.data.images import read_idx
from civi.experiment.data.table import read_table
from civi.experiment.solver_file import read_result, write_result
from civi.experiment.solver_result import Curve, SolverResult
from civi.family import Architecture
from civi.inference.nuts import Reference, _read, _write
from civi.inference.posterior import SemiImplicitPosterior
from civi.problem import PosteriorProblem
from civi.problem.target import Frame, Framed, banana
from civi.solver import CompositionalSolver
from civi.solver.loop import empty_history, start
from civi.tables.files import Table
from civi.tables.scan import LabelledTable
from civi.update import Samples

Rng = random.Random


class Kind(NamedTuple):
    """A kind of file: how one is written, how it is read, and whether damage must be noticed.

    Numbers in a user's own data can change without any sign; every other file has a checksum.
    """

    write: Callable[[Path], object]
    read: Callable[[Path], Any]
    checked: bool


def damaged(content: bytes, rng: Rng) -> bytes:
    """The content with a random damage: changed, lost, repeated or added bytes."""
    place = rng.randrange(len(content))
    length = min(rng.choice((1, 2, 16, 512)), len(content) - place)
    junk = rng.randbytes(length)
    return rng.choice(
        (
            lambda: content[:place] + junk + content[place + length :],
            lambda: content[:place],
            lambda: content[:place] + content[place + length :],
            lambda: content[:place] + junk + content[place:],
            lambda: content[:place] + bytes(length) + content[place + length :],
            lambda: content + junk,
            lambda: b"",
        )
    )()


def damages(kind: str, folder: Path, count: int) -> Iterator[str]:
    """Damage a file of this kind again and again; each outcome is empty, or says what broke. Nothing may be printed."""
    chosen, rng = KINDS[kind], Rng(kind)
    original, path = folder / f"original-{kind}", folder / f"damaged-{kind}{SUFFIXES.get(kind, '')}"
    shutil.rmtree(original, ignore_errors=True)
    original.mkdir()
    chosen.write(original / path.name)
    shutil.copytree(original, folder / "intact", dirs_exist_ok=True)
    wanted = _bits(chosen.read(folder / "intact" / path.name))
    files = sorted(item.relative_to(original) for item in original.rglob("*") if item.is_file())
    printed = folder / "printed"
    with _errors_to(printed):
        outcomes = []
        for _ in range(count):
            trial = folder / f"trial-{kind}"
            shutil.rmtree(trial, ignore_errors=True)
            shutil.copytree(original, trial)
            victim = trial / rng.choice(files)
            victim.write_bytes(forged(victim, rng) if kind == "forged posterior" else damaged(victim.read_bytes(), rng))
            outcomes.append(_outcome(chosen, trial / path.name, wanted))
    yield from outcomes
    noise = printed.read_text().splitlines()
    yield f"{len(noise)} lines were printed, for example {noise[-1]}" if noise else ""


@contextlib.contextmanager
def _errors_to(path: Path) -> Iterator[None]:
    """Write what is printed on standard error, also by C++, to a file."""
    sys.stderr.flush()
    screen = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(screen, 2)
            os.close(screen)


def _outcome(kind: Kind, path: Path, wanted: list[bytes]) -> str:
    try:
        found = kind.read(path)
    except CiviError as error:
        return "" if "\n" not in str(error) else f"more than one line: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "" if not kind.checked or found is None or _bits(found) == wanted else "wrong content in silence"


def _bits(value: Any) -> list[bytes]:
    return [np.asarray(_plain(leaf)).tobytes() for leaf in jax.tree.leaves(value)]


def _plain(leaf: Any) -> Any:
    is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(leaf) if is_key else leaf


def _posterior() -> SemiImplicitPosterior:
    family = Architecture(hidden=(4,)).init(2, jax.random.key(0))
    framed = Framed.at(banana(), Frame(jnp.ones(2), jnp.eye(2)))
    return SemiImplicitPosterior(family=family, target=framed, history={"step": np.arange(3.0)}, message="made")


def _load(path: Path) -> Any:
    """The arrays of a posterior file. A forged one that is accepted must also give finite draws."""
    posterior: Any = civi.load(path)
    return posterior.family, posterior.target.frame, posterior.history


def _load_forged(path: Path) -> Any:
    posterior: Any = civi.load(path)
    draws = posterior.sample_unconstrained(0, 2)
    if draws.shape != (2, posterior.dim):
        raise TypeError(f"draws of shape {draws.shape}")
    return None


def forged(path: Path, rng: Rng) -> bytes:
    """A posterior file with a random change of its content or an array, and valid checksums."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members.pop("format.json"))
    name = rng.choice(list(members))
    if name.endswith(".json"):
        members[name] = json.dumps(_changed(json.loads(members[name]), rng)).encode()
    else:
        file = io.BytesIO()
        array = np.load(io.BytesIO(members[name]))
        changes = (
            array * np.nan,
            array[..., None],
            array.ravel()[:1],
            array.astype(int),
            np.array(["a"]),
            array.ravel()[:0],
        )
        np.save(file, rng.choice(changes))
        members[name] = file.getvalue()
    header["sha256"] = {member: hashlib.sha256(data).hexdigest() for member, data in members.items()}
    output = io.BytesIO()
    with zipfile.ZipFile(
        output, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    ) as new:
        for member, data in {"format.json": json.dumps(header).encode(), **members}.items():
            new.writestr(member, data)
    return output.getvalue()


def _changed(value: Any, rng: Rng) -> Any:
    """A JSON value with one part replaced by something else."""
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(list(value))
        return {**value, name: _changed(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        i = rng.randrange(len(value))
        return [*value[:i], _changed(value[i], rng), *value[i + 1 :]]
    return rng.choice((None, "yes", -1, 10**30, float("nan"), True, [], {}, deep, {"array": "none"}, {"kind": "Path"}))


def _toy_state() -> Any:
    family = Architecture(hidden=(3,)).init(2, jax.random.key(0))
    return start(CompositionalSolver(samples=Samples(2, 2)), PosteriorProblem(family, banana()), jax.random.key(1))


STATE: list[Any] = []


def _write_checkpoint(path: Path) -> None:
    STATE[:] = STATE or [_toy_state()]
    checkpoints = Checkpoints(path, 1)
    checkpoints.save(STATE[0]._replace(done=jnp.asarray(7)), {name: np.ones(7) for name in empty_history()})
    checkpoints.close()


def _read_checkpoint(path: Path) -> Any:
    checkpoints = Checkpoints(path, 1)
    try:
        state, history, _ = checkpoints.restore(STATE[0])
    finally:
        checkpoints.close()
    return state, history


def _solver_result() -> SolverResult:
    return SolverResult("a", [{"kl": 1.0}], Curve([0], [0.1], [[1.0]]), [None], 1.0, 1.0, 3, {}, np.ones((4, 2)))


def _read_solver(path: Path) -> Any:
    found = read_result(path, {"seeds": 1})
    return None if found is None else (found.draws, found.measures, found.curve.neg_elbo)


def _read_reference(path: Path) -> Any:
    found = _read(path, (2, 5, 3))
    return None if found is None else (found.draws, found.r_hat, found.effective_size, found.divergences)


def _scan(path: Path) -> Any:
    found = LabelledTable(Table.open(path), "y").scan()
    return found.mean, found.sd, found.train


def _write_images(path: Path) -> None:
    header = bytes([0, 0, 8, 3]) + b"".join(size.to_bytes(4, "big") for size in (5, 4, 4))
    path.write_bytes(gzip.compress(header + bytes(range(80))))


ROWS = [(i % 2, i, -0.5 * i * i) for i in range(30)]
CSV = "y,a,b\n" + "".join(f"{y},{a},{b}\n" for y, a, b in ROWS)
JSON = json.dumps({"a": [row[1] for row in ROWS], "b": 0.25, "c": [[1, 2], [3, 4]]})
REFERENCE = Reference(np.ones((2, 5, 3)), np.ones(3), np.ones(3), 0)
ARROW = pyarrow.table({name: [row[i] for row in ROWS] for i, name in enumerate("yab")})
SUFFIXES = {
    **{"data table": ".csv", "data object": ".json", "regression table": ".csv", "NUTS cache": ".npz"},
    **{"streamed CSV": ".csv", "streamed Parquet": ".parquet", "streamed Arrow": ".arrow"},
}
KINDS = {
    "posterior": Kind(lambda path: _posterior().save(path), _load, True),
    "forged posterior": Kind(lambda path: _posterior().save(path), _load_forged, False),
    "checkpoint": Kind(_write_checkpoint, _read_checkpoint, True),
    "comparison": Kind(lambda path: write_result(path, _solver_result(), {"seeds": 1}), _read_solver, True),
    "NUTS cache": Kind(lambda path: _write(path, REFERENCE), _read_reference, True),
    "images": Kind(_write_images, read_idx, True),
    "data table": Kind(lambda path: path.write_text(CSV), read_arguments, False),
    "data object": Kind(lambda path: path.write_text(JSON), read_arguments, False),
    "regression table": Kind(lambda path: path.write_text(CSV), lambda path: read_table(path, "y"), False),
    "streamed CSV": Kind(lambda path: path.write_text(CSV), _scan, False),
    "streamed Parquet": Kind(lambda path: pyarrow.parquet.write_table(ARROW, path, row_group_size=10), _scan, False),
    "streamed Arrow": Kind(lambda path: pyarrow.feather.write_feather(ARROW, path, chunksize=10), _scan, False),
}
