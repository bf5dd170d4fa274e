"""The paper's table of milliseconds per iteration on the autoencoder, ours in one run on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from civi.bench.machine import Product, arithmetic, products
from civi.bench.timing import Advance, Timed, in_turns
from civi.family import Amortised
from civi.family.autoencoder import ImageArchitecture
from civi.family.mixing import MixingNetwork
from civi.recipes import settings_for
from civi.solver import Model, Solver
from civi.solver.base import split
from civi.solver.loop import run_block, start
from civi.target.autoencoder import Autoencoder, Images

PAPER = {"sivi": 155, "uivi": 69, "asc-pg": 157, "scgd": 152, "civi": 56}
SOLVERS = ("sivi", "uivi", "asc-pg", "scgd", "civi", "nmc-adam", "mfvb")
BATCH, INNER, PIXELS, WIDTH = 300, 30, 784, 200
JOINED = "civi, first layer not split"


class JoinedEncoder(eqx.Module):
    """A network on the joined vector [x, eps] for every pair: what the split first layer saves."""

    network: MixingNetwork

    def reader(self, x_J: Float[Array, "J X"]) -> Float[Array, "J X"]:
        """The data as they are."""
        return x_J

    def __call__(self, feature: Float[Array, "*N X"], eps: Float[Array, "*M E"]) -> Float[Array, "*NM P"]:
        """Parameters of the conditional for every pair."""
        shape = jnp.broadcast_shapes(feature.shape[:-1], eps.shape[:-1])
        joined = [jnp.broadcast_to(part, (*shape, part.shape[-1])) for part in (feature, eps)]
        return self.network(jnp.concatenate(joined, axis=-1))


def joined(family: Amortised) -> Amortised:
    """The same family with its first layer on the joined vector."""
    reader, encoder = family.mixing.reader, family.mixing
    first = jnp.concatenate([reader.weights[0], encoder.noise_weight])  # type: ignore[attr-defined, list-item]
    weights = (first, *encoder.rest.weights)
    biases = (reader.biases[0], *encoder.rest.biases)  # type: ignore[attr-defined]
    network = MixingNetwork(weights, biases, encoder.rest.activation)
    return Amortised(family.noise, JoinedEncoder(network), family.conditional)  # type: ignore[arg-type]


def measure(rounds: int, steps: int, advance: Advance | None = None) -> dict[str, Any]:
    """Every solver with the same batch, inner samples and networks, in turns; and the share of the product rate."""
    pixels = jax.random.bernoulli(jax.random.key(0), 0.13, (5000, PIXELS)).astype(jnp.uint8)
    target = Autoencoder(Images(pixels))
    model = Model.make(ImageArchitecture(), target, jax.random.key(1))
    explicit = Model.make(settings_for("mnist", "mfvb", "default").family, target, jax.random.key(1))
    models = {name: explicit if name == "mfvb" else model for name in SOLVERS}
    models[JOINED] = Model(joined(model.family), model.target)
    programs, counted = {}, {}
    for name, one in models.items():
        solver = _solver(name)
        programs[name], counted[name] = _steps(solver, one, steps), _arithmetic(solver, one)
    shapes = [Product(BATCH * INNER, WIDTH, WIDTH), Product(BATCH, PIXELS, WIDTH), Product(BATCH, WIDTH, PIXELS)]
    programs["products"] = products(shapes, steps)
    timed = {name: value.scaled(1 / steps) for name, value in in_turns(programs, rounds, advance).items()}
    rate = 3 * sum(shape.flops for shape in shapes) / timed.pop("products").median
    rows = [_row(name, value, counted[name], rate) for name, value in timed.items()]
    return {"batch": BATCH, "inner": INNER, "steps": steps, "rounds": rounds, "product_rate": rate, "rows": rows}


def _solver(name: str) -> Solver:
    settings = settings_for("mnist", "civi" if name == JOINED else name, "default")
    samples = replace(settings.solver.samples, outer=BATCH, batch=BATCH, inner=1 if name == "mfvb" else INNER)
    return replace(settings.solver, steps=10**9, samples=samples)


def _steps(solver: Solver, model: Model, steps: int) -> Callable[[], Any]:
    """A block of steps of the training loop, from the same state every time."""
    state = start(solver, model, jax.random.key(2))
    fixed = split(model)[1]
    block = eqx.filter_jit(run_block)
    return lambda: block(solver, fixed, state, jnp.asarray(steps))


def _arithmetic(solver: Solver, model: Model) -> float:
    state, fixed = start(solver, model, jax.random.key(2)), split(model)[1]
    return arithmetic(solver.step, fixed, state.solver, jnp.asarray(1), jax.random.key(3))


def _row(name: str, seconds: Timed, flops: float, rate: float) -> dict[str, Any]:
    return {
        "solver": name,
        "milliseconds": 1e3 * seconds.median,
        "quartiles": [1e3 * seconds.low, 1e3 * seconds.high],
        "paper_milliseconds": PAPER.get(name),
        "gigaflop": flops / 1e9,
        "share_of_product_rate": flops / seconds.median / rate,
    }
