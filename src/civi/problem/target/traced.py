"""A target and a space made of traced programs: their data are arguments of every compiled function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, PRNGKeyArray

from civi.errors import SettingError, TargetError, require
from civi.parts import constant
from civi.problem.target.numpyro_sites import ModelFunction, Sites, Subsample
from civi.problem.target.program import Program, evaluate, on_device


class TracedTarget(eqx.Module):
    """log p(x, z) as a program of z, of the degrees of centring, and of the rows that the plates subsample.

    Two targets with the same operations on data of the same shapes have the same structure and differ in `constants`
    alone, so that a compiled function of one serves the other.

    Attributes:
        program: the operations; its inputs are z, `degrees` and `index`.
        dim: dimension of z.
        constants: the arrays that the user's function captures or is given.
        degrees: the degree of centring of each of `centred_sites`: 1 is the model as written, 0 is non-centred.
        index: the rows of each plate that subsamples; empty for all rows.
        centred_sites: names of the sites that have a degree of centring.
        plates: the plates that subsample, by name.
        batches: the program on a mini-batch, by the number of rows of the first of these plates.
    """

    program: Program = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    constants: tuple[Any, ...] = constant()
    degrees: Float[Array, " S"] = constant()
    index: dict[str, Int[Array, " _"]] = constant(default_factory=dict)
    centred_sites: tuple[str, ...] = eqx.field(static=True, default=())
    plates: tuple[tuple[str, Subsample], ...] = eqx.field(static=True, default=())
    batches: tuple[tuple[int, Program], ...] = eqx.field(static=True, default=())

    @property
    def rows(self) -> int:
        """Number of rows of the first plate that subsamples; 0 if there is none."""
        return next((plate.size for _, plate in self.plates), 0)

    @property
    def batch_size(self) -> int | None:
        """The subsample size that the model sets for this plate; None if no plate subsamples."""
        return next((plate.subsample_size for _, plate in self.plates), None)

    @property
    def points_at_a_time(self) -> int | None:
        """Number of points to evaluate at a time; None for any number (see `Program`)."""
        return self.program.points_at_a_time

    @property
    def work(self) -> int:
        """Number of elements that one evaluation computes (see `Program`)."""
        return self.program.work

    @property
    def is_complex(self) -> bool:
        """Whether log p is a complex number."""
        result: Any = self.program.jaxpr.outvars[0].aval
        return bool(jnp.issubdtype(result.dtype, jnp.complexfloating))

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        if z.shape != (self.dim,):
            raise TargetError(f"z must be a vector of length {self.dim}, not an array of shape {z.shape}")
        return evaluate(self.program, self.constants, z, self.degrees, self.index)

    def batch(self, key: PRNGKeyArray, count: int) -> TracedTarget:
        """The model on `count` random rows of the first plate that subsamples; other plates keep their own size."""
        programs = dict(self.batches)
        if count not in programs:
            raise TargetError(
                f"there is no program for mini-batches of {count} rows, only for {sorted(programs)}: prepare it with "
                "with_batch(target, space, count)"
            )
        sizes = batch_sizes(self.plates, count)
        keys = jax.random.split(key, len(sizes))
        index = {
            name: jax.random.randint(key, (sizes[name],), 0, plate.size)
            for (name, plate), key in zip(self.plates, keys, strict=True)
        }
        return replace(self, program=programs[count], index=index)

    def with_degrees(self, values: ArrayLike | Sequence[float]) -> TracedTarget:
        """The same posterior in other coordinates: `values` are the degrees of centring of `centred_sites`."""
        return replace(self, degrees=checked_degrees(values, self.centred_sites))


@dataclass(frozen=True)
class Origin:
    """A model, its arguments and its sites."""

    model: ModelFunction
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    sites: Sites


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["constants", "degrees"],
    meta_fields=["program", "centred_sites"],
    drop_fields=["origin"],
)
@dataclass(frozen=True, eq=False)
class ModelSpace:
    """The space of a model: z becomes its sites by name, in their own shapes and constrained space.

    It includes the deterministic sites. `origin` is not part of the pytree, so that compiled functions of a space do
    not depend on it and do not keep it alive; a space that was passed through one has none.
    """

    program: Program
    constants: tuple[Any, ...]
    degrees: Any
    centred_sites: tuple[str, ...] = ()
    origin: Origin | None = field(default=None, repr=False)

    def __call__(self, z: Array) -> dict[str, Array]:
        """The sites by name."""
        return evaluate(self.program, self.constants, z, self.degrees)

    def with_degrees(self, values: ArrayLike | Sequence[float]) -> ModelSpace:
        """The map from the coordinates of `TracedTarget.with_degrees(values)`."""
        return replace(self, degrees=checked_degrees(values, self.centred_sites))


def batch_sizes(plates: tuple[tuple[str, Subsample], ...], count: int) -> dict[str, int]:
    """Number of rows by plate, for a mini-batch of `count` rows of the first plate."""
    return {name: plate.subsample_size if i else count for i, (name, plate) in enumerate(plates)}


def checked_degrees(values: ArrayLike | Sequence[float], names: tuple[str, ...]) -> Array:
    """The degrees as an array; raises SettingError unless there is one from 0 to 1 for each name."""
    if isinstance(values, jax.core.Tracer):
        return jnp.broadcast_to(values, (len(names),))
    degrees = np.asarray(values, float)
    if degrees.shape != (len(names),):
        shown = ", ".join(names) or "no site"
        raise SettingError(f"give one degree of centring for each of {shown}, not an array of shape {degrees.shape}")
    require(bool(((degrees >= 0) & (degrees <= 1)).all()), "degrees of centring must be from 0 to 1")
    return on_device(degrees)
