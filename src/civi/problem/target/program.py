"""Python functions as programs: traced once, with the arrays that they use as arguments and not as constants.

Two programs are equal if they do the same to arrays of the same shapes. A compiled function of a program and its
constants is therefore reused for other data of the same shapes. JAX keeps the traces of a function for as long as the
function exists, so each program has its own function, and those of the last KEPT programs exist.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from civi.errors import CALLED_IN_JIT, SettingError

LAPACK = {"cholesky", "triangular_solve", "lu", "qr", "geqrf", "householder_product", "eigh", "eig", "svd", "schur"}
GATHERED, SMALL = 2**16, 32
KEPT = 16


@dataclass(frozen=True, eq=False)
class Program:
    """A traced function.

    Attributes:
        jaxpr: its operations.
        places: the position in the pool of each array that it uses.
        structure: the structure of its result.
        digest: what equality means: the text of the operations, the nested constants and the structures.
    """

    jaxpr: Jaxpr = field(repr=False)
    places: tuple[int, ...]
    structure: Any
    digest: str

    @cached_property
    def points_at_a_time(self) -> int | None:
        """Number of points to evaluate at a time, each with its gradient; None for any number.

        On a CPU, batched routines of LAPACK are no faster than single ones, and they can wait for ever for a thread
        that is itself waiting. The gradient of indexing (`effect[group]`) is a scatter, which is
        slower per point for many points at once than for a few.
        """
        equations = list(_equations(self.jaxpr))
        if any(equation.primitive.name in LAPACK for equation in equations):
            return 1
        gathered = sum(e.outvars[0].aval.size for e in equations if e.primitive.name == "gather")
        most = max(1, GATHERED // max(1, gathered))
        return 1 << (most.bit_length() - 1) if most < SMALL else None

    @cached_property
    def work(self) -> int:
        """Number of elements that one evaluation computes; the body of a loop is counted once."""
        return sum(getattr(out.aval, "size", 0) for equation in _equations(self.jaxpr) for out in equation.outvars)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass
class Pool:
    """The arrays that programs use, each held once. NumPy arrays become JAX arrays."""

    arrays: list[Any] = field(default_factory=list)
    origins: list[Any] = field(default_factory=list)

    def places(self, arrays: Sequence[Any]) -> tuple[int, ...]:
        """The positions of these arrays, each its own; those that the pool does not have are added."""
        if any(isinstance(array, jax.core.Tracer) for array in arrays):
            raise SettingError(CALLED_IN_JIT)
        found: list[int] = []
        for array in arrays:
            free = [i for i in range(len(self.arrays)) if i not in found]
            same = [i for i in free if array is self.origins[i] or array is self.arrays[i]]
            same = same or [i for i in free if same_array(array, self.origins[i])]
            found.append(same[0] if same else self._add(array))
        return tuple(found)

    def _add(self, array: Any) -> int:
        self.origins.append(array)
        self.arrays.append(array if isinstance(array, jax.Array) else on_device(array))
        return len(self.arrays) - 1

    def program(self, traced: ClosedJaxpr, structure: Any, origin: Any = None) -> Program:
        """The program of a trace, whose constants are added to the pool.

        Args:
            traced: the trace.
            structure: the structure of the result.
            origin: the user's function. Only its code counts, so that programs do not keep its data alive.
        """
        places = self.places(traced.consts)
        key = (text(traced), _nested(traced.jaxpr), places, str(structure), repr(code_of(origin)))
        return Program(traced.jaxpr, places, structure, hashlib.sha256(repr(key).encode()).hexdigest())


def trace(function: Callable[..., Any], *inputs: Any) -> tuple[ClosedJaxpr, Any]:
    """The operations of a function of inputs of these shapes, and the structure of its result.

    The lambda is new at each call, because JAX caches traces by function. Arrays that a nested jitted function captures
    are constants of that function, and become constants of the whole by a second trace.
    """
    traced, shapes = jax.make_jaxpr(lambda *values: function(*values), return_shape=True)(*inputs)
    if any(_captures(equation) for equation in traced.eqns):
        traced = jax.make_jaxpr(partial(_run, traced.jaxpr, traced.consts))(*jax.tree.leaves(inputs))
    return traced, jax.tree.structure(shapes)


def _captures(equation: Any) -> bool:
    """Whether this is a call of a jitted function with constants of its own, here or further down."""
    inner = equation.params.get("jaxpr") if equation.primitive.name == "jit" else None
    return inner is not None and (bool(inner.consts) or any(map(_captures, inner.eqns)))


def _run(jaxpr: Jaxpr, constants: Any, *inputs: Any) -> list[Any]:
    """Evaluate operation by operation, with jitted functions that capture arrays written out."""
    known = dict(zip(map(id, [*jaxpr.constvars, *jaxpr.invars]), [*constants, *inputs], strict=True))
    read = lambda variable: variable.val if isinstance(variable, Literal) else known[id(variable)]  # noqa: E731
    for equation in jaxpr.eqns:
        variables = [variable for variable in equation.invars if not isinstance(variable, Literal)]
        if _captures(equation):
            inner = equation.params["jaxpr"]
            results = _run(inner.jaxpr, inner.consts, *map(read, equation.invars))
        else:
            single = jaxpr.replace(constvars=[], invars=variables, eqns=[equation], outvars=equation.outvars)
            results = jax.core.eval_jaxpr(single, [], *map(read, variables))
        known |= dict(zip(map(id, equation.outvars), results, strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def evaluate(program: Program, constants: tuple[Any, ...], *inputs: Any) -> Any:
    """The result of a program, compiled once for all programs that are equal."""
    return _function(program)(constants, *inputs)


@lru_cache(KEPT)
def _function(program: Program) -> Callable[..., Any]:
    """The operations as a jitted function of the arrays of the pool and the inputs."""
    return jax.jit(partial(_evaluate, program.jaxpr, program.places, program.structure), inline=True)


def _evaluate(jaxpr: Jaxpr, places: tuple[int, ...], structure: Any, constants: tuple[Any, ...], *inputs: Any) -> Any:
    shapes: list[Any] = [variable.aval for variable in jaxpr.invars]
    flat = [jnp.asarray(value, shape.dtype) for value, shape in zip(jax.tree.leaves(inputs), shapes, strict=True)]
    return jax.tree.unflatten(structure, jax.core.eval_jaxpr(jaxpr, [constants[i] for i in places], *flat))


def on_device(array: Any, dtype: Any = None) -> Any:
    """A JAX array of these values. Unlike jnp.asarray, this compiles nothing."""
    values = np.asarray(array)
    return jax.device_put(values.astype(dtype or jax.dtypes.canonicalize_dtype(values.dtype), copy=False))


def text(traced: ClosedJaxpr) -> str:
    """The operations in words, without addresses in memory."""
    return re.sub(r"0x[0-9a-f]+", "", str(traced.jaxpr))


def same_array(a: Any, b: Any) -> bool:
    """Whether two constants are equal in type, shape and every element; NaN equals NaN."""
    if a is b:
        return True
    if (np.shape(a), jnp.result_type(a)) != (np.shape(b), jnp.result_type(b)):
        return False
    if jnp.issubdtype(jnp.result_type(a), jax.dtypes.prng_key):
        a, b = jax.random.key_data(a), jax.random.key_data(b)
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=np.asarray(a).dtype.kind in "fc")


def depends(jaxpr: Jaxpr, inputs: int) -> list[bool]:
    """For each result, whether one of the first `inputs` inputs may affect it."""
    affected = set(map(id, jaxpr.invars[:inputs]))
    for equation in jaxpr.eqns:
        if any(id(variable) in affected for variable in equation.invars):
            affected |= set(map(id, equation.outvars))
    return [not isinstance(variable, Literal) and id(variable) in affected for variable in jaxpr.outvars]


def _nested(jaxpr: Jaxpr) -> list[str]:
    """Digests of the constants inside of nested programs, which stay there, and a new mark for each Python callback."""
    found = []
    for equation in jaxpr.eqns:
        if "callback" in equation.primitive.name:
            found.append(f"callback {secrets.token_hex(16)}")
        for inner in _programs(list(equation.params.values())):
            if isinstance(inner, ClosedJaxpr):
                found += [hashlib.sha256(np.asarray(_plain(array)).tobytes()).hexdigest() for array in inner.consts]
            found += _nested(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)
    return found


def _equations(jaxpr: Jaxpr) -> Iterator[Any]:
    """All operations, also those of nested programs."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in _programs(list(equation.params.values())):
            yield from _equations(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)


def _programs(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, ClosedJaxpr | Jaxpr):
            yield value
        elif isinstance(value, tuple | list):
            yield from _programs(value)


def _plain(array: Any) -> Any:
    is_key = jnp.issubdtype(jnp.result_type(array), jax.dtypes.prng_key)
    return jax.random.key_data(array) if is_key else array


def code_of(function: Any) -> Any:
    """The code of a function, without the values that it captures."""
    while isinstance(function, partial):
        function = function.func
    code = getattr(function, "__code__", None)
    return (code.co_code, code.co_names, code.co_filename, code.co_firstlineno) if code else type(function).__qualname__
