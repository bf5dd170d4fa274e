"""Noise -> mixing network -> conditional: the semi-implicit family."""

from civi.family.conditional import (
    CONDITIONALS,
    CholeskyGaussian,
    Conditional,
    DiagonalGaussian,
    Laplace,
    LogNormal,
    ScaledGaussian,
)
from civi.family.mixing import ACTIVATIONS, ConstantMixing, MixingNetwork
from civi.family.noise import GaussianNoise
from civi.family.semi_implicit import Architecture, Outer, SemiImplicit

__all__ = [
    "ACTIVATIONS",
    "CONDITIONALS",
    "Architecture",
    "CholeskyGaussian",
    "Conditional",
    "ConstantMixing",
    "DiagonalGaussian",
    "GaussianNoise",
    "Laplace",
    "LogNormal",
    "MixingNetwork",
    "Outer",
    "ScaledGaussian",
    "SemiImplicit",
]
