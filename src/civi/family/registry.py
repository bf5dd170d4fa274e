"""Conditionals and mixings by name. A mixing is a function that makes the noise and the map from it to parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from civi.family.conditional import Conditional
from civi.family.gaussian import (
    BoundedGaussian,
    CholeskyGaussian,
    DiagonalGaussian,
    ScaledCholeskyGaussian,
    ScaledGaussian,
)
from civi.family.laplace import LaplaceConditional
from civi.family.log_normal import LogNormal
from civi.family.mixing import ConstantMixing, MixingNetwork
from civi.family.modal import ModalNetwork, thresholds
from civi.family.noise import GaussianNoise, Noise
from civi.family.particles import ParticleNoise, Particles

Mixed = tuple[Noise, Any]

CONDITIONALS: dict[str, type[Conditional]] = {
    "diagonal": DiagonalGaussian,
    "cholesky": CholeskyGaussian,
    "scaled": ScaledGaussian,
    "bounded": BoundedGaussian,
    "scaled-cholesky": ScaledCholeskyGaussian,
    "laplace": LaplaceConditional,
    "log-normal": LogNormal,
}


def _network(shape: Any, gain: Float[Array, " P"], key: PRNGKeyArray) -> Mixed:
    """A multilayer perceptron on Gaussian noise."""
    sizes = (shape.noise_dim, *shape.hidden, gain.size)
    noise = GaussianNoise(shape.noise_dim, shape.noise_scale)
    return noise, MixingNetwork.init(sizes, shape.activation, gain, key)


def _constant(shape: Any, gain: Float[Array, " P"], key: PRNGKeyArray) -> Mixed:
    """The same parameters for every noise vector, so that q is explicit."""
    return GaussianNoise(shape.noise_dim, shape.noise_scale), ConstantMixing(jnp.zeros(gain.size))


def _modal(shape: Any, gain: Float[Array, " P"], key: PRNGKeyArray) -> Mixed:
    """A multilayer perceptron on Gaussian noise, with modes of equal probability at random places."""
    network_key, mode_key = jax.random.split(key)
    noise, network = _network(shape, gain, network_key)
    offset_M = gain * jax.random.normal(mode_key, (shape.modes, gain.size))
    return noise, ModalNetwork(network, offset_M, thresholds(jnp.full(shape.modes, 1 / shape.modes), shape.noise_scale))


def _particles(shape: Any, gain: Float[Array, " P"], key: PRNGKeyArray) -> Mixed:
    """A multilayer perceptron on a fixed number of trained vectors, which start as draws of Gaussian noise."""
    network_key, particle_key = jax.random.split(key)
    noise, network = _network(shape, gain, network_key)
    return ParticleNoise(shape.particles), Particles(network, noise.sample(particle_key, shape.particles))


MIXINGS: dict[str, Callable[[Any, Array, Array], Mixed]] = {
    "network": _network,
    "constant": _constant,
    "modal": _modal,
    "particles": _particles,
}
