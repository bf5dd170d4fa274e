"""The settings of `civi.fit`, which work without tuning for a target in the frame of a pilot."""

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
    """The settings of a fit.

    There are 300 inner samples in up to 3 dimensions and 100 in 10 to 50. Above that there are fewer, which keeps the
    cost per step constant. The learning rate is constant until the ELBO stops improving, then it decays to 0.

    Args:
        solver: name of the solver.
        dim: dimension of the target.
        steps: maximum number of steps; STEPS by default.
        batch: number of rows of data per step; None uses all.
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
    """Reject a solver that does not train a semi-implicit family in the frame of the pilot."""
    if solver not in SOLVERS or solver in EXPLICIT:
        raise unknown("solver for civi.fit", solver, [name for name in SOLVERS if name not in EXPLICIT])
