"""Compiled programs of fits, kept for further fits of the same model with data of the same shapes.

A program is identified by its function, the static parts of its arguments and the shapes of their arrays. Data are
arrays, so other data of the same shapes use the same program. Only the last LARGEST programs are kept; a fit has
about five, of ten MB each.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import equinox as eqx
import jax
import numpy as np
from threadpoolctl import ThreadpoolController

from civi.problem.target.base import work_of

LARGEST = 20
MUCH_WORK = 30_000
QUICK = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}
MAPS, MAP_LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
BATCH_OF_MATRICES = re.compile(r"tensor<\d+x\d+x\d+x")
Result = TypeVar("Result")
_programs: OrderedDict[Any, Future[Any]] = OrderedDict()
_cancelled: OrderedDict[int, bool] = OrderedDict()
_lock, _one_at_a_time = threading.Lock(), threading.Lock()


class Program(NamedTuple):
    """A compiled program, and whether it calls routines of LAPACK on batches of matrices."""

    run: Callable[..., Any]
    batched_lapack: bool


def call(function: Callable[..., Result], *args: Any, lasting: bool = False) -> Result:
    """function(*args), compiled as one program. Arrays (also of NumPy) are inputs; everything else is static.

    A program that is not `lasting` is compiled with fewer optimisations, which is faster.

    Programs with batched routines of LAPACK run one at a time: on a CPU, two of them that run at the same time can wait
    for each other for ever, because each holds a thread that the other one needs.
    """
    leaves, key = _key(function, args)
    program = _program(function, args, leaves, key, lasting)
    if not program.batched_lapack:
        return program.run(*leaves)
    with _one_at_a_time, one_blas_thread():
        return jax.block_until_ready(program.run(*leaves))


def is_lasting(target: Any) -> bool:
    """Whether thousands of evaluations of this target take longer than the optimisations of their program."""
    return work_of(target) > MUCH_WORK


def one_blas_thread() -> Any:
    """Context in which BLAS and LAPACK use one thread.

    Their results then do not depend on the number of cores, and their threads do not wait for those of a compilation.
    """
    return ThreadpoolController().limit(limits=1, user_api="blas")


def prepare(
    function: Callable[..., Any], *args: Any, lasting: bool = False, unless: threading.Event | None = None
) -> None:
    """Compile the program of `call(function, *args)` without running it; arrays may be given by their shapes.

    If `unless` is set by the time the program has been traced, it is not compiled, and further calls that may be
    cancelled do nothing: the same model with other data will hardly need it either.
    """
    leaves, key = _key(function, args)
    if unless is not None and hash(key) in _cancelled:
        return
    try:
        _program(function, args, leaves, key, lasting, unless)
    except CancelledError:
        with _lock:
            _cancelled[hash(key)] = True  # the key itself would keep the user's model
            _shorten(_cancelled)


def shapes_of(function: Callable[..., Result], *args: Any) -> Result:
    """function(*args) with shapes in place of all arrays; arguments may be given by their shapes.

    The caches of `jax.eval_shape` would keep the structures of arguments and result, and with them the user's model.
    """
    arrays, static = eqx.partition(args, _is_shape)
    leaves, structure = jax.tree.flatten(arrays)
    made: list[Any] = []

    def flat(*inputs: Any) -> Any:
        found, rest = eqx.partition(function(*eqx.combine(jax.tree.unflatten(structure, inputs), static)), eqx.is_array)
        values, result = jax.tree.flatten(found)
        made.extend((result, rest))
        return values

    values = jax.eval_shape(flat, *leaves)
    result, rest = made
    return cast("Result", eqx.combine(jax.tree.unflatten(result, values), rest))


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | jax.ShapeDtypeStruct)


def forget_programs() -> None:
    """Drop all compiled programs, so that the next fit compiles its own."""
    with _lock:
        _programs.clear()
        _cancelled.clear()


def drop_programs(share: float = 0.5) -> None:
    """Drop all compiled programs, if the process has more than this share of the memory maps that Linux allows it.

    A program takes up to hundreds of maps. At the limit (65,530 by default), XLA's compiler ends the process.
    """
    try:
        used, limit = MAPS.read_bytes().count(b"\n"), int(MAP_LIMIT.read_text())
    except (OSError, ValueError):
        return
    if used > share * limit:
        forget_programs()
        jax.clear_caches()


def return_memory() -> None:
    """Return to the operating system what compilation has freed, which the C library of Linux would keep for later."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def side_by_side(tasks: Sequence[Callable[[], Result]], stop: threading.Event | None = None) -> list[Result]:
    """The results of these functions, run in as many threads as there are cores.

    Args:
        tasks: the functions. Each should spend its time in compiled programs.
        stop: set if one of them fails or the user interrupts, so that the others can end early.
    """
    if len(tasks) == 1:
        return [tasks[0]()]
    with ThreadPoolExecutor(max_workers=min(len(tasks), os.cpu_count() or 1)) as pool:
        futures = [pool.submit(task) for task in tasks]
        try:
            return [future.result() for future in futures]
        except BaseException:
            if stop is not None:
                stop.set()
            raise


def _program(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    leaves: list[Any],
    key: Any,
    lasting: bool,
    unless: threading.Event | None = None,
) -> Program:
    """The compiled program. If several threads ask for the same program, one of them compiles it."""
    with _lock:
        found = _programs.get(key)
        made = found or Future()
        _programs[key] = made
        _programs.move_to_end(key)
        _shorten(_programs)
    if found is None:
        try:
            made.set_result(_compiled(function, args, leaves, lasting, unless))
        except BaseException as error:
            with _lock:
                _programs.pop(key, None)
            made.set_exception(error)
    return made.result()


def _shorten(kept: OrderedDict[Any, Any]) -> None:
    while len(kept) > LARGEST:
        kept.popitem(last=False)


def _compiled(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    leaves: list[Any],
    lasting: bool,
    unless: threading.Event | None,
) -> Program:
    """Compile function(*args) with arrays alone as inputs and results, because JAX's caches keep all structures."""
    arrays, static = eqx.partition(args, _is_input)
    structure = jax.tree.structure(arrays)
    made: list[Any] = []

    def flat(*inputs: Any) -> list[Any]:
        results, result = jax.tree.flatten(function(*eqx.combine(jax.tree.unflatten(structure, inputs), static)))
        made.append(result)
        return results

    lowered = jax.jit(flat).lower(*leaves)
    if unless is not None and unless.is_set():
        raise CancelledError
    calls = [line for line in lowered.as_text().splitlines() if "lapack" in line]
    compiled = lowered.compile() if lasting else _compiled_quickly(lowered)
    result = made[0]
    return Program(
        lambda *inputs: jax.tree.unflatten(result, compiled(*inputs)),
        any(BATCH_OF_MATRICES.search(line) for line in calls),
    )


def _compiled_quickly(lowered: Any) -> Callable[..., Any]:
    """The program with fewer optimisations; with all of them if this version of XLA does not have these options."""
    try:
        return lowered.compile(compiler_options=QUICK)
    except jax.errors.JaxRuntimeError:
        return lowered.compile()


def _key(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[list[Any], Any]:
    """The arrays of the arguments, in the types that JAX uses, and the identity of the program."""
    arrays, static = eqx.partition(args, _is_input)
    leaves = [_as_input(leaf) for leaf in jax.tree.leaves(arrays)]
    static_leaves, static_structure = jax.tree.flatten(static)
    shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)
    return leaves, (function, jax.tree.structure(arrays), static_structure, tuple(static_leaves), shapes)


def _is_input(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct)


def _as_input(leaf: Any) -> Any:
    """The array in a type that JAX has: without double precision, a float64 becomes a float32, perhaps infinite."""
    if isinstance(leaf, jax.Array):
        return leaf
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype))
    with np.errstate(over="ignore"):
        return np.asarray(leaf, jax.dtypes.canonicalize_dtype(leaf.dtype))
