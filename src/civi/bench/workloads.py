"""The workloads of the benchmarks: three problems with the default recipe, on data that need no download."""

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
    """A solver and the problem that it trains."""

    solver: Any
    problem: Any


class Block(NamedTuple):
    """A compiled block of steps: a function that runs it, the time to compile it, and the FLOPs of one step."""

    run: Callable[[], Any]
    compile_seconds: float
    flops: float


def workload(
    name: str, solver: str = "civi", architecture: Architecture | None = None, batch: int | None = None, **samples: int
) -> Workload:
    """A solver with the settings of the default recipe.

    The number of steps is practically infinite, so that schedules stay constant. An explicit family has no inner
    samples.

    Args:
        name: one of WORKLOADS.
        solver: name of the solver.
        architecture: the family; None: the recipe's.
        batch: size of a batch; None: that of BATCHES.
        samples: outer and inner samples; by default those of SIZES, otherwise those of civi in the recipe.
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
    """The problem, with the same random initial weights in all benchmarks."""
    return make_problem(architecture, source, jax.random.key(1), settings)


def default_settings(name: str, solver: str) -> Settings:
    """The settings of a solver in the default recipe; NUTS, which is not trained, is an error.

    Waveform has those of a table of one's own, whose frame is fixed, because the literal version has no trained frame.
    """
    settings = settings_for("regression" if name == "waveform" else name, solver, "default")
    if not isinstance(settings, Settings):
        raise SettingError(f"'{solver}' has no steps to time")
    return settings


@cache
def source(name: str) -> Any:
    """The target or data; images are random bits, because the time per step does not depend on their content."""
    if name != "mnist":
        return find_task(name).source()
    return Images(jax.random.bernoulli(jax.random.key(0), 0.13, (IMAGES, PIXELS)).astype(jnp.uint8))


def block(work: Workload, steps: int) -> Block:
    """Compile a block of `steps` steps (at most CAPACITY) of the training loop; each call starts from the same state.

    A block of fewer than PATIENCE steps always runs completely, even if the method diverges.
    """
    state, fixed = start(work.solver, work.problem, jax.random.key(2)), split(work.problem)[1]
    program = cast(Any, eqx.filter_jit(run_block))
    compiled, seconds, _ = clocked(lambda: program.lower(work.solver, fixed, state, jnp.asarray(1)).compile())
    cost = compiled.compiled.cost_analysis()
    flops = float((cost[0] if isinstance(cost, list) else cost)["flops"])
    count = jnp.asarray(min(steps, CAPACITY))
    return Block(lambda: compiled(work.solver, fixed, state, count), seconds, flops)


def image_products(batch: int, inner: int, width: int = 200) -> list[Product]:
    """The matrix products of one step of an image autoencoder: pairs, first encoder layer, last decoder layer."""
    return [Product(batch * inner, width, width), Product(batch, PIXELS, width), Product(batch, width, PIXELS)]
