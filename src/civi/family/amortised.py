"""Amortised semi-implicit family q(z | x): the encoder reads a datum x once and noise as often as one likes."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from civi.family.conditional import Conditional
from civi.family.mixing import ACTIVATIONS, MixingNetwork
from civi.family.noise import GaussianNoise
from civi.family.semi_implicit import Outer, SemiImplicit, draw_outer


@runtime_checkable
class Reader(Protocol):
    """What an encoder does with the data alone."""

    def __call__(self, x_J: Any, /) -> Float[Array, "J H"]:
        """Features of every datum, before the first activation."""
        ...


class Encoder(eqx.Module):
    """A network on (x, eps) that reads x once per datum: rest(activation(read(x) + W_eps eps)).

    With a linear reader this is a network on the joined vector [x, eps] whose first layer is split. A reader with
    hidden layers lets the noise in later, and a pair (x, eps) then costs only the layers that are left.
    Without noise weights the encoder is that of an explicit family.
    """

    reader: Reader
    noise_weight: Float[Array, "E H"] | None
    rest: MixingNetwork

    def __call__(self, feature: Float[Array, "*N H"], eps: Float[Array, "*M E"]) -> Float[Array, "*NM P"]:
        """Parameters of the conditional; features and noise broadcast against each other."""
        silent = jnp.zeros((*eps.shape[:-1], 1))
        noise = silent if self.noise_weight is None else eps @ self.noise_weight
        return self.rest(ACTIVATIONS[self.rest.activation](feature + noise))


class Amortised(eqx.Module):
    """q(z | eps, x) before it is told which x."""

    noise: GaussianNoise
    mixing: Encoder
    conditional: Conditional

    def draw_outer(self, key: PRNGKeyArray, count: int) -> Outer:
        """(u_j, eps_j), which do not depend on x."""
        return draw_outer(self.noise, self.conditional, key, count)

    def given(self, x_J: Any) -> Conditioned:
        """The family of a batch: the j-th outer sample belongs to the j-th datum."""
        return Conditioned(self.noise, self.mixing, self.conditional, self.mixing.reader(x_J))


class Conditioned(SemiImplicit):
    """q(z_j | x_j) of a batch of data: mixing outputs are per datum, (J, K, P), and so are pairs."""

    mixing: Encoder  # type: ignore[assignment]
    feature_J: Float[Array, "J H"]

    def mix(self, eps_K: Float[Array, "K E"]) -> Float[Array, "J K P"]:
        """Every noise vector with every datum."""
        return self.mixing(self.feature_J[:, None], eps_K)

    def mix_each(self, eps_J: Float[Array, "J E"]) -> Float[Array, "J P"]:
        """The j-th noise vector with the j-th datum."""
        return self.mixing(self.feature_J, eps_J)

    def log_prob_pairs(self, mixed: Float[Array, "J K P"], z_J: Float[Array, "J D"]) -> Float[Array, "J K"]:
        """log q(z_j | eps_k, x_j)."""
        return jax.vmap(jax.vmap(self.conditional.log_prob, in_axes=(0, None)))(mixed, z_J)

    def log_sum_pairs(
        self,
        mixed: Float[Array, "J K P"],
        z_J: Float[Array, "J D"],
        counted_K: Bool[Array, " K"],
        reference_J: Float[Array, " J"],
    ) -> Float[Array, " J"]:
        """log sum_k q(z_j | eps_k, x_j)."""
        return logsumexp(self.log_prob_pairs(mixed, z_J), axis=1, where=counted_K)

    @property
    def context_J(self) -> Float[Array, "J H"]:
        """The features of every datum."""
        return self.feature_J

    def log_conditional(self, z: Float[Array, " D"], eps: Float[Array, " E"], context: Any = None) -> Float[Array, ""]:
        """log q(z | eps, x) for the datum with these features."""
        return self.conditional.log_prob(self.mixing(context, eps), z)
