"""One-line explanations of errors in user functions: for JAX's tracing errors, they say what to write instead."""

from __future__ import annotations

from jax import errors as jax_errors

GIVE_DIM = "; for a log density of z, give dim (the length of z) or example (a pytree like z)"
ADVICE: tuple[tuple[type[Exception], str], ...] = (
    (
        jax_errors.TracerBoolConversionError,
        "a Python branch (if, while, and, or) depends on a traced value: use jnp.where or jax.lax.cond instead",
    ),
    (
        jax_errors.TracerArrayConversionError,
        "a traced value is passed to NumPy or another library: use jax.numpy and jax.scipy instead",
    ),
    (
        jax_errors.NonConcreteBooleanIndexError,
        "an array is indexed by a traced mask: use jnp.where instead",
    ),
    (
        jax_errors.UnexpectedTracerError,
        "a traced value of an earlier call is used: return values instead of storing them in a global or an outer list",
    ),
    (
        jax_errors.ConcretizationTypeError,
        "a traced value is converted to a Python number (int, float, item): keep it a JAX array",
    ),
    (
        jax_errors.TracerIntegerConversionError,
        "a traced value is used as a Python integer (index, range): use jnp.take or jax.lax.fori_loop instead",
    ),
)


def explain(error: BaseException) -> str:
    """The error in one line: advice for a known error of JAX, otherwise its type and the first line of its message."""
    for kind, advice in ADVICE:
        if isinstance(error, kind):
            return advice
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
