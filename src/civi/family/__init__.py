"""The semi-implicit family: noise -> mixing network -> conditional."""

from civi.family.amortised import Amortised, Conditioned, Encoder, Reader, repeated
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
from civi.family.mixing import ACTIVATIONS, ConstantMixing, MixingNetwork
from civi.family.modal import ModalNetwork, thresholds
from civi.family.noise import GaussianNoise, Noise
from civi.family.particles import ParticleNoise, Particles
from civi.family.registry import CONDITIONALS, MIXINGS
from civi.family.semi_implicit import Architecture, Outer, SemiImplicit

__all__ = [
    "ACTIVATIONS",
    "CONDITIONALS",
    "MIXINGS",
    "Amortised",
    "Architecture",
    "BoundedGaussian",
    "CholeskyGaussian",
    "Conditional",
    "Conditioned",
    "ConstantMixing",
    "DiagonalGaussian",
    "Encoder",
    "GaussianNoise",
    "LaplaceConditional",
    "LogNormal",
    "MixingNetwork",
    "ModalNetwork",
    "Noise",
    "Outer",
    "ParticleNoise",
    "Particles",
    "Reader",
    "ScaledCholeskyGaussian",
    "ScaledGaussian",
    "SemiImplicit",
    "repeated",
    "thresholds",
]
