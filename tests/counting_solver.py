"""A solver for tests of the training loop: its parameters at step t are all t, and it fails at chosen steps."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from civi.parts import split
from civi.problem import PosteriorProblem
from civi.solver import Info


class CountingState(NamedTuple):
    params: PosteriorProblem
    walk: jax.Array


@dataclass(frozen=True)
class CountingSolver:
    """Steps `bad` are not finite in `bad_part` (params, info or walk); walk is the sum of one draw per good step."""

    steps: int
    output: str = "last"
    bad: tuple[int, ...] = ()
    bad_part: str = "params"
    bad_value: float = float("nan")

    def init(self, problem, key):
        return CountingState(split(problem)[0], jnp.zeros(()))

    def step(self, fixed, state, t, key):
        fails = jnp.isin(t, jnp.asarray(self.bad, int))
        parts = {"params": t.astype(float), "info": jax.random.normal(key), "walk": state.walk + jax.random.normal(key)}
        parts[self.bad_part] = jnp.where(fails, self.bad_value, parts[self.bad_part])
        params = jax.tree.map(lambda leaf: jnp.full_like(leaf, parts["params"]), state.params)
        return CountingState(params, parts["walk"]), Info(*[parts["info"]] * len(Info._fields))
