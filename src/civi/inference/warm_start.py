"""Start points and a metric for another sampler, in the unconstrained space of the user's own parameterisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array
from numpyro import handlers
from numpyro.infer.util import unconstrain_fn

from civi.errors import TargetError
from civi.inference.draws import in_space
from civi.inference.refine import metric_of
from civi.problem.target.numpyro_sites import Rows, explained
from civi.problem.target.space import TreeSpace, UnknownSpace
from civi.problem.target.traced import ModelSpace, Origin


class WarmStart(NamedTuple):
    """Where chains of NumPyro or BlackJAX start, and their metric.

    Attributes:
        init_params: unconstrained points, with one leading axis for the chains unless there is one chain only: a
            dictionary by site for a NumPyro model, and the array or pytree that a log density takes.
        inverse_mass_matrix: the covariance of q in this space, or its diagonal. The elements are in the order of
            `jax.flatten_util.ravel_pytree`: sites in alphabetical order, each row by row.
    """

    init_params: Any
    inverse_mass_matrix: np.ndarray


def warm_start(space: Callable[[Array], Any], z: np.ndarray, chains: int, *, dense: bool) -> WarmStart:
    """A warm start from unconstrained draws of q in the coordinates of the fit.

    A fit may have changed the parameterisation of sites (`posterior.centring`). The draws are therefore taken to the
    constrained space and back by the supports of the model as it is written.

    Args:
        space: maps one of the draws to the user's parameters.
        z: draws (N, D) of q.
        chains: number of start points.
        dense: whether the metric is a matrix.
    """
    if isinstance(space, UnknownSpace):
        space(z[0])
    points: Any = in_space(space, z) if isinstance(space, TreeSpace) else z
    if isinstance(space, ModelSpace):
        points = _unconstrained(space, z)
    leaves, structure = jax.tree.flatten(points)
    flat = np.concatenate([np.asarray(leaf).reshape(len(z), -1) for leaf in leaves], axis=1)
    finite = np.flatnonzero(np.isfinite(flat).all(1))
    if len(finite) < max(chains, 2):
        raise TargetError(f"only {len(finite)} of {len(z)} draws of q are inside of the supports of the model")
    chosen = finite[0] if chains == 1 else finite[:chains]
    first = jax.tree.unflatten(structure, [np.asarray(leaf)[chosen] for leaf in leaves])
    return WarmStart(first, metric_of(flat[finite]) if dense else flat[finite].var(0, ddof=1))


def _unconstrained(space: ModelSpace, z: np.ndarray) -> dict[str, Any]:
    """The continuous latent sites of the model as it is written, each in its unconstrained space."""
    origin = origin_of(space)
    draws = in_space(space, z)
    model = Rows(handlers.seed(origin.model, jax.random.key(0)))

    def one(latent: dict[str, Array]) -> dict[str, Array]:
        return unconstrain_fn(model, origin.args, origin.kwargs, latent)

    with explained(origin.sites.plates):
        return jax.jit(jax.vmap(one))({name: draws[name] for name in origin.sites.unconstrained})


def origin_of(space: Callable[[Array], Any]) -> Origin:
    """The NumPyro model of a space; raises TargetError if there is none."""
    origin = space.origin if isinstance(space, ModelSpace) else None
    if origin is None:
        raise TargetError("this needs a posterior of a NumPyro model, with the model and its data")
    return origin
