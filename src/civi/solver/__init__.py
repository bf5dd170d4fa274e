"""Solvers by name, and the training loop."""

from civi.solver.base import Info, Model, Solver
from civi.solver.civi import Civi
from civi.solver.loop import RunState, Trained, train

SOLVERS: dict[str, type] = {"civi": Civi}

__all__ = ["SOLVERS", "Civi", "Info", "Model", "RunState", "Solver", "Trained", "train"]
