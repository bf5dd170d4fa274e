"""A NumPyro model as a target: z is the vector of all unconstrained latent sites."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray
from numpyro import handlers
from numpyro.infer.util import constrain_fn, initialize_model

from civi.errors import TargetError
from civi.problem.target.explain import explain
from civi.problem.target.numpyro_sites import ModelFunction, Rows, Sites, Subsample, hint, impossible, sites_of
from civi.problem.target.space import TreeSpace

SEEDS = 16


@dataclass(frozen=True, eq=False)
class Traced:
    """A traced model with its arguments.

    `potential(index, *args, **kwargs)` is the potential energy on the rows `index` of the plates that subsample.
    `unravel` maps z to the unconstrained sites, and `constrain` maps these to the sites in the user's space.
    """

    model: ModelFunction
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    sites: Sites
    unravel: TreeSpace
    potential: Callable[..., Callable[[Any], Array]]
    constrain: Callable[[Any], dict[str, Array]]


class NumPyroTarget(eqx.Module):
    """log p(x, z) = - potential energy, including the Jacobians of the constraints. Discrete sites are summed out.

    A model with plates that subsample can be evaluated on a mini-batch: `index` holds the rows of each plate.
    """

    traced: Traced = eqx.field(static=True)
    index: dict[str, Int[Array, " B"]] = eqx.field(default_factory=dict)

    @property
    def dim(self) -> int:
        return self.traced.unravel.dim

    @property
    def rows(self) -> int:
        """Number of rows of the first plate that subsamples; 0 if there is none."""
        return next((plate.size for plate in self._plates.values()), 0)

    @property
    def batch_size(self) -> int | None:
        """The subsample size that the model sets for this plate; None if no plate subsamples."""
        return next((plate.subsample_size for plate in self._plates.values()), None)

    @property
    def _plates(self) -> dict[str, Subsample]:
        return self.traced.sites.plates

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        potential = self.traced.potential(self.index, *self.traced.args, **self.traced.kwargs)
        return -potential(self.traced.unravel(z))

    def batch(self, key: PRNGKeyArray, count: int) -> NumPyroTarget:
        """The model on `count` random rows of the first plate that subsamples; other plates keep their own size."""
        sizes = [count, *(plate.subsample_size for plate in list(self._plates.values())[1:])]
        keys = jax.random.split(key, len(sizes))
        index = {
            name: jax.random.randint(key, (number,), 0, plate.size)
            for (name, plate), key, number in zip(self._plates.items(), keys, sizes, strict=True)
        }
        return NumPyroTarget(self.traced, index)

    def constrain(self, z: Float[Array, " D"]) -> dict[str, Array]:
        """The sites by name, in their own shapes and constrained space, including deterministic sites."""
        return self.traced.constrain(self.traced.unravel(z))


def numpyro_target(model: ModelFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NumPyroTarget:
    """The model as a target; raises TargetError if it cannot be fitted.

    A model must have continuous latent sites, and its discrete ones must have finite support. For a model that
    subsamples or enumerates, NumPy arrays in the arguments become JAX arrays, because traced rows index them.

    Args:
        model: a NumPyro model.
        args: its positional arguments.
        kwargs: its keyword arguments.
    """
    sites = sites_of(model, args, kwargs)
    _check_discrete(sites)
    if sites.plates or sites.discrete:
        args, kwargs = jax.tree.map(
            lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, (args, kwargs)
        )

    def on_rows(index: Mapping[str, Array], *args: Any, **kwargs: Any) -> Any:
        with Rows(index=index):
            return model(*args, **kwargs)

    arguments = {"model_args": ({}, *args), "model_kwargs": dict(kwargs)}
    try:
        with warnings.catch_warnings():
            for harmless in ("Some algorithms will automatically enumerate", "(Site .*)?Out-of-support values"):
                warnings.filterwarnings("ignore", harmless)
            made = initialize_model(jax.random.key(0), on_rows, dynamic_args=True, **arguments)
    except RuntimeError as error:
        where = impossible(model, args, kwargs)
        raise TargetError(f"no initial point with a finite log density was found for the model: {where}") from error
    except Exception as error:
        raise TargetError(f"the model fails: {explain(error)}{hint(sites.plates)}") from error
    constrain = made.postprocess_fn({}, *args, **kwargs)
    if sites.discrete:
        constrain = _without_discrete(on_rows, arguments, made.param_info.z)
    unravel = TreeSpace.like(made.param_info.z)
    return NumPyroTarget(Traced(model, args, dict(kwargs), sites, unravel, made.potential_fn, jax.jit(constrain)))


def _check_discrete(sites: Sites) -> None:
    if not sites.discrete:
        return
    if len(sites.discrete) == len(sites.latent):
        raise TargetError(
            f"the model has only discrete latent sites ({', '.join(sites.latent)}), but civi fits continuous ones"
        )
    unbounded = [name for name, can_be_summed_out in sites.discrete.items() if not can_be_summed_out]
    if unbounded:
        raise TargetError(
            f"the model has discrete latent sites that cannot be summed out ({', '.join(unbounded)}): their support "
            "is infinite; use a continuous distribution, or a discrete one with finite support"
        )
    if find_spec("funsor") is None:
        raise TargetError(
            f"the model has discrete latent sites ({', '.join(sites.discrete)}): to have them summed out, pip install "
            "funsor; or sum them out in the model, for example with MixtureSameFamily"
        )


def _without_discrete(model: ModelFunction, arguments: dict[str, Any], start: Any) -> Callable[[Any], dict[str, Array]]:
    """A `constrain` that returns the continuous sites and those deterministic sites that no discrete site affects."""

    def constrain(parameters: Any, seed: Any) -> dict[str, Array]:
        seeded = handlers.seed(model, seed)
        return constrain_fn(seeded, *arguments.values(), parameters, return_deterministic=True)

    values = jax.vmap(partial(constrain, start))(jax.random.split(jax.random.key(0), SEEDS))
    kept = {name for name, value in values.items() if name in start or (value == value[0]).all()}

    def without(parameters: Any) -> dict[str, Array]:
        values = constrain(parameters, jax.random.key(0))
        return {name: value for name, value in values.items() if name in kept}

    return without
