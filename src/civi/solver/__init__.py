"""Solvers by name, and the training loop."""

from civi.solver.base import Info, Model, Settings, Solver
from civi.solver.civi import Civi
from civi.solver.loop import RunState, Trained, train
from civi.solver.registry import SOLVERS

__all__ = ["SOLVERS", "Civi", "Info", "Model", "RunState", "Settings", "Solver", "Trained", "train"]
