"""civi: semi-implicit variational inference.

The method is one pipeline, and every word of it is a folder or a function:

    noise -> mixing network -> conditional -> log ratios -> tracker -> gradient -> primary update -> auxiliary update
    `------------- family -------------'   `- estimate -'           `- solver -'`--- update ---'   `--- tracker ---'

`civi.solver.engine.CompositionalSolver.step` reads in this order beside Algorithm 1 of the paper. Names are loaded on
first use, so that `import civi` and `civi --help` answer at once.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "fit": "civi.inference.fit",
    "load": "civi.inference.load",
    "Posterior": "civi.inference.posterior",
    "Architecture": "civi.family",
    "SemiImplicit": "civi.family",
    "LogDensity": "civi.problem.target",
    "CompositionalSolver": "civi.solver",
    "PosteriorProblem": "civi.problem",
    "train": "civi.solver",
    "neg_elbo_bounds": "civi.inference.diagnose",
    "CiviError": "civi.errors",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'civi' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
