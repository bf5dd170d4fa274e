"""What a solver is, and the model it improves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from civi.family import Architecture, SemiImplicit
from civi.pilot import PILOTS, NoPilot, Pilot
from civi.target import Target

OUTPUTS = ("last", "average", "uniform")


class Model(eqx.Module):
    """A family and the target it is to approximate."""

    family: SemiImplicit
    target: Target


def split(model: Model) -> tuple[Model, Model]:
    """(theta, everything else): the family's arrays are trained, the target's are data."""

    def is_trained(path: tuple[Any, ...], leaf: Any) -> bool:
        return path[0].name == "family" and eqx.is_inexact_array(leaf)

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
