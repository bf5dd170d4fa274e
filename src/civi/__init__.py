"""civi: semi-implicit variational inference.

The method is one pipeline, and every part of it is a folder or a function:

    noise -> mixing network -> conditional -> log ratios -> tracker -> gradient -> primary update -> auxiliary update
    `------------- family -------------'   `- estimate -'           `- solver -'`--- update ---'   `--- tracker ---'

`civi.solver.engine.CompositionalSolver.step` follows this order and Algorithm 1 of the paper. Public names are imported
on first use, to keep `import civi` and `civi --help` fast.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_MODULE_OF = {
    "fit": "civi.inference.fit",
    "fit_many": "civi.inference.many",
    "keep_programs": "civi.inference.program_files",
    "sbc": "civi.inference.calibration",
    "load": "civi.inference.load",
    "Rows": "civi.tables.rows",
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

__all__ = ["__version__", *sorted(_MODULE_OF)]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(importlib.import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'civi' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
