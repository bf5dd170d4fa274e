"""What a solver is, and the model it improves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from civi.family import Amortised, Architecture, SemiImplicit
from civi.inference.pilot import PILOTS, NoPilot, Pilot
from civi.parallel.mesh import spread
from civi.problem.target import PairedTarget, Target, batch_of, log_prob_each

OUTPUTS = ("last", "average", "uniform")


class Model(eqx.Module):
    """A family and the target it is to approximate."""

    family: Any
    target: Any

    @classmethod
    def make(cls, architecture: Architecture, target: Any, key: PRNGKeyArray) -> Model:
        """The model before the first step."""
        return cls(*architecture.fitted_to(target, key))

    def on_batch(
        self, key: PRNGKeyArray, count: int, index_S: Int[Array, " S"] | None = None
    ) -> tuple[SemiImplicit, Target | PairedTarget]:
        """Family and target of one step: on `count` rows of data (0: all).

        An amortised family is that of these data, of which `index_S` picks some.
        """
        target: Any = batch_of(self.target, key, count)
        if not isinstance(self.family, Amortised):
            return self.family, target
        target = target if index_S is None else target.take(index_S)
        target = replace(target, x_N=spread(target.x_N, "outer"))
        return self.family.given(target.x_N), target

    def first_look(self, key: PRNGKeyArray, count: int) -> tuple[Float[Array, "J D"], Float[Array, " J"]]:
        """Draws of q and log p(x, z) there."""
        rows = min(count, self.target.rows) if isinstance(self.family, Amortised) else 0
        family, target = self.on_batch(key, rows)
        z_J = family.sample(key, rows or count)
        return z_J, log_prob_each(target, z_J)


def split(model: Model) -> tuple[Model, Model]:
    """(theta, everything else): the family's arrays and a decoder's are trained, the target's others are data."""

    def is_trained(path: tuple[Any, ...], leaf: Any) -> bool:
        trained = path[0].name == "family" or ".decoder" in jax.tree_util.keystr(path)
        return trained and eqx.is_inexact_array(leaf)

    return eqx.partition(model, jax.tree_util.tree_map_with_path(is_trained, model))


def groups(params: Model) -> Model:
    """Each parameter's group: mixing (theta_1), scale (theta_2) or decoder."""

    def name(path: tuple[Any, ...], _: Array) -> str:
        parts = jax.tree_util.keystr(path)
        return "mixing" if ".mixing" in parts else "scale" if ".conditional" in parts else "decoder"

    return jax.tree_util.tree_map_with_path(name, params)


class Info(NamedTuple):
    """Diagnostics of one step; acceptance is that of the inner Markov chain, 1 where a method has none."""

    neg_elbo: Float[Array, ""]
    weight_mean: Float[Array, ""]
    weight_sd: Float[Array, ""]
    gradient_norm: Float[Array, ""]
    acceptance: Float[Array, ""]


@runtime_checkable
class Solver(Protocol):
    """A method: its settings, and one step. The training loop owns everything else."""

    @property
    def steps(self) -> int:
        """Length of a run."""
        ...

    @property
    def output(self) -> str:
        """Which iterate is returned: last, average or uniform."""
        ...

    def init(self, model: Model, key: PRNGKeyArray) -> Any:
        """The state before the first step; its field `params` is theta_1."""
        ...

    def step(self, fixed: Model, state: Any, t: Int[Array, ""], key: PRNGKeyArray) -> tuple[Any, Info]:
        """Step t = 1, 2, ... on the trainable part of the model, given the fixed part."""
        ...


@dataclass(frozen=True)
class Settings:
    """What is fitted and how: all that a run needs besides its task and seed."""

    family: Architecture
    solver: Any
    pilot: Pilot = field(default_factory=NoPilot, metadata={"kinds": PILOTS})
