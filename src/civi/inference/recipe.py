"""The settings of `civi.fit`, which work without tuning for a target in the frame of a pilot."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from civi.errors import require, unknown
from civi.family import Architecture
from civi.inference.pilot import Gaussian
from civi.inference.settings import Settings
from civi.objective.compositional import LogTrick
from civi.problem import ProblemSettings
from civi.problem.control import FEW
from civi.solver import SOLVERS, CompositionalSolver, Defaults
from civi.update import FirstOrder, Samples

STEPS = 6_000
PILOT_ROWS = 10_000
NOT_IN_A_FRAME = ("mfvb", "pvi")


def fit_settings(solver: str, dim: int, steps: int | None = None, batch: int | None = None) -> Settings:
    """The settings of a fit.

    There are 300 inner samples in up to 3 dimensions and 100 in 10 to 50. Above that there are fewer, which keeps the
    cost per step constant. The learning rate first rises, because Adam's first steps move every parameter by the whole
    rate; then it is constant until the ELBO stops improving, and decays to 0. It is smaller in many dimensions, because
    the trained frame has dim^2 parameters, each of which moves at random by the rate.

    Args:
        solver: name of the solver.
        dim: dimension of the target.
        steps: maximum number of steps; STEPS by default.
        batch: number of rows of data per step; None uses all.
    """
    check_solver(solver)
    inner = max(25, min(300, max(100, 1000 // dim), 5000 // dim))
    rate = 3e-3 * min(1.0, math.sqrt(10 / dim))
    update = FirstOrder(learning_rate=rate, decay="hold", warm_up=100, clip=10.0)
    method = SOLVERS[solver](
        Architecture.at_pilot(noise_dim=max(3, min(dim, 10))), Defaults(Samples(inner=inner), update)
    )
    return Settings(
        method.family,
        replace(_weighted(method.solver, dim), steps=steps or STEPS),
        ProblemSettings(batch=batch),
        Gaussian(batch=None if batch is None else PILOT_ROWS, curved=method.family.mixing != "constant"),
    )


def _weighted(solver: Any, dim: int) -> Any:
    """The solver with weights k = g/y on all of the gradient, in many dimensions.

    There the densities of a bank's past outputs differ from those of today by a common factor while q moves. With
    weights on the gradient of log q alone, that factor would change the balance of entropy and log p.
    """
    if dim <= FEW or not isinstance(solver, CompositionalSolver) or not isinstance(solver.objective, LogTrick):
        return solver
    return replace(solver, objective=replace(solver.objective, weigh="ratio"))


def check_solver(solver: Any) -> None:
    """Reject a solver that cannot train a family in the frame of the pilot."""
    require(isinstance(solver, str), f"solver must be the name of one, not a {type(solver).__name__}")
    if solver not in SOLVERS or solver in NOT_IN_A_FRAME:
        raise unknown("solver for civi.fit", solver, [name for name in SOLVERS if name not in NOT_IN_A_FRAME])
