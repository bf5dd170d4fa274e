"""What is timed: three problems with the methods of the default recipe, on data that need no download."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp

from civi.bench.machine import Product
from civi.bench.timing import clocked
from civi.errors import SettingError
from civi.experiment.recipes import settings_for
from civi.experiment.tasks import find_task
from civi.family import Architecture
from civi.inference.settings import Settings
from civi.parts import split
from civi.problem import AutoencoderProblem, PosteriorProblem, ProblemSettings, make_problem
from civi.problem.images import Images
from civi.solver.loop import CAPACITY, run_block, start

WORKLOADS = ("banana", "waveform", "mnist")
PIXELS, IMAGES = 784, 5000
SIZES, BATCHES = {"mnist": {"outer": 300, "inner": 20}}, {"mnist": 300}
ENDLESS = 10**9


class Workload(NamedTuple):
    """A method and the problem it improves."""

    solver: Any
    problem: Any


class Block(NamedTuple):
    """A compiled block of steps: run it, what compiling took, and the arithmetic of one step."""

    run: Callable[[], Any]
    compile_seconds: float
    flops: float


def workload(
    name: str, solver: str = "civi", architecture: Architecture | None = None, batch: int | None = None, **samples: int
) -> Workload:
    """A solver with the default recipe and the outer and inner samples that civi has there, SIZES, or those given.

    Architecture and batch are the recipe's and that of BATCHES, or those given. An explicit family has no inner
    samples; a run is endless, so that schedules stand still.
    """
    settings, ours = default_settings(name, solver), default_settings(name, "civi").solver.samples
    sizes = {"outer": ours.outer, "inner": ours.inner} | SIZES.get(name, {}) | samples
    if settings.family.mixing == "constant":
        sizes["inner"] = 1
    method = replace(settings.solver, steps=ENDLESS, samples=replace(settings.solver.samples, stages=None, **sizes))
    seen = settings.pilot.look(source(name))
    data = replace(settings.problem, batch=batch or BATCHES.get(name))
    return Workload(method, problem_of(architecture or settings.family, seen, data))


def problem_of(
    architecture: Architecture, source: Any, settings: ProblemSettings | None = None
) -> PosteriorProblem | AutoencoderProblem:
    """The problem with the random weights of all benchmarks."""
    return make_problem(architecture, source, jax.random.key(1), settings)


def default_settings(name: str, solver: str) -> Settings:
    """Those of the default recipe, for a solver that is trained."""
    settings = settings_for(name, solver, "default")
    if not isinstance(settings, Settings):
        raise SettingError(f"'{solver}' has no steps to time")
    return settings


@cache
def source(name: str) -> Any:
    """The target or data; images are random bits, as the time of a step does not depend on what they show."""
    if name != "mnist":
        return find_task(name).source()
    return Images(jax.random.bernoulli(jax.random.key(0), 0.13, (IMAGES, PIXELS)).astype(jnp.uint8))


def block(work: Workload, steps: int) -> Block:
    """`steps` steps (at most CAPACITY) of the training loop, from the same state every time.

    Fewer than PATIENCE steps are always all run, also by a method that diverges.
    """
    state, fixed = start(work.solver, work.problem, jax.random.key(2)), split(work.problem)[1]
    program = cast(Any, eqx.filter_jit(run_block))
    compiled, seconds, _ = clocked(lambda: program.lower(work.solver, fixed, state, jnp.asarray(1)).compile())
    cost = compiled.compiled.cost_analysis()
    flops = float((cost[0] if isinstance(cost, list) else cost)["flops"])
    count = jnp.asarray(min(steps, CAPACITY))
    return Block(lambda: compiled(work.solver, fixed, state, count), seconds, flops)


def image_products(batch: int, inner: int, width: int = 200) -> list[Product]:
    """The matrix products of an image autoencoder's step: pairs, encoder's first layer, decoder's last."""
    return [Product(batch * inner, width, width), Product(batch, PIXELS, width), Product(batch, width, PIXELS)]
