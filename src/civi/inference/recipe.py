"""The settings of `civi.fit`: robust without tuning, for a target in the frame of a pilot."""

from __future__ import annotations

from dataclasses import replace

from civi.errors import unknown
from civi.family import Architecture
from civi.inference.pilot import Gaussian
from civi.inference.settings import Settings
from civi.problem import ProblemSettings
from civi.solver import SOLVERS, Defaults
from civi.update import FirstOrder, Samples

STEPS = 10_000
EXPLICIT = ("mfvb",)


def fit_settings(solver: str, dim: int, steps: int | None = None, batch: int | None = None) -> Settings:
    """Settings for a target of this dimension, of which a step sees `batch` rows of data (None: all).

    Inner samples: 300 in up to 3 dimensions, 100 in 10 to 50, then fewer, so that a step costs no more. The learning
    rate is held until nothing more is gained, then it falls to 0.
    """
    check_solver(solver)
    inner = max(25, min(300, max(100, 1000 // dim), 5000 // dim))
    update = FirstOrder(learning_rate=3e-3, decay="hold", clip=10.0)
    method = SOLVERS[solver](
        Architecture.in_frame(noise_dim=max(3, min(dim, 10))), Defaults(Samples(inner=inner), update)
    )
    return Settings(
        method.family,
        replace(method.solver, steps=steps or STEPS),
        ProblemSettings(batch=batch),
        Gaussian(batch=batch),
    )


def check_solver(solver: str) -> None:
    """Refuse a solver that does not train a semi-implicit family in the pilot's frame."""
    if solver not in SOLVERS or solver in EXPLICIT:
        raise unknown("solver for civi.fit", solver, [name for name in SOLVERS if name not in EXPLICIT])
