"""Bayesian logistic regression on a table that is read from disk while the training runs.

A table of 100 million rows has log p(y, z) of about -5e7, where single precision resolves 4 nats. All log densities
here are therefore relative to those at an origin, the location of the pilot: the difference of each row is computed
before the sum. `offset` is the log density at the origin, in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, PRNGKeyArray

from civi import interrupts
from civi.parallel.mesh import gather_bytes, own_share, shard
from civi.parts import data_rows
from civi.problem.target.regression import ROWS
from civi.tables.columns import are
from civi.tables.feed import EMPTY, Feed, Window, read_ahead
from civi.tables.scan import LabelledTable, Scan
from civi.tables.windows import SLOTS, Windows

BLOCK, STRIDES = 65_536, 64
LIKELIEST, LARGEST = 1 - 1e-6, 60.0


@dataclass(frozen=True, eq=False)
class RegressionStream:
    """A table and what one pass over it found; rows are standardised, with a one first and the label last."""

    table: LabelledTable
    scan: Scan

    @property
    def width(self) -> int:
        """Number of values in a row."""
        return len(self.table.features) + 2

    def group(self, index: int, chosen: np.ndarray | None = None) -> np.ndarray:
        """The training rows of a group, or the chosen ones of them, as float32."""
        columns, target, train = self.table.read(index)
        keep = np.flatnonzero(train) if chosen is None else np.flatnonzero(train)[chosen]
        y = are(target, self.scan.labels[1])
        return self._rows([column[keep] for column in columns], y[keep])

    def sample(self) -> np.ndarray:
        """The sample of training rows."""
        return self._rows(list(self.scan.train.x.T), self.scan.train.y)

    def test(self) -> np.ndarray:
        """The sample of test rows."""
        return self._rows(list(self.scan.test.x.T), self.scan.test.y)

    def _rows(self, columns: list[np.ndarray], y: np.ndarray) -> np.ndarray:
        rows = np.ones((len(y), self.width), np.float32)
        for j, (column, mean, sd) in enumerate(zip(columns, self.scan.mean, self.scan.sd, strict=True), start=1):
            np.divide(column - mean, sd, out=rows[:, j], casting="same_kind")
        rows[:, -1] = y
        return rows


class WeightedRows(eqx.Module):
    """log p(y, z) - log p(y, origin) = sum_n weight_n [l_n(z) - l_n(origin)] + log N(z) - log N(origin).

    l_n(z) = y_n x_n z - log(1 + exp(x_n z)), and N is the prior N(0, prior_scale^2 I). With a_n = x_n origin and
    d_n = x_n (z - origin), the difference of the second term is log1p(sigmoid(a_n) expm1(d_n)).
    """

    rows: Float[Array, "N C"]
    weight: Float[Array, " N"]
    origin: Float[Array, " D"]
    prior_scale: float = eqx.field(static=True, default=10.0)

    @property
    def dim(self) -> int:
        return self.rows.shape[1] - 1

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        log_prior = -0.5 * (z - self.origin) @ (z + self.origin) / self.prior_scale**2
        return self._log_likelihood(z - self.origin) + log_prior

    def _log_likelihood(self, step: Float[Array, " D"]) -> Float[Array, ""]:
        """Process ROWS rows at a time, so that the memory for many z does not grow with the number of rows."""
        blocks = len(self.rows) // ROWS
        if blocks < 2:
            return _difference(self.rows, self.weight, self.origin, step)

        @jax.checkpoint
        def add(total: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
            return total + _difference(*part, self.origin, step), None

        end = blocks * ROWS
        whole = (self.rows[:end].reshape(blocks, ROWS, -1), self.weight[:end].reshape(blocks, ROWS))
        rest = _difference(self.rows[end:], self.weight[end:], self.origin, step)
        return jax.lax.scan(add, rest, whole)[0]


def _difference(rows: Array, weight: Array, origin: Array, step: Array) -> Array:
    """Beyond LARGEST, the difference is linear; LIKELIEST keeps the argument of log1p above -1."""
    x, y = rows[:, :-1], rows[:, -1]
    p, d = jnp.minimum(jax.nn.sigmoid(x @ origin), LIKELIEST), x @ step
    bounded = jnp.minimum(d, LARGEST)
    return weight @ (y * d - jnp.log1p(p * jnp.expm1(bounded)) - (d - bounded))


class StreamedRegression(eqx.Module):
    """The posterior of a logistic regression on all rows of a table, of which only a window is in memory.

    On all data, the log density is estimated from a fixed sample of the rows plus the linear function that makes its
    gradient at the origin exact. A batch takes random rows of the window.

    Attributes:
        sample: the sample, with weight N / n.
        tilt: gradient at the origin on all rows minus that on the sample; 0 if it is not known.
        window: the rows in memory.
        stream: the table.
        offset: log p(y, origin).
    """

    sample: WeightedRows
    tilt: Float[Array, " D"]
    window: Window = data_rows(default=EMPTY)
    stream: RegressionStream = eqx.field(static=True, default=None)
    offset: float = eqx.field(static=True, default=0.0)

    @classmethod
    def of(cls, stream: RegressionStream) -> StreamedRegression:
        """The posterior with its origin at 0, where l_n = -log 2 for every row."""
        rows, dim = jnp.asarray(stream.sample()), stream.width - 1
        total = int(stream.scan.rows.sum())
        sample = WeightedRows(rows, jnp.full(len(rows), total / len(rows)), jnp.zeros(dim))
        offset = -total * np.log(2) - dim * (np.log(sample.prior_scale) + 0.5 * np.log(2 * np.pi))
        return cls(sample, jnp.zeros(dim), EMPTY, stream, float(offset))

    @property
    def dim(self) -> int:
        return self.sample.dim

    @property
    def rows(self) -> int:
        """Number of training rows of the table."""
        return int(self.stream.scan.rows.sum())

    @property
    def rows_seen(self) -> int:
        """Number of rows of the sample."""
        return len(self.sample.rows)

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        return self.sample.log_prob(z) + self.tilt @ (z - self.sample.origin)

    def batch(self, key: PRNGKeyArray, count: int) -> WeightedRows:
        """The posterior on a mini-batch of `count` rows of the window, drawn with replacement."""
        rows, weight = self.window
        if rows is None or weight is None:
            raise ValueError("there are no rows in memory: a Feed fills the window before training")
        index = jax.random.randint(key, (count,), 0, len(rows))
        depth = len(rows) // len(weight)
        picked, weights = shard((rows[index], weight[index // depth] / count), "inner")
        return WeightedRows(picked, weights, self.sample.origin, self.sample.prior_scale)

    def feed(self, seed: int, batch: int, mesh: Mesh | None = None) -> Feed:
        """The windows of a training; their number of slots is a multiple of the devices."""
        devices = 1 if mesh is None else mesh.size
        slots = -(-SLOTS // devices) * devices
        return Feed(Windows(self.stream.scan.rows, batch, self.stream.width, seed, slots), self.stream.group, mesh)

    def moved(self, origin: np.ndarray, at_origin: Derivatives) -> StreamedRegression:
        """The posterior with another origin, where its value and its gradient on all rows are known."""
        sample = eqx.tree_at(lambda rows: rows.origin, self.sample, jnp.asarray(origin, jnp.float32))
        tilt = jnp.asarray(at_origin.slope, jnp.float32) - jax.grad(sample.log_prob)(sample.origin)
        return replace(self, sample=sample, tilt=tilt, offset=float(at_origin.log_p))

    def derivatives(self, z: np.ndarray) -> Derivatives:
        """log p(y, z), its gradient and its Hessian on all rows, by one pass over the table."""
        z, scale = np.asarray(z, np.float32), self.sample.prior_scale
        parts = np.zeros((STRIDES, 1 + self.dim + self.dim**2))
        own = [(stride, group) for stride in own_share(STRIDES) for group in self._groups()[stride::STRIDES]]
        for (stride, _), rows in zip(
            own, read_ahead(partial(self.stream.group, group) for _, group in own), strict=True
        ):
            interrupts.check()
            for first in range(0, len(rows), BLOCK):
                parts[stride] += _likelihood(*_padded(rows[first : first + BLOCK]), z)
        every = sum(np.frombuffer(content).reshape(parts.shape) for content in gather_bytes(parts.tobytes()))
        total = np.asarray(every).sum(0)
        log_prior = -0.5 * z @ z / scale**2 - self.dim * (np.log(scale) + 0.5 * np.log(2 * np.pi))
        slope, curvature = total[1 : self.dim + 1], total[self.dim + 1 :].reshape(self.dim, self.dim)
        return Derivatives(total[0] + log_prior, slope - z / scale**2, curvature - np.eye(self.dim) / scale**2)

    def _groups(self) -> list[int]:
        """The groups with training rows."""
        return np.flatnonzero(self.stream.scan.rows).tolist()


class Derivatives(NamedTuple):
    """log p(y, z), its gradient (D,) and its Hessian (D, D), in double precision."""

    log_p: float
    slope: np.ndarray
    curvature: np.ndarray


def _padded(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """BLOCK rows, of which those that are missing have weight 0."""
    weight = (np.arange(BLOCK) < len(rows)).astype(np.float32)
    return np.pad(rows, ((0, BLOCK - len(rows)), (0, 0))), weight


@jax.jit
def _likelihood(rows: Array, weight: Array, z: Array) -> Array:
    """The sum of l_n(z), its gradient and its Hessian, in one vector."""
    x, y = rows[:, :-1], rows[:, -1]
    logit = x @ z
    p = jax.nn.sigmoid(logit)
    slope = (weight * (y - p)) @ x
    curvature = -(x * (weight * p * (1 - p))[:, None]).T @ x
    return jnp.concatenate([(weight @ (y * logit - jax.nn.softplus(logit)))[None], slope, curvature.reshape(-1)])
