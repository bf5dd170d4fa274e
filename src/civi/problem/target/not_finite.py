"""Why no point with a finite log density was found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from civi.errors import TargetError
from civi.problem.target.numpyro_sites import started
from civi.problem.target.traced import ModelSpace, Origin


def why_not_finite(space: Callable[[Array], Any]) -> str:
    """One sentence for the user; for a model, it names the sites whose log density is not finite at a random start.

    Args:
        space: the space of the target that `user_target` made.
    """
    if not isinstance(space, ModelSpace) or space.origin is None:
        return (
            "the log density is not finite at any point tried near 0: shift or scale z so that the posterior is near "
            "0, and give every parameter a proper prior"
        )
    return f"no initial point with a finite log density was found for the model: {_where(space.origin)}"


def _where(origin: Origin) -> str:
    def counts() -> dict[str, tuple[Array, Array]]:
        trace, _ = started(origin.model, origin.args, origin.kwargs)
        values = {name: site["fn"].log_prob(site["value"]) for name, site in trace.items() if site["type"] == "sample"}
        return {name: ((~jnp.isfinite(value)).sum(), jnp.asarray(value.size)) for name, value in values.items()}

    try:
        found = {name: (int(bad), int(size)) for name, (bad, size) in jax.jit(counts)().items()}
    except TargetError as error:
        return str(error)
    shown = [f"{name} ({bad} of {size} values)" for name, (bad, size) in found.items() if bad]
    return (
        f"not finite at {', '.join(shown)}" if shown else "the posterior is too far from 0, or its gradient is infinite"
    )
