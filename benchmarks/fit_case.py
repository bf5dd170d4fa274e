"""What a model of the benchmark is: the NumPyro model, its data, how its reference is made and how a fit is judged.

Data are real or drawn by NumPy with a fixed seed. They are stored in single precision, so that the posterior is the
same with and without JAX's double precision. (With NumPy arrays of doubles, a program compiled in one precision fails
in the other.)
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import jax
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints

Sites = dict[str, Any]


@dataclass(frozen=True)
class ModelCase:
    """A model, its data and how a fit of it is judged.

    Attributes:
        name: name of the model.
        model: the NumPyro model.
        data: its arguments for a seed: a tuple of positional or a mapping of keyword arguments. The shapes do not
            depend on the seed.
        seed: seed of the data.
        summary: a short description.
        exact_unconstrained_draws: draws `count` posterior samples with `rng`, independent or of a thinned Gibbs
            sampler; None if there is no such sampler.
        rule: how draws are compared with the reference; fit_judge.py has the rules.
        noncentred: sites that the sampler of the reference moves to the non-centred parameterisation.
        reference_model: a model with the same posterior that NUTS samples well. All latent sites of `model` are
            sites of it too, sampled or deterministic. None if it is `model` with the sites of `noncentred` changed.
        canonical: maps the sites of one draw to those of the equivalent draw that is judged, and returns the number
            of the symmetric mode it was in; None without symmetries.
        modes: number of symmetric modes.
        normalised: whether log p is normalised, so that -ELBO = KL(q || p).
    """

    name: str
    model: Callable[..., None]
    data: Callable[[int], tuple[Any, ...] | Mapping[str, Any]]
    seed: int
    summary: str
    exact_unconstrained_draws: Callable[[np.random.Generator, int], np.ndarray] | None = None
    rule: Literal["moments", "quantiles"] = "moments"
    noncentred: tuple[str, ...] = ()
    reference_model: Callable[..., None] | None = None
    canonical: Callable[[Sites], tuple[Sites, jax.Array]] | None = None
    modes: int = 1
    normalised: bool = False

    @cached_property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments of the model."""
        made = self.data(self.seed)
        return single(made) if isinstance(made, tuple) else ()

    @cached_property
    def kwargs(self) -> dict[str, Any]:
        """Keyword arguments of the model."""
        made = self.data(self.seed)
        return {} if isinstance(made, tuple) else single(dict(made))

    def with_other_data(self) -> ModelCase:
        """The same model function with other data of the same shapes (the same data if it has none)."""
        return replace(self, seed=self.seed + 1000)

    def fresh(self) -> ModelCase:
        """The same model as a new function object, which no cache of compiled programs knows."""
        old = self.model
        assert isinstance(old, types.FunctionType)
        new = types.FunctionType(old.__code__, old.__globals__, old.__name__, old.__defaults__, old.__closure__)
        new.__doc__, new.__annotations__, new.__kwdefaults__ = old.__doc__, old.__annotations__, old.__kwdefaults__
        return replace(self, model=new)


def single(data: Any) -> Any:
    """Convert the arrays of a tuple or dict to float32 and int32; Python numbers are not changed."""
    short = {"f": np.float32, "i": np.int32}
    return jax.tree.map(
        lambda leaf: leaf.astype(short[leaf.dtype.kind]) if isinstance(leaf, np.ndarray) else leaf, data
    )


def flat(support: constraints.Constraint, *shape: int) -> dist.Distribution:
    """The improper prior with constant density on the support."""
    return dist.ImproperUniform(support, (), shape)
