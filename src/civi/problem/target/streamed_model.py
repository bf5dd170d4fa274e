"""A NumPyro model whose rows are read from disk while it is fitted.

Its programs take the rows of a batch as an input. In training, log densities are relative to those at an origin, the
location of the pilot: the difference is computed for each row before the sum, because log p of many rows is so large
that single precision resolves only whole nats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray
from numpyro.infer.util import _unconstrain_params, compute_log_probs

from civi import interrupts
from civi.errors import TargetError
from civi.parts import constant, data_rows
from civi.problem.target.numpyro_model import Reading
from civi.problem.target.numpyro_sites import ModelFunction, Subsample, explained, sites_of
from civi.problem.target.program import Pool, Program, evaluate, on_device, trace
from civi.problem.target.space import TreeSpace
from civi.problem.target.traced import ModelSpace, Origin, checked_degrees
from civi.tables.feed import EMPTY, Feed, Window, read_ahead
from civi.tables.rows import Rows, RowStream, given
from civi.tables.windows import Windows

NO_PLATE = (
    "the model has no plate over the rows of the table that subsamples: write "
    "numpyro.plate('rows', len(x), subsample_size=1000) as i, and use x[i] in it"
)


class StreamedModel(eqx.Module):
    """log p(x, z) - log p(x, origin), on a sample of the rows, or on a batch of the window.

    On all data it is estimated from the sample plus a linear function that makes its gradient at the origin exact.

    Attributes:
        programs: the operations, by the number of rows; inputs are z, the degrees of centring, the origin and the rows.
        stream: the table.
        plate: the plate over its rows.
        dim: dimension of z.
        values: the rows of the sample or of a batch.
        constants: the arrays that the model captures or is given.
        degrees: the degree of centring of each of `centred_sites`.
        origin: where the log density is 0.
        tilt: gradient at the origin on all rows minus that on the sample.
        window: the rows in memory.
        centred_sites: names of the sites that have a degree of centring.
        split_offset: `offset` as the sum of two single-precision numbers.
    """

    programs: tuple[tuple[int, Program], ...] = eqx.field(static=True)
    stream: RowStream = eqx.field(static=True)
    plate: Subsample = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    values: Float[Array, "B C"] = constant()
    constants: tuple[Any, ...] = constant()
    degrees: Float[Array, " S"] = constant()
    origin: Float[Array, " D"] = constant()
    tilt: Float[Array, " D"] = constant()
    window: Window = data_rows(default=EMPTY)
    split_offset: Float[Array, " 2"] = constant(default_factory=lambda: on_device(np.zeros(2)))
    centred_sites: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def rows(self) -> int:
        """Number of rows of the table."""
        return self.plate.size

    @property
    def rows_seen(self) -> int:
        """Number of rows of the sample."""
        return len(self.values)

    @property
    def offset(self) -> float:
        """log p(x, origin) on all rows, in double precision."""
        return float(np.asarray(self.split_offset, np.float64).sum())

    @property
    def batch_size(self) -> int:
        """The subsample size that the model sets."""
        return self.plate.subsample_size

    @property
    def points_at_a_time(self) -> int | None:
        """Number of points to evaluate at a time; None for any number (see `Program`)."""
        return dict(self.programs)[len(self.values)].points_at_a_time

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        program = dict(self.programs)[len(self.values)]
        found = evaluate(program, self.constants, z, self.degrees, self.origin, jnp.ones(()), self.values)
        return found + self.tilt @ (z - self.origin)

    def log_prob_on(self, rows: Float[Array, "B C"]) -> Callable[[Array], Array]:
        """log p(x, z) on these rows, as a function of z; not relative to the origin."""
        program, absolute = dict(self.programs)[len(rows)], jnp.zeros(())
        return lambda z: evaluate(program, self.constants, z, self.degrees, self.origin, absolute, rows)

    def batch(self, key: PRNGKeyArray, count: int) -> StreamedModel:
        """The model on `count` rows of the window; a slot is drawn in proportion to the weight of its rows."""
        rows, weight = self.window
        if rows is None or weight is None:
            raise ValueError("there are no rows in memory: a Feed fills the window before training")
        slot_key, row_key = jax.random.split(key)
        depth = len(rows) // len(weight)
        slot = jax.random.categorical(slot_key, jnp.log(weight), shape=(count,))
        index = slot * depth + jax.random.randint(row_key, (count,), 0, depth)
        return replace(self, values=rows[index], tilt=jnp.zeros(self.dim), window=EMPTY)

    def with_degrees(self, values: ArrayLike) -> StreamedModel:
        """The same posterior in other coordinates: `values` are the degrees of centring of `centred_sites`."""
        return replace(self, degrees=checked_degrees(values, self.centred_sites))

    def feed(self, seed: int, batch: int, mesh: Mesh | None = None) -> Feed:
        """The windows of a training."""
        return Feed(self._windows(seed, batch), self.stream.group, mesh)

    def with_window_shapes(self, batch: int) -> StreamedModel:
        """The model with a window that is given by its shapes."""
        plan = self._windows(0, batch)
        rows = jax.ShapeDtypeStruct((plan.slots * plan.depth, plan.width), jnp.float32)
        window: Any = Window(rows, jax.ShapeDtypeStruct((plan.slots,), jnp.float32))  # type: ignore[arg-type]
        return replace(self, window=window)

    def _windows(self, seed: int, batch: int) -> Windows:
        return Windows(self.stream.sizes, batch, len(self.stream.names), seed)

    def moved(self, origin: Any, log_p: float) -> StreamedModel:
        """The model with another origin, where its value on all rows is known."""
        parts = np.array([np.float32(log_p), log_p - np.float64(np.float32(log_p))], np.float32)
        return replace(self, origin=on_device(origin), split_offset=on_device(parts))

    def tilted(self, difference: np.ndarray) -> StreamedModel:
        """The model with this gradient at the origin in addition to that of the sample."""
        return replace(self, tilt=on_device(difference))

    def blocks(self) -> Iterator[np.ndarray]:
        """All rows of the table, in blocks of as many rows as the sample has; the last one may be smaller."""
        size, rest = len(self.values), np.zeros((0, len(self.stream.names)), np.float32)
        groups = [partial(self.stream.group, index) for index in range(len(self.stream.table.groups))]
        for group in read_ahead(groups):
            interrupts.check()
            rest = np.concatenate([rest, group])
            while len(rest) >= size:
                yield rest[:size]
                rest = rest[size:]
        if len(rest):
            yield rest


def rows_in(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Rows]:
    """The tables on disk among the arguments of a model."""
    leaves = jax.tree.leaves((args, dict(kwargs)), is_leaf=lambda leaf: isinstance(leaf, Rows))
    return [leaf for leaf in leaves if isinstance(leaf, Rows)]


def streamed_target(
    model: ModelFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, reparam: bool = True
) -> tuple[StreamedModel, ModelSpace]:
    """The model as a target, and the map from z to its sites; one pass over the table checks its rows.

    Args:
        model: a NumPyro model.
        args: its positional arguments, some of which are `Rows`.
        kwargs: its keyword arguments.
        reparam: whether hierarchical sites get a degree of centring (see `numpyro_target`).
    """
    stream = RowStream.of(rows_in(args, kwargs))
    total, sample = stream.table.rows, on_device(stream.sample())
    with given(sample, stream.names, total):
        sites = sites_of(model, args, kwargs)
        plate = next((plate for plate in sites.plates.values() if plate.size == total), None)
        if plate is None or len(sites.plates) > 1 or sites.discrete:
            raise TargetError(NO_PLATE)
        reading = Reading(Origin(model, args, dict(kwargs), sites), TreeSpace.like(sites.unconstrained))
        if reparam and sites.location_scale:
            reading = replace(reading, centred=reading.hierarchical())
        pool = Pool()
        constrain = reading.constrain(pool)
    counts = {len(sample), plate.subsample_size, total % len(sample)} - {0}
    programs = tuple((count, _program(reading, pool, stream, total, count)) for count in sorted(counts))
    zero, degrees = on_device(np.zeros(reading.unravel.dim)), on_device(np.ones(len(reading.centred)))
    constants = tuple(pool.arrays)
    target = StreamedModel(
        programs, stream, plate, reading.unravel.dim, sample, constants, degrees, zero, zero,
        centred_sites=reading.centred,
    )  # fmt: skip
    return target, ModelSpace(constrain, constants, degrees, reading.centred)


def _program(reading: Reading, pool: Pool, stream: RowStream, total: int, count: int) -> Program:
    """sum over sites and rows of scale [log p(z) - relative log p(origin)], on `count` rows."""
    origin = reading.origin

    def terms(z: Array, degrees: Array) -> dict[str, Array]:
        model = _unconstrain_params(reading.seeded({}, degrees), reading.coordinates(z))
        return compute_log_probs(model, origin.args, origin.kwargs, {}, sum_log_prob=False)[0]

    def log_prob(z: Array, degrees: Array, start: Array, relative: Array, values: Array) -> Array:
        with given(values, stream.names, total):
            here, there = terms(z, degrees), terms(start, degrees)
        return sum((jnp.sum(here[name] - relative * there[name]) for name in here), start=jnp.zeros(()))

    z, degrees = reading.inputs
    rows = jax.ShapeDtypeStruct((count, len(stream.names)), jnp.float32)
    with explained(origin.sites.plates):
        traced = trace(log_prob, z, degrees, z, jax.ShapeDtypeStruct((), float), rows)
        return pool.program(*traced, origin.model)
