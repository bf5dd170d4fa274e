"""Is a log density a function of z alone? JAX calls it once and keeps the program it wrote."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from civi.errors import TargetError
from civi.problem.target.base import Target


def check_pure(target: Target) -> None:
    """Refuse a log density that leaves traced values behind, or that is another function at every call.

    A list that grows, a counter or np.random inside would be frozen at its value in the one call that JAX makes.
    """
    try:
        with jax.checking_leaks():
            _traced(target)
    except Exception as error:
        if not str(error).startswith("Leaked"):
            raise
        raise TargetError(
            "the log density keeps a value of its own call in a global, an attribute or an outer list: JAX calls it "
            "once only, so return what is needed (numpyro.deterministic in a model)"
        ) from error
    if not _same(_traced(target), _traced(target), target.dim):
        raise TargetError(
            "the log density is another function at every call: JAX calls it once only, so leave out Python's side "
            "effects (counters, np.random, time)"
        )


def _traced(target: Target) -> Any:
    """The program, from a call of its own: JAX remembers the trace of a function it has seen."""
    return jax.make_jaxpr(lambda z: target.log_prob(z))(jax.ShapeDtypeStruct((target.dim,), float))


def _same(first: Any, second: Any, dim: int) -> bool:
    """Equal to the letter; else equal in value at one point, as names and addresses may differ."""
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
