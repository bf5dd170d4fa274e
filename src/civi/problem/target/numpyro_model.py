"""A NumPyro model as a target: z is the vector of all unconstrained latent sites.

log p(x, z) is minus NumPyro's potential energy, including the Jacobians of the constraints. Discrete sites are summed
out. The model is traced, and nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpyro import handlers
from numpyro.infer.util import constrain_fn, potential_energy

from civi.errors import TargetError
from civi.problem.target.centring import Centring, coordinate_name, parameters
from civi.problem.target.numpyro_sites import ModelFunction, Rows, Sites, explained, sites_of
from civi.problem.target.program import Pool, Program, depends, on_device, trace
from civi.problem.target.purity import pure_trace
from civi.problem.target.space import TreeSpace
from civi.problem.target.traced import ModelSpace, Origin, TracedTarget, batch_sizes


def numpyro_target(
    model: ModelFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, reparam: bool = True
) -> tuple[TracedTarget, ModelSpace]:
    """The model as a target, and the map from z to its sites; raises TargetError if it cannot be fitted.

    A model must have continuous latent sites, and its discrete ones must have finite support. For a model that
    subsamples or enumerates, NumPy arrays in the arguments become JAX arrays, because traced rows index them.

    Args:
        model: a NumPyro model.
        args: its positional arguments.
        kwargs: its keyword arguments.
        reparam: whether location-scale sites whose location or scale is latent get a degree of centring. It is 1 at
            first, which is the model as written.
    """
    sites = sites_of(model, args, kwargs)
    _check_discrete(sites)
    if sites.plates or sites.discrete:
        args, kwargs = jax.tree.map(
            lambda leaf: on_device(leaf) if isinstance(leaf, np.ndarray) else leaf, (args, kwargs)
        )
    reading = Reading(Origin(model, args, dict(kwargs), sites), TreeSpace.like(sites.unconstrained))
    if reparam and sites.location_scale:
        reading = replace(reading, centred=reading.hierarchical())
    pool = Pool()
    density = reading.density(pool)
    batches = tuple((plate.subsample_size, reading.on_batch(pool, plate.subsample_size)) for plate in reading.first)
    constrain = reading.constrain(pool)
    constants, degrees = tuple(pool.arrays), on_device(np.ones(len(reading.centred)))
    target = TracedTarget(
        program=density,
        dim=reading.unravel.dim,
        constants=constants,
        degrees=degrees,
        centred_sites=reading.centred,
        plates=tuple(sites.plates.items()),
        batches=batches,
    )
    return target, ModelSpace(constrain, constants, degrees, reading.centred, reading.origin)


def with_batch(target: TracedTarget, space: ModelSpace, count: int) -> TracedTarget:
    """The target with a program for mini-batches of `count` rows, next to those of the model's own size.

    Args:
        target: a target with a plate that subsamples.
        space: the space that was made with it.
        count: number of rows of the first plate that subsamples.
    """
    if count in dict(target.batches) or space.origin is None:
        return target
    reading = Reading(space.origin, TreeSpace.like(space.origin.sites.unconstrained), target.centred_sites)
    pool = Pool(list(target.constants), list(target.constants))
    program = reading.on_batch(pool, count)
    return replace(target, constants=tuple(pool.arrays), batches=(*target.batches, (count, program)))


@dataclass(frozen=True)
class Reading:
    """Traces of a model. `unravel` maps z to the unconstrained sites; `centred` are those with a degree of centring."""

    origin: Origin
    unravel: TreeSpace
    centred: tuple[str, ...] = ()

    @property
    def first(self) -> list[Any]:
        """The first plate that subsamples, if there is one."""
        return list(self.origin.sites.plates.values())[:1]

    @property
    def inputs(self) -> tuple[Any, Any]:
        """Shapes of z and of the degrees of centring."""
        number = jnp.result_type(float)
        return jax.ShapeDtypeStruct((self.unravel.dim,), number), jax.ShapeDtypeStruct((len(self.centred),), number)

    def density(self, pool: Pool) -> Program:
        """The log density on all rows."""
        with explained(self.origin.sites.plates):
            traced = pure_trace(self._log_prob, *self.inputs, {}, origin=self.origin.model)
        return pool.program(traced, jax.tree.structure(0), self.origin.model)

    def on_batch(self, pool: Pool, count: int) -> Program:
        """The log density on `count` rows of the first plate that subsamples."""
        sizes = batch_sizes(tuple(self.origin.sites.plates.items()), count)
        index = {name: jax.ShapeDtypeStruct((size,), jnp.int32) for name, size in sizes.items()}
        with explained(self.origin.sites.plates):
            return pool.program(*trace(self._log_prob, *self.inputs, index), self.origin.model)

    def constrain(self, pool: Pool) -> Program:
        """The map to the sites, without deterministic sites that a discrete site affects."""
        kept = self._free_of_discrete()

        def constrain(z: Array, degrees: Array) -> dict[str, Array]:
            return {name: value for name, value in self._values({}, z, degrees).items() if name in kept}

        with explained(self.origin.sites.plates):
            return pool.program(*trace(constrain, *self.inputs), self.origin.model)

    def hierarchical(self) -> tuple[str, ...]:
        """Names of the location-scale sites whose location or scale depends on latent sites."""
        names = self.origin.sites.location_scale

        def of_sites(z: Array) -> dict[str, Any]:
            model = handlers.trace(self.seeded({}, ()))
            constrain_fn(model, self.origin.args, self.origin.kwargs, self.unravel(z))
            return {name: parameters(model.trace[name]["fn"]) for name in names}

        with explained(self.origin.sites.plates):
            traced, structure = trace(of_sites, self.inputs[0])
        dependent = jax.tree.unflatten(structure, depends(traced.jaxpr, 1))
        return tuple(name for name in names if any(dependent[name]))

    def _log_prob(self, z: Array, degrees: Array, index: Mapping[str, Array]) -> Array:
        model, sites = self.seeded(index, degrees), self.origin.sites
        if sites.discrete:
            from numpyro.contrib.funsor import config_enumerate, enum  # noqa: PLC0415 start-up time

            model = enum(config_enumerate(model), -sites.nesting - 1)
        arguments = (self.origin.args, self.origin.kwargs)
        return -potential_energy(model, *arguments, self.coordinates(z), enum=bool(sites.discrete))

    def _values(self, discrete: Mapping[str, Array], z: Array, degrees: Array) -> dict[str, Array]:
        """The continuous and deterministic sites; discrete sites that are not given are drawn with a fixed key."""
        model = handlers.substitute(self.seeded({}, degrees), data=dict(discrete))
        arguments = (self.origin.args, self.origin.kwargs)
        return constrain_fn(model, *arguments, self.coordinates(z), return_deterministic=True)

    def coordinates(self, z: Array) -> dict[str, Array]:
        """The unconstrained sites; one with a degree of centring has the name of its coordinate."""
        return {coordinate_name(name) if name in self.centred else name: part for name, part in self.unravel(z).items()}

    def seeded(self, index: Mapping[str, Array], degrees: Any) -> ModelFunction:
        """The model with a fixed seed, these rows of its plates and these degrees of centring."""
        model = handlers.seed(self.origin.model, jax.random.key(0))
        if self.centred:
            config = {name: Centring(degrees[i]) for i, name in enumerate(self.centred)}
            model = handlers.reparam(model, config=config)

        def on_rows(*args: Any, **kwargs: Any) -> Any:
            with Rows(index=index):
                return model(*args, **kwargs)

        return on_rows

    def _free_of_discrete(self) -> set[str]:
        """Names of the sites that no discrete site affects."""
        sites = self.origin.sites
        if not sites.discrete:
            return {*sites.unconstrained, *sites.deterministic}
        with explained(sites.plates):
            traced, structure = trace(self._values, sites.values, *self.inputs)
        affected = jax.tree.unflatten(structure, depends(traced.jaxpr, len(sites.values)))
        return {name for name, is_affected in affected.items() if not is_affected}


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
