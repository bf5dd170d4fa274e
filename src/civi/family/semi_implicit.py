"""The semi-implicit family (paper, Eq. 1): eps ~ q(eps), z = h(u; eps), so that q(z) = E_eps[q(z | eps)]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from civi.errors import require
from civi.family.conditional import Conditional
from civi.family.mixing import ACTIVATIONS, ConstantMixing, MixingNetwork
from civi.family.noise import GaussianNoise
from civi.family.registry import CONDITIONALS
from civi.parallel.mesh import shard
from civi.parts import trained
from civi.settings import Choice, check_settings, self_checking

NoiseDim = Annotated[int, "Dimension of the noise eps."]
Conditioned = Annotated[str, Choice(CONDITIONALS), "Distribution of z given the noise."]
Scale = Annotated[float, "Standard deviation of the conditional at the start."]
Spread = Annotated[float, "Factor of the mixing network's locations at the start."]


class Outer(NamedTuple):
    """The noise of outer samples, mu_j = (u_j, eps_j) in the paper: z_j is a function of it and of theta."""

    eps: Float[Array, "J E"]
    u: Float[Array, "J D"]


def draw_outer(noise: GaussianNoise, conditional: Conditional, key: PRNGKeyArray, count: int) -> Outer:
    """(u_j, eps_j) ~ q(u) q(eps)."""
    key_eps, key_u = jax.random.split(key)
    return shard(Outer(noise.sample(key_eps, count), conditional.draw_base(key_u, count)), "outer")


class SemiImplicit(eqx.Module):
    """Noise, mixing network and conditional, in this order."""

    noise: GaussianNoise
    mixing: MixingNetwork | ConstantMixing = trained("mixing")
    conditional: Conditional = trained("scale")

    def draw_outer(self, key: PRNGKeyArray, count: int) -> Outer:
        """(u_j, eps_j) ~ q(u) q(eps)."""
        return draw_outer(self.noise, self.conditional, key, count)

    def mix(self, eps_K: Float[Array, "K E"]) -> Float[Array, "*J K P"]:
        """The conditional's parameters for every noise vector (and datum, where the family is amortised)."""
        return jax.vmap(self.mixing)(eps_K)

    def mix_each(self, eps_J: Float[Array, "J E"]) -> Float[Array, "J P"]:
        """The conditional's parameters for the j-th outer sample's own noise."""
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
        """log sum_k q(z_j | eps_k) over the inner samples that count, where no gradient is needed."""
        return self.conditional.log_sum_pairs(mixed, z_J, counted_K, reference_J)

    def context(self, outer: int) -> Any:
        """What `log_conditional` needs besides z_j and eps_j: nothing, or the features of the datum of each."""
        return None

    @property
    def floats_per_pair(self) -> int:
        """Numbers in memory for each pair of outer and inner sample."""
        return 1

    def push(self, outer: Outer) -> tuple[Float[Array, "J D"], Float[Array, " J"]]:
        """z_j = h(u_j; eps_j) and its own term log q(z_j | eps_j)."""
        mixed_J = self.mix_each(outer.eps)
        z_J = jax.vmap(self.conditional.transform)(mixed_J, outer.u)
        return z_J, jax.vmap(self.conditional.log_prob_at)(mixed_J, outer.u)

    def sample(self, key: PRNGKeyArray, count: int) -> Float[Array, "J D"]:
        """Draws of z."""
        return self.push(self.draw_outer(key, count))[0]

    def log_conditional(self, z: Float[Array, " D"], eps: Float[Array, " E"], context: Any = None) -> Float[Array, ""]:
        """log q(z | eps)."""
        return self.conditional.log_prob(self.mixing(eps), z)

    def sample_and_log_prob(
        self, key: PRNGKeyArray, count: int, inner_eps: Float[Array, "K E"]
    ) -> tuple[Float[Array, "J D"], Float[Array, " J"]]:
        """Draws of z and log q(z) estimated from this inner noise and the own term (in expectation an upper bound)."""
        z_J, own_J = self.push(self.draw_outer(key, count))
        pairs_JK = self.log_prob_pairs(self.mix(inner_eps), z_J)
        return z_J, jnp.logaddexp(logsumexp(pairs_JK, axis=1), own_J) - jnp.log(len(inner_eps) + 1.0)


@self_checking
@dataclass(frozen=True)
class Architecture:
    """What a semi-implicit family is made of; `init` makes one for a given dimension.

    A wide spread of narrow conditionals lets the mixing find the shape first; a narrow spread of wide ones
    settles into one Gaussian over all modes.
    """

    mixing: Annotated[
        Literal["network", "constant"],
        "Whether the conditional's parameters depend on the noise (network) or not (constant).",
    ] = "network"
    hidden: Annotated[tuple[int, ...], "Widths of the mixing network's hidden layers."] = (50, 50)
    activation: Annotated[str, Choice(ACTIVATIONS), "Activation function of the hidden layers."] = "relu"
    noise_dim: NoiseDim = 3
    noise_scale: Annotated[float, "Standard deviation of the noise."] = 1.0
    conditional: Conditioned = "scaled"
    scale: Scale = 0.37
    spread: Spread = 3.0

    def __post_init__(self) -> None:
        check_settings(self, "family")
        for name in ("scale", "spread", "noise_scale"):
            value = getattr(self, name)
            require(0 < value < float("inf"), f"family.{name} must be positive and finite, not {value}")
        require(self.noise_dim >= 1, f"family.noise_dim must be at least 1, not {self.noise_dim}")
        require(all(n >= 1 for n in self.hidden), f"family.hidden must be at least 1 each, not {self.hidden}")

    @classmethod
    def in_frame(cls, noise_dim: int) -> Architecture:
        """For a target in a pilot's frame, about standard normal: correlations are left to a factor of their own."""
        return cls(noise_dim=noise_dim, conditional="scaled-cholesky", scale=0.7, spread=1.0)

    def init(self, dim: int, key: PRNGKeyArray) -> SemiImplicit:
        """A family over R^dim with random mixing weights."""
        require(dim >= 1, f"the target's dimension must be at least 1, not {dim}")
        return _init(self, dim, key)


@eqx.filter_jit
def _init(architecture: Architecture, dim: int, key: PRNGKeyArray) -> SemiImplicit:
    conditional = CONDITIONALS[architecture.conditional]
    gain = conditional.output_gain(dim, architecture.spread)
    sizes = (architecture.noise_dim, *architecture.hidden, gain.size)
    if architecture.mixing == "constant":
        mixing: MixingNetwork | ConstantMixing = ConstantMixing(jnp.zeros(gain.size))
    else:
        mixing = MixingNetwork.init(sizes, architecture.activation, gain, key)
    noise = GaussianNoise(architecture.noise_dim, architecture.noise_scale)
    return SemiImplicit(noise, mixing, conditional.init(dim, architecture.scale))
