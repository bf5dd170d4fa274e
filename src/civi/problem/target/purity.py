"""Check that a log density is a pure function of z, because JAX traces it once and reuses the compiled program."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from civi.errors import TargetError
from civi.problem.target.base import Target


def check_pure(target: Target) -> None:
    """Raise TargetError if a log density leaks traced values or is not deterministic.

    A growing list, a counter or np.random inside it would be frozen at its value during the only call that JAX makes.
    """
    try:
        with jax.checking_leaks():
            _traced(target)
    except Exception as error:
        if not str(error).startswith("Leaked"):
            raise
        raise TargetError(
            "the log density stores a traced value in a global, an attribute or an outer list: JAX calls it only once, "
            "so return what you need instead (in a model, use numpyro.deterministic)"
        ) from error
    if not _same(_traced(target), _traced(target), target.dim):
        raise TargetError(
            "the log density is not deterministic: JAX calls it only once, so remove Python side effects (counters, "
            "np.random, time)"
        )


def _traced(target: Target) -> Any:
    """The program from a new trace; the lambda is new at each call, because JAX caches traces by function."""
    return jax.make_jaxpr(lambda z: target.log_prob(z))(jax.ShapeDtypeStruct((target.dim,), float))


def _same(first: Any, second: Any, dim: int) -> bool:
    """Whether two programs have the same text or, since names and addresses may differ, the same value at one point."""
    constants = zip(first.consts, second.consts, strict=False)
    if _text(first) == _text(second) and all(_equal(a, b) for a, b in constants):
        return True
    z = jnp.linspace(-1.0, 1.0, dim)
    return _equal(*(jax.core.eval_jaxpr(program.jaxpr, program.consts, z)[0] for program in (first, second)))


def _text(program: Any) -> str:
    return re.sub(r"0x[0-9a-f]+", "", str(program.jaxpr))


def _equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if any(jnp.issubdtype(jnp.result_type(x), jax.dtypes.prng_key) for x in (a, b)):
        a, b = jax.random.key_data(a), jax.random.key_data(b)
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=np.asarray(a).dtype.kind == "f")
