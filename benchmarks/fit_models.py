"""The models on which `civi.fit` is evaluated, by name; fit_references.py makes the reference draws."""

from __future__ import annotations

import fit_models_hierarchical
import fit_models_other
import fit_models_small
from fit_case import ModelCase

MODELS: dict[str, ModelCase] = {
    case.name: case
    for cases in (fit_models_small.CASES, fit_models_hierarchical.CASES, fit_models_other.CASES)
    for case in cases
}
