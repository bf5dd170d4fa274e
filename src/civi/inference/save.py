"""The file format of a posterior: one zip file without pickle (see `civi.inference.archive`).

The target is the user's own code and is not saved; `civi.load` attaches it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

import civi
from civi.errors import OutputError
from civi.family import (
    Amortised,
    ConstantMixing,
    Encoder,
    GaussianNoise,
    MixingNetwork,
    ModalNetwork,
    ParticleNoise,
    Particles,
    SemiImplicit,
)
from civi.family.registry import CONDITIONALS
from civi.files import atomically
from civi.inference.archive import Arrays, pack, write_archive
from civi.inference.nuts import Reference
from civi.inference.pilot.base import Guesses
from civi.inference.run_curve import RunCurve
from civi.problem.images import ImageDecoder
from civi.problem.sentences import Recurrent, SentenceDecoder, SentenceReader
from civi.problem.target import CurvedFrame, Frame, LowRankFrame
from civi.problem.target.space import TreeSpace, VectorSpace
from civi.problem.target.triangular import TriangularMap

FORMAT, VERSION, OLDER = "civi posterior", 4, (3,)
FAMILIES: tuple[type, ...] = (
    SemiImplicit,
    Amortised,
    GaussianNoise,
    MixingNetwork,
    ConstantMixing,
    ModalNetwork,
    ParticleNoise,
    Particles,
    Encoder,
    *CONDITIONALS.values(),
)
DECODERS: tuple[type, ...] = (ImageDecoder, SentenceReader, SentenceDecoder, Recurrent)
KNOWN: dict[str, type] = {
    part.__name__: part
    for part in (*FAMILIES, *DECODERS, CurvedFrame, TriangularMap, Frame, LowRankFrame, Guesses, Reference, RunCurve)
}


def save(
    kind: str,
    parts: Mapping[str, Any],
    space: Callable[[Array], Any],
    dim: int,
    path: Path,
    *,
    overwrite: bool = False,
) -> None:
    """Write a posterior to a file.

    Args:
        kind: kind of posterior, one of the names in `KINDS` of `civi.inference.load`.
        parts: the arguments from which `civi.load` rebuilds it.
        space: maps one unconstrained vector to the user's parameters.
        dim: number of unconstrained parameters.
        path: the file.
        overwrite: whether to replace an existing file.
    """
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists: choose another name, or save with overwrite=True")
    arrays: Arrays = {}
    content = {
        "kind": kind,
        "parts": {name: pack(value, KNOWN, arrays, name) for name, value in parts.items()},
        "space": packed_space(space, dim, arrays),
    }
    header = {"format": FORMAT, "version": VERSION, "civi": civi.__version__, "dim": dim}
    atomically(path, lambda part: write_archive(part, header, content, arrays))


def packed_space(space: Callable[[Array], Any], dim: int, arrays: Arrays) -> Any:
    """The user's space as JSON: "vector", an example pytree of dicts, lists and tuples, or null for anything else."""
    if isinstance(space, VectorSpace):
        return "vector"
    if not isinstance(space, TreeSpace):
        return None
    try:
        return pack(space(jnp.zeros(dim)), {}, arrays, "example")
    except OutputError:
        return None
