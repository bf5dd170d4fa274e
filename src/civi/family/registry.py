"""Conditionals by name."""

from __future__ import annotations

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

CONDITIONALS: dict[str, type[Conditional]] = {
    "diagonal": DiagonalGaussian,
    "cholesky": CholeskyGaussian,
    "scaled": ScaledGaussian,
    "bounded": BoundedGaussian,
    "scaled-cholesky": ScaledCholeskyGaussian,
    "laplace": LaplaceConditional,
    "log-normal": LogNormal,
}
