"""Gradient sketching (Algorithm 2): sum over a random subset of the outer samples, rescaled to stay unbiased."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from civi.errors import require
from civi.settings import check_settings, self_checking

Tree = TypeVar("Tree")


class Picked(eqx.Module):
    """The outer samples that enter this step's gradient, and their weights (which sum to 1 in expectation)."""

    index_S: Int[Array, " S"]
    share_S: Float[Array, " S"]
    everything: bool = eqx.field(static=True, default=False)

    def of(self, tree_J: Tree) -> Tree:
        """The picked rows of every array in the tree."""
        return tree_J if self.everything else jax.tree.map(lambda values_J: values_J[self.index_S], tree_J)


@self_checking
@dataclass(frozen=True)
class Sketch:
    """Which outer samples enter the gradient, with weights that keep it unbiased.

    The paper scales by q/d_t without defining q. An unbiased gradient needs q = the number of candidates: n in the
    dense form, and the number of non-zero entries in the sparse form (appendix A).
    """

    form: Annotated[
        Literal["none", "dense", "sparse"],
        "none: use all outer samples; dense: keep sketch.size of all; sparse: keep sketch.size of the drawn ones.",
    ] = "none"
    size: Annotated[int, "Number of outer samples that a dense or sparse sketch keeps."] = 32

    def __post_init__(self) -> None:
        check_settings(self, "sketch")
        require(self.size >= 1, f"sketch.size must be at least 1, not {self.size}")

    def pick(self, share_J: Float[Array, " J"], key: PRNGKeyArray) -> Picked:
        """A random subset S of the outer samples, with their shares count_j / K1 rescaled."""
        count = len(share_J)
        if self.form == "none":
            return Picked(jnp.arange(count), share_J, everything=True)
        size = min(self.size, count)
        candidate_J = jnp.ones(count, bool) if self.form == "dense" else share_J > 0
        order = jnp.argsort(jnp.where(candidate_J, jax.random.uniform(key, (count,)), 2.0))
        index_S = order[:size]
        candidates = candidate_J.sum()
        return Picked(index_S, share_J[index_S] * candidates / jnp.minimum(size, candidates))
