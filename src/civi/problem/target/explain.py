"""Why a user's own function fails, in one line: JAX's errors about tracing become what to write instead."""

from __future__ import annotations

from jax import errors as jax_errors

ADVICE: tuple[tuple[type[Exception], str], ...] = (
    (
        jax_errors.TracerBoolConversionError,
        "Python branches (if, while, and, or) on a value that JAX traces: use jnp.where or jax.lax.cond instead",
    ),
    (
        jax_errors.TracerArrayConversionError,
        "a value that JAX traces is given to NumPy or another library: use jax.numpy and jax.scipy instead",
    ),
    (
        jax_errors.NonConcreteBooleanIndexError,
        "an array is indexed by a mask that JAX traces: use jnp.where instead",
    ),
    (
        jax_errors.UnexpectedTracerError,
        "a traced value of an earlier call is used: keep nothing in a global or an outer list, return it instead",
    ),
    (
        jax_errors.ConcretizationTypeError,
        "a value that JAX traces is made a Python number (int, float, item): keep it a JAX array",
    ),
    (
        jax_errors.TracerIntegerConversionError,
        "a value that JAX traces is used as a Python integer (index, range): use jnp.take or jax.lax.fori_loop instead",
    ),
)


def explain(error: BaseException) -> str:
    """The error in one line."""
    for kind, advice in ADVICE:
        if isinstance(error, kind):
            return advice
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
