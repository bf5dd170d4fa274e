"""A NumPyro model with its arguments as a target: log p(x, z) of the unconstrained latent sites as one vector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from civi.errors import TargetError


class NumPyroTarget(eqx.Module):
    """log p(x, z) = - potential energy, Jacobians of the constraints included."""

    potential: Callable[[Any], Array] = eqx.field(static=True)
    unravel: Callable[[Array], Any] = eqx.field(static=True)
    constrain_sites: Callable[[Any], dict[str, Array]] = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        return -self.potential(self.unravel(z))

    def constrain(self, z: Float[Array, " D"]) -> dict[str, Array]:
        """The sites in the user's names, shapes and space, deterministic ones included."""
        return self.constrain_sites(self.unravel(z))


def numpyro_target(model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NumPyroTarget:
    """Trace the model once; refuse one that has nothing to infer, or discrete sites."""
    from numpyro.infer.util import initialize_model

    _check_sites(model, args, kwargs)
    try:
        made = initialize_model(jax.random.key(0), model, model_args=args, model_kwargs=dict(kwargs))
    except RuntimeError as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TargetError(f"the model has no point with finite log density near its start: {reason}") from error
    flat, _ = ravel_pytree(made.param_info.z)
    shapes = {name: jnp.shape(value) for name, value in made.param_info.z.items()}
    return NumPyroTarget(made.potential_fn, _unraveler(shapes), made.postprocess_fn, flat.size)


def _unraveler(shapes: dict[str, tuple[int, ...]]) -> Callable[[Array], dict[str, Array]]:
    """Cut a vector into the sites, in the order of their names as `ravel_pytree` has it; any precision."""
    names = sorted(shapes)
    sizes = [int(jnp.prod(jnp.asarray(shapes[name], int))) for name in names]
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]

    def unravel(z: Array) -> dict[str, Array]:
        parts = jnp.split(z, ends[:-1])
        return {name: part.reshape(shapes[name]) for name, part in zip(names, parts, strict=True)}

    return unravel


def _check_sites(model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    from numpyro import handlers
    from numpyro.infer import init_to_uniform

    started = handlers.substitute(handlers.seed(model, jax.random.key(0)), substitute_fn=init_to_uniform)
    with handlers.block():
        sites = handlers.trace(started).get_trace(*args, **kwargs)
    latent = {name: site for name, site in sites.items() if site["type"] == "sample" and not site["is_observed"]}
    if not latent:
        raise TargetError("the model has no latent sites: there is nothing to infer")
    discrete = [name for name, site in latent.items() if site["fn"].is_discrete]
    if discrete:
        raise TargetError(
            f"the model has discrete latent sites ({', '.join(discrete)}): sum them out, for example with "
            "MixtureSameFamily"
        )
