"""Named solvers, the engine that they share, and the training loop."""

from civi.objective.compositional import LogTrick
from civi.solver.base import Defaults, Info, Method, Solver
from civi.solver.engine import CompositionalSolver
from civi.solver.loop import RunState, Trained, train
from civi.solver.pathwise import PathwiseSolver
from civi.solver.registry import SOLVERS

__all__ = [
    "SOLVERS",
    "CompositionalSolver",
    "Defaults",
    "Info",
    "LogTrick",
    "Method",
    "PathwiseSolver",
    "RunState",
    "Solver",
    "Trained",
    "train",
]
