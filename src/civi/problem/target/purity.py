"""Check that a log density is a pure function of z, because JAX traces it once and reuses the program."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from civi.errors import TargetError
from civi.problem.target.program import code_of, depends, same_array, text, trace

REMEMBERED = 1000
_pure: OrderedDict[str, bool] = OrderedDict()


def pure_trace(log_density: Callable[..., Any], *inputs: Any, origin: Any) -> ClosedJaxpr:
    """The operations of a log density of z and further inputs.

    Raises TargetError if it leaks traced values, is not deterministic, or does not depend on z. A growing list, a
    counter or np.random inside it would be frozen at its value during the only call that JAX makes. The check takes
    longer than the trace, so it is made once for a Python function with the same code and the same operations.

    Args:
        log_density: the log density.
        *inputs: shapes of its inputs.
        origin: the user's function; its code and the operations identify what has been checked.
    """
    traced, _ = trace(log_density, *inputs)
    code = code_of(origin)
    name = hashlib.sha256(repr((text(traced), code)).encode()).hexdigest()
    if isinstance(code, str) or name not in _pure:
        _check_pure(traced, log_density, *inputs)
        _pure[name] = True
        while len(_pure) > REMEMBERED:
            _pure.popitem(last=False)
    return traced


def _check_pure(traced: ClosedJaxpr, log_density: Callable[..., Any], *inputs: Any) -> None:
    """Raise TargetError if a second trace differs from the first, leaks, or does not depend on z."""
    if not _same(traced, _leak_checked(log_density, *inputs)):
        raise TargetError(
            "the log density is not deterministic: JAX calls it only once, so remove Python side effects (counters, "
            "np.random, time)"
        )
    if not depends(traced.jaxpr, 1)[0]:
        raise TargetError(
            "the log density is constant: its value does not depend on z, so there is no posterior to fit; return "
            "log p(z) up to a constant"
        )


def _leak_checked(log_density: Callable[..., Any], *inputs: Any) -> ClosedJaxpr:
    try:
        with jax.checking_leaks():
            return trace(log_density, *inputs)[0]
    except Exception as error:
        if not str(error).startswith("Leaked"):
            raise
        raise TargetError(
            "the log density stores a traced value in a global, an attribute or an outer list: JAX calls it only once, "
            "so return what you need instead (in a model, use numpyro.deterministic)"
        ) from error


def _same(first: ClosedJaxpr, second: ClosedJaxpr) -> bool:
    """Whether two traces have the same text or, since names and addresses may differ, the same value at one point."""
    if text(first) == text(second) and all(map(same_array, first.consts, second.consts)):
        return True
    points = [_point(variable.aval) for variable in first.jaxpr.invars]
    values = [jax.core.eval_jaxpr(program.jaxpr, program.consts, *points)[0] for program in (first, second)]
    return same_array(*values)


def _point(aval: Any) -> Any:
    return jnp.asarray(np.linspace(-1.0, 1.0, aval.size).reshape(aval.shape), aval.dtype)
