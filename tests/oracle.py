"""Solvers by name, fitted with default settings to the linear-Gaussian target, where the answer is known exactly."""

import functools

import jax
import numpy as np

from civi.family import Architecture
from civi.problem import PosteriorProblem
from civi.settings import override
from civi.solver import SOLVERS, train
from civi.solver.loop import Trained
from linear_gaussian import gaussian_target, neg_elbo

LINEAR = Architecture(hidden=(), noise_dim=3, conditional="diagonal", scale=0.6, spread=1.0)
LOWEST = -gaussian_target().log_constant
EXACT = ("civi", "sivi", "uivi")
LITERAL = "civi-paper"
TRACKED_SGD = ("scgd", "asc-pg")
NESTED = ("nmc-adam", "nmc-rmsprop", "nmc-sgd")
EXPLICIT = ("mfvb", "fullrank")
SMALL_FLOW = ["reverse.layers=2", "reverse.hidden=16"]
FIELD: dict[str, list[str]] = {
    "bsivi": ["samples.outer=64"],
    "aisivi": ["samples.inner=8", "objective.score.own=false", *(f"objective.score.{text}" for text in SMALL_FLOW)],
    "iwhvi": ["samples.outer=64", "samples.inner=4", *(f"objective.{text}" for text in SMALL_FLOW)],
    "divi": ["objective.score.hidden=16", "objective.score.training.draws=256"],
    "kpg": ["samples.outer=64"],
    "ksivi": ["samples.outer=64"],
    "sivi-sm": ["objective.hidden=16", "objective.training.learning_rate=0.01"],
    "pvi": ["samples.outer=100"],
}


@functools.cache
def fitted(name: str) -> Trained:
    """The result of a solver on the oracle problem; those of FIELD have small networks and few steps."""
    method = SOLVERS[name](LINEAR)
    settings = FIELD.get(name, [])
    solver = override(method.solver, [*settings, "steps=1200"]) if settings else method.solver
    family_key, train_key = jax.random.split(jax.random.key(0))
    problem = PosteriorProblem(method.family.init(2, family_key), gaussian_target())
    return train(solver, problem, train_key)


def reports_too_little(name: str) -> bool:
    """Whether a solver reports less than E_q[log q - log p] >= -log constant allows, or was stopped."""
    reported = np.nanmean(fitted(name).history["neg_elbo"][-200:])
    return bool(reported < LOWEST - 0.02 or fitted(name).status == "stopped")


def is_off(name: str) -> bool:
    """Whether a solver's fit is away from the target."""
    return float(neg_elbo(fitted(name).problem.family, gaussian_target())) > LOWEST + 0.02
