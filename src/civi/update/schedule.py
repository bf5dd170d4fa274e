"""The schedules of the paper's theorem, as functions of the step t = 1, 2, ..., and sample sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from civi.errors import require
from civi.settings import check_settings, self_checking

Schedule = Callable[[Array], Array]
MOST = 100_000_000


def alpha(c_alpha: float) -> Schedule:
    """alpha_t = C_alpha / t^(1/5)."""
    return lambda t: c_alpha * t ** (-1 / 5)


def gamma1(c_gamma: float, mu: float) -> Schedule:
    """gamma1_t = C_gamma mu^t."""
    return lambda t: c_gamma * mu**t


def one_minus_gamma2(c_alpha: float, c_gamma: float, mu: float) -> Schedule:
    """1 - gamma2_t = C_alpha / t^(2/5) (1 - C_gamma mu^t)^2.

    With C_gamma = 1, as for the banana, this is 3e-10 at t = 1. Therefore gamma2_t itself is not used: in float32 it
    would round to 1, and v_1 to 0.
    """
    return lambda t: c_alpha * t ** (-2 / 5) * (1 - c_gamma * mu**t) ** 2


@self_checking
@dataclass(frozen=True)
class Samples:
    """Numbers of samples per step. Arrays have the largest size of the run, and unused entries are masked."""

    outer: Annotated[int, "Outer samples per step, K1."] = 128
    inner: Annotated[int, "Inner samples per step, K2."] = 100
    auxiliary: Annotated[int | None, "Inner samples of the auxiliary update, K3; none: the same as K2."] = None
    growth: Annotated[float, "Exponent of K_t = C t^growth; 0.8 in the theorem, 0: constant."] = 0.0
    stages: Annotated[
        tuple[int, ...] | None,
        "Values of K2 in equal stages of the run; none: samples.inner, which replaces the stages if it is set alone.",
    ] = None

    def __post_init__(self) -> None:
        check_settings(self, "samples")
        require(self.outer >= 1, f"samples.outer (K1) must be at least 1, not {self.outer}")
        require(self.inner >= 1, f"samples.inner (K2) must be at least 1, not {self.inner}")
        largest = max(self.outer, self.inner, self.auxiliary or 1, *(self.stages or ()))
        require(largest <= MOST, f"numbers of samples must be at most {MOST}, but one is {largest}")
        few = self.auxiliary is not None and self.auxiliary < 1
        require(not few, f"samples.auxiliary (K3) must be at least 1, or none (the same as K2), not {self.auxiliary}")
        require(0 <= self.growth <= 1, f"samples.growth must be in [0, 1], not {self.growth}")
        require(self.stages != (), "samples.stages must have at least one number, or be none")
        require(
            all(k >= 1 for k in self.stages or ()),
            f"samples.stages must all be at least 1, not {self.stages}",
        )

    def constant(self, kind: str) -> int:
        """C in K_t = C t^growth; `kind` is outer, inner or auxiliary."""
        return self.auxiliary or self.inner if kind == "auxiliary" else getattr(self, kind)


class SampleSizes(NamedTuple):
    """The sample sizes K_t of a run of `steps` steps; `kind` is outer (K1), inner (K2) or auxiliary (K3)."""

    samples: Samples
    steps: int

    def at(self, kind: str, t: Array) -> Array:
        """K_t at step t."""
        stages = self.samples.stages
        if kind == "inner" and stages:
            return jnp.asarray(stages)[jnp.asarray((t - 1) * len(stages) / self.steps, int)]
        grown = jnp.ceil(self.samples.constant(kind) * t**self.samples.growth).astype(int)
        return jnp.minimum(grown, self.most(kind))

    def most(self, kind: str) -> int:
        """The largest K_t of the run."""
        if kind == "inner" and self.samples.stages:
            return max(self.samples.stages)
        return math.ceil(self.samples.constant(kind) * self.steps**self.samples.growth)
