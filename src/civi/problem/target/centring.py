"""Location-scale sites in coordinates between centred and non-centred.

A site z ~ D(loc, scale) with a degree of centring c in [0, 1] has the coordinate z~ ~ D(c loc, scale^c), and

    z = loc + scale^(1 - c) (z~ - c loc).

With c = 1 the coordinate is z itself, the model as written. With c = 0 it is (z - loc) / scale, the non-centred form. A
log-normal site has the coordinate of its logarithm. A multivariate normal site with the Cholesky factor L is
centred or not, as c is rounded: z = z~ or z = loc + L z~. A Gaussian random walk has loc = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro.infer.reparam import Reparam

SHAPE_PARAMETERS: dict[type[dist.Distribution], tuple[str, ...]] = {
    dist.Normal: (),
    dist.LogNormal: (),
    dist.StudentT: ("df",),
    dist.Cauchy: (),
    dist.Laplace: (),
    dist.Logistic: (),
    dist.Gumbel: (),
}
Change = Callable[[Any, Array], tuple[dist.Distribution, Callable[[Array], Array]]]
REPARAMETERISED = ("decentered", "base")


def coordinate_name(site: str) -> str:
    """Name of the site that holds the coordinate z~."""
    return f"{site}/centred"


def is_location_scale(site: Any) -> bool:
    """Whether a latent site of a trace can have a degree of centring.

    A masked or rescaled site cannot, because its log density does not change like that of a location-scale family. Nor
    can a site inside of a scan, which NumPyro runs as one site.
    """
    is_plain = site.get("scale") is None and not site.get("_control_flow_done")
    return is_plain and type(_base(site["fn"])) in {*SHAPE_PARAMETERS, *VECTORS}


def parameters(fn: dist.Distribution) -> tuple[Any, Any]:
    """Location and scale, or location and Cholesky factor."""
    base: Any = _base(fn)
    return getattr(base, "loc", 0.0), base.scale_tril if isinstance(base, dist.MultivariateNormal) else base.scale


class Centring(Reparam):
    """NumPyro reparameterisation of one site by a degree of centring, which may be a traced value."""

    def __init__(self, degree: Float[Array, ""]) -> None:
        self.degree = degree

    def __call__(self, name: str, fn: Any, obs: Any) -> tuple[None, Array]:
        base, shape, event_dim = self._unwrap(fn)
        inner, outward = VECTORS.get(type(base), _univariate)(base, self.degree)
        coordinate = numpyro.sample(coordinate_name(name), self._wrap(inner, shape, event_dim))
        return None, outward(coordinate)


def _univariate(base: Any, degree: Array) -> tuple[dist.Distribution, Callable[[Array], Array]]:
    """The distribution of z~, and the map from z~ to z; with c = 1 and c = 0 nothing is lost by rounding."""
    is_log = isinstance(base, dist.LogNormal)
    kind, names = (dist.Normal if is_log else type(base)), SHAPE_PARAMETERS[type(base)]
    shapes = {name: getattr(base, name) for name in names}
    inner = kind(loc=degree * base.loc, scale=jnp.power(base.scale, degree), **shapes)

    def outward(coordinate: Array) -> Array:
        stretch = jnp.power(base.scale, 1 - degree)
        value = stretch * coordinate + base.loc * (1 - degree * stretch)
        return jnp.exp(value) if is_log else value

    return inner, outward


def _multivariate(base: Any, degree: Array) -> tuple[dist.Distribution, Callable[[Array], Array]]:
    """The same for a multivariate normal distribution, whose degree is rounded to 0 or 1: no system is solved."""
    degree = jnp.round(degree)
    identity = jnp.eye(base.scale_tril.shape[-1])
    factor = (1 - degree) * identity + degree * base.scale_tril
    inner = dist.MultivariateNormal(degree * base.loc, scale_tril=factor)

    def outward(coordinate: Array) -> Array:
        non_centred = base.loc + (base.scale_tril @ coordinate[..., None])[..., 0]
        return jnp.where(degree == 1, coordinate, non_centred)

    return inner, outward


def _random_walk(base: Any, degree: Array) -> tuple[dist.Distribution, Callable[[Array], Array]]:
    """The same for a Gaussian random walk from 0, which is proportional to its scale."""
    inner = dist.GaussianRandomWalk(jnp.power(base.scale, degree), base.num_steps)
    return inner, lambda coordinate: jnp.power(base.scale, 1 - degree)[..., None] * coordinate


VECTORS: dict[type[dist.Distribution], Change] = {
    dist.MultivariateNormal: _multivariate,
    dist.GaussianRandomWalk: _random_walk,
}


def _base(fn: dist.Distribution) -> dist.Distribution:
    while isinstance(fn, dist.Independent | dist.ExpandedDistribution):
        fn = fn.base_dist
    return fn
