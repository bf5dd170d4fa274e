"""What is timed: three targets with the methods of the default recipe, on data that need no download."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp

from civi.bench.machine import Product
from civi.experiment.recipes import settings_for
from civi.experiment.tasks import find_task
from civi.problem.autoencoder import Autoencoder, Images
from civi.solver import Model, Solver
from civi.solver.base import split
from civi.solver.loop import CAPACITY, run_block, start

WORKLOADS = ("banana", "waveform", "mnist")
PIXELS, IMAGES = 784, 5000
SIZES = {"mnist": {"outer": 300, "inner": 20, "batch": 300}}
ENDLESS = 10**9


class Workload(NamedTuple):
    """A method and the model it improves."""

    solver: Solver
    model: Model


class Block(NamedTuple):
    """A compiled block of steps: run it, what compiling took, and the arithmetic of one step."""

    run: Callable[[], Any]
    compile_seconds: float
    flops: float


def workload(name: str, solver: str = "civi", **samples: int) -> Workload:
    """A solver with the default recipe and the outer and inner samples that civi has there, SIZES, or those given.

    An explicit family has no inner samples; a run is endless, so that schedules stand still.
    """
    settings, ours = settings_for(name, solver, "default"), settings_for(name, "civi", "default").solver.samples
    sizes = {"outer": ours.outer, "inner": ours.inner, "batch": ours.batch} | SIZES.get(name, {}) | samples
    if settings.family.mixing == "constant":
        sizes["inner"] = 1
    chosen = replace(settings.solver.samples, stages=None, **sizes)
    method = replace(settings.solver, steps=ENDLESS, samples=chosen)
    seen = settings.pilot.look(cast(Any, target(name)))
    return Workload(method, Model.make(settings.family, seen, jax.random.key(1)))


@cache
def target(name: str) -> Any:
    """The target; images are random bits, as the time of a step does not depend on what they show."""
    if name != "mnist":
        return find_task(name).make()
    return Autoencoder(Images(jax.random.bernoulli(jax.random.key(0), 0.13, (IMAGES, PIXELS)).astype(jnp.uint8)))


def block(work: Workload, steps: int) -> Block:
    """`steps` steps (at most CAPACITY) of the training loop, from the same state every time.

    Fewer than PATIENCE steps are always all run, also by a method that diverges.
    """
    state, fixed = start(work.solver, work.model, jax.random.key(2)), split(work.model)[1]
    begun = time.perf_counter()
    compiled = cast(Any, eqx.filter_jit(run_block)).lower(work.solver, fixed, state, jnp.asarray(1)).compile()
    seconds = time.perf_counter() - begun
    cost = compiled.compiled.cost_analysis()
    flops = float((cost[0] if isinstance(cost, list) else cost)["flops"])
    count = jnp.asarray(min(steps, CAPACITY))
    return Block(lambda: compiled(work.solver, fixed, state, count), seconds, flops)


def image_products(batch: int, inner: int, width: int = 200) -> list[Product]:
    """The matrix products of an image autoencoder's step: pairs, encoder's first layer, decoder's last."""
    return [Product(batch * inner, width, width), Product(batch, PIXELS, width), Product(batch, width, PIXELS)]
