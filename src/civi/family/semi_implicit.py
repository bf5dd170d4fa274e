"""The semi-implicit family (paper, Eq. 1): eps ~ q(eps), z = h(u; eps), so that q(z) = E_eps[q(z | eps)]."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from civi.errors import require
from civi.family.conditional import Conditional
from civi.family.mixing import ACTIVATIONS
from civi.family.noise import Noise
from civi.family.registry import CONDITIONALS, MIXINGS
from civi.parallel.mesh import shard
from civi.parts import trained
from civi.settings import Choice, check_settings, self_checking

NoiseDim = Annotated[int, "Dimension of the noise eps."]
Conditioned = Annotated[str, Choice(CONDITIONALS), "Distribution of z given the noise."]
Scale = Annotated[float, "Initial standard deviation of the conditional."]
Spread = Annotated[float, "Initial scale of the locations that the mixing network gives."]
LARGEST_SCALE = 1e12


class Outer(NamedTuple):
    """The noise of outer samples, mu_j = (u_j, eps_j) in the paper; z_j is a function of this noise and theta."""

    eps: Float[Array, "J E"]
    u: Float[Array, "J D"]


def check_scale(name: str, value: float) -> None:
    """Raise a SettingError unless this initial scale is positive and at most LARGEST_SCALE."""
    require(0 < value <= LARGEST_SCALE, f"{name} must be positive and at most {LARGEST_SCALE:g}, not {value:g}")


def draw_outer(noise: Noise, conditional: Conditional, key: PRNGKeyArray, count: int) -> Outer:
    """(u_j, eps_j) ~ q(u) q(eps)."""
    key_eps, key_u = jax.random.split(key)
    return shard(Outer(noise.sample(key_eps, count), conditional.draw_base(key_u, count)), "outer")


class SemiImplicit(eqx.Module):
    """The semi-implicit family: noise eps, a mixing network, and the conditional q(z | eps).

    Example:
        >>> import civi, jax
        >>> family = civi.Architecture(hidden=(8,)).init(2, jax.random.key(0))
        >>> inner = family.noise.sample(jax.random.key(1), 100)
        >>> z, log_q = family.sample_and_log_prob(jax.random.key(2), 5, inner)
        >>> z.shape, log_q.shape
        ((5, 2), (5,))
    """

    noise: Noise
    mixing: Any = trained("mixing")
    conditional: Conditional = trained("scale")

    def draw_outer(self, key: PRNGKeyArray, count: int) -> Outer:
        """(u_j, eps_j) ~ q(u) q(eps)."""
        return draw_outer(self.noise, self.conditional, key, count)

    def mix(self, eps_K: Float[Array, "K E"]) -> Float[Array, "*J K P"]:
        """The conditional's parameters for every noise vector (for every pair of datum and noise if amortised)."""
        return jax.vmap(self.mixing)(eps_K)

    def mix_each(self, eps_J: Float[Array, "J E"]) -> Float[Array, "J P"]:
        """The conditional's parameters for each outer sample's own noise."""
        return self.mix(eps_J)

    def log_prob_pairs(self, mixed: Float[Array, "*J K P"], z_J: Float[Array, "J D"]) -> Float[Array, "J K"]:
        """log q(z_j | eps_k) for all pairs, from the outputs of `mix`."""
        return self.conditional.log_prob_pairs(mixed, z_J)

    def log_sum_pairs(
        self,
        mixed: Float[Array, "*J K P"],
        z_J: Float[Array, "J D"],
        counted_K: Bool[Array, " K"],
        reference_J: Float[Array, " J"],
    ) -> Float[Array, " J"]:
        """log sum_k q(z_j | eps_k) over the inner samples with `counted_K`, without a gradient; see `Conditional`."""
        return self.conditional.log_sum_pairs(mixed, z_J, counted_K, reference_J)

    def context(self, outer: int) -> Any:
        """Extra input of `log_conditional` for each outer sample: None, or the features of its datum if amortised."""
        return None

    @property
    def floats_per_pair(self) -> int:
        """Number of floats in memory per pair of an outer and an inner sample."""
        return 1

    def push(self, outer: Outer) -> tuple[Float[Array, "J D"], Float[Array, " J"]]:
        """z_j = h(u_j; eps_j) and the logarithm of its own term, log q(z_j | eps_j)."""
        mixed_J = self.mix_each(outer.eps)
        z_J = jax.vmap(self.conditional.transform)(mixed_J, outer.u)
        return z_J, jax.vmap(self.conditional.log_prob_at)(mixed_J, outer.u)

    def push_scored(self, outer: Outer) -> tuple[Float[Array, "J D"], Float[Array, "J D"]]:
        """z_j = h(u_j; eps_j) and the score of its own conditional, grad_z log q(z_j | eps_j)."""
        mixed_J = self.mix_each(outer.eps)
        z_J = jax.vmap(self.conditional.transform)(mixed_J, outer.u)
        return z_J, jax.vmap(self.conditional.score_at)(mixed_J, outer.u)

    def sample(self, key: PRNGKeyArray, count: int) -> Float[Array, "J D"]:
        """`count` draws of z."""
        return self.push(self.draw_outer(key, count))[0]

    def log_conditional(self, z: Float[Array, " D"], eps: Float[Array, " E"], context: Any = None) -> Float[Array, ""]:
        """log q(z | eps)."""
        return self.conditional.log_prob(self.mixing(eps), z)

    def sample_and_log_prob(
        self, key: PRNGKeyArray, count: int, inner_eps: Float[Array, "K E"]
    ) -> tuple[Float[Array, "J D"], Float[Array, " J"]]:
        """Draws of z, and log q(z) estimated by the safe mean over `inner_eps` (in expectation an upper bound)."""
        z_J, own_J = self.push(self.draw_outer(key, count))
        pairs_JK = self.log_prob_pairs(self.mix(inner_eps), z_J)
        return z_J, jnp.logaddexp(logsumexp(pairs_JK, axis=1), own_J) - jnp.log(len(inner_eps) + 1.0)


@self_checking
@dataclass(frozen=True)
class Architecture:
    """Settings of a semi-implicit family; `init` makes a family for a given dimension.

    Starting from narrow conditionals with widely spread locations lets the mixing network find the shape first. Wide
    conditionals with a narrow spread tend to collapse to one Gaussian that covers all modes.

    Example:
        >>> import civi, jax
        >>> family = civi.Architecture(hidden=(8,), conditional="diagonal").init(3, jax.random.key(0))
        >>> family.sample(jax.random.key(1), 5).shape
        (5, 3)
    """

    mixing: Annotated[
        str,
        Choice(MIXINGS),
        "What gives the conditional's parameters: a network of noise, the same with an offset for each mode (modal), "
        "a network of particles, or nothing (constant).",
    ] = "network"
    hidden: Annotated[tuple[int, ...], "Widths of the mixing network's hidden layers."] = (50, 50)
    activation: Annotated[str, Choice(ACTIVATIONS), "Activation function of the hidden layers."] = "relu"
    noise_dim: NoiseDim = 3
    noise_scale: Annotated[float, "Standard deviation of the noise."] = 1.0
    conditional: Conditioned = "scaled"
    scale: Scale = 0.37
    spread: Spread = 3.0
    particles: Annotated[int, "Number of particles, with mixing=particles."] = 100
    modes: Annotated[int, "Number of modes, with mixing=modal."] = 2

    def __post_init__(self) -> None:
        check_settings(self, "family")
        for name in ("scale", "spread", "noise_scale"):
            value = getattr(self, name)
            check_scale(f"family.{name}", value)
        require(self.noise_dim >= 1, f"family.noise_dim must be at least 1, not {self.noise_dim}")
        require(self.particles >= 1, f"family.particles must be at least 1, not {self.particles}")
        require(self.modes >= 1, f"family.modes must be at least 1, not {self.modes}")
        require(all(n >= 1 for n in self.hidden), f"the widths in family.hidden must be at least 1, not {self.hidden}")

    @classmethod
    def in_frame(cls, noise_dim: int) -> Architecture:
        """For a target in a pilot's frame, which is about standard normal: a trained factor models the correlations."""
        return cls(noise_dim=noise_dim, conditional="scaled-cholesky", scale=0.7, spread=1.0)

    @classmethod
    def at_pilot(cls, noise_dim: int) -> Architecture:
        """For a target in a trained frame: q starts close to the standard normal, the Gaussian of the pilot."""
        spread = 0.3
        return cls(noise_dim=noise_dim, conditional="bounded", scale=math.sqrt(1 - spread**2), spread=spread)

    def init(self, dim: int, key: PRNGKeyArray) -> SemiImplicit:
        """A family over R^dim with random mixing weights."""
        require(dim >= 1, f"the target's dimension must be at least 1, not {dim}")
        return _init(self, dim, key)

    def template(self, dim: int) -> SemiImplicit:
        """The family of `init` with shapes in place of all arrays."""
        return eqx.filter_eval_shape(self.init, dim, jax.eval_shape(lambda: jax.random.key(0)))


@eqx.filter_jit
def _init(architecture: Architecture, dim: int, key: PRNGKeyArray) -> SemiImplicit:
    conditional = CONDITIONALS[architecture.conditional]
    gain = conditional.output_gain(dim, architecture.spread)
    noise, mixing = MIXINGS[architecture.mixing](architecture, gain, key)
    return SemiImplicit(noise, mixing, conditional.init(dim, architecture.scale))
