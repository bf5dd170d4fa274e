"""The paper's settings: the tables of appendix B, with the same family, samples and steps for every solver.

civi, civi-paper: literal CI-VI without the own term, with all constants of the tables. The tables leave some settings
    open. We chose: a pool of 100 K1 samples, in chunks of K1 that are kept for 5 steps; K3 = K2; no sketching; log
    scales that start at 0 (log 3 on nodal-25, whose posterior is several times wider than that of all rows, and where
    the literal method is not stable from 0); the last iterate as the result.
q(eps): the standard Gaussian of the paper's text. The table of the regressions has N(0, 100 I), with which the literal
    method diverges on spam and waveform: `--set family.noise_scale=10` (docs/paper.md).
cadam: the same constants, on one fixed pool of 256 samples; its chunk is a batch that is kept for 5 steps on
    autoencoders, where a fixed pool would mean a single batch for the whole run.
The others: each has its own published update, without clipping. Adam, RMSProp and SGD have a constant learning rate;
    SCGD and ASC-PG have the powers of t of their theorems. The paper does not give the rates. One rule chooses all of
    them: the best of GRID by the common estimate of neg_elbo, on one task of each kind and with a seed that no
    comparison uses (`benchmarks/paper_rates.py`; docs/paper.md has the scores). Images are searched with 300 of their
    18,000 steps; constant rates are at most 1e-3 there, because larger ones suit short runs only. Text has the rates
    of images.
mfvb, fullrank: no mixing and no inner samples; the scales of mean field depend on x in autoencoders.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from civi.errors import SettingError
from civi.experiment.recipes.own_papers import OWN_PAPERS, own_paper
from civi.family import Architecture
from civi.inference.nuts import Nuts
from civi.inference.settings import Settings
from civi.problem import ImageArchitecture, ProblemSettings, TextArchitecture
from civi.solver import SOLVERS, CompositionalSolver, Defaults, Method
from civi.tracker import Extrapolated, NoTracker, Pool
from civi.update import CiviAdam, FirstOrder, PerGroup, Samples, Update

GRID = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
RATES: dict[str, dict[str, float]] = {
    "toys": {
        "sivi": 1e-2,
        "uivi": 1e-2,
        "nmc-adam": 1e-2,
        "nmc-rmsprop": 1e-2,
        "nmc-sgd": 1e-1,
        "scgd": 1.0,
        "asc-pg": 1e-1,
        "mfvb": 1e-3,
        "fullrank": 1e-2,
    },
    "regressions": {
        "sivi": 1e-2,
        "uivi": 1e-2,
        "nmc-adam": 1e-2,
        "nmc-rmsprop": 1e-2,
        "nmc-sgd": 1e-2,
        "scgd": 1e-1,
        "asc-pg": 1e-1,
        "mfvb": 1e-1,
        "fullrank": 1e-1,
    },
    "autoencoders": {
        "sivi": 1e-3,
        "uivi": 1e-3,
        "nmc-adam": 1e-3,
        "nmc-rmsprop": 1e-3,
        "nmc-sgd": 1e-3,
        "scgd": 1e-2,
        "asc-pg": 1e-2,
        "mfvb": 1e-3,
        "fullrank": 1e-3,
    },
}
LITERAL = ("civi", "civi-paper")
OWN_CONSTANTS = (*LITERAL, "cadam")


class Column(NamedTuple):
    """A column of the tables of appendix B; `kind` is toys, regressions or autoencoders."""

    kind: str
    family: Architecture
    steps: int
    samples: Samples
    beta: float
    update: CiviAdam


def paper(task: str, solver: str) -> Settings | Nuts:
    """The settings of appendix B; for a method with a paper of its own, the settings of that paper."""
    if solver in OWN_PAPERS:
        return own_paper(task, solver)
    if task not in TABLE:
        raise SettingError(f"the paper has no settings for task '{task}': use --recipe default")
    column = TABLE[task]
    amortised = column.kind == "autoencoders"
    if solver == "nuts":
        if amortised:
            raise SettingError(f"nuts samples a single posterior, but {task} has one per datum: choose another solver")
        return Nuts()
    family, trainer = _method(column, solver)
    if amortised and solver == "mfvb":
        family = replace(family, conditional="scaled")
    if isinstance(trainer, CompositionalSolver):
        trainer = replace(trainer, pool=_pool(column, solver, trainer))
    problem = ProblemSettings(batch=column.samples.outer if amortised else None)
    return Settings(family, replace(trainer, update=_update(column, solver, trainer.update)), problem)


def _method(column: Column, solver: str) -> Method:
    """The solver with the column's family, steps and samples, and with its beta where the paper gives one."""
    name = "civi-paper" if solver in LITERAL else solver
    family, trainer = SOLVERS[name](column.family, Defaults(column.samples, FirstOrder()))
    inner = 1 if family.mixing == "constant" else column.samples.inner
    trainer = replace(trainer, steps=column.steps, samples=replace(column.samples, inner=inner))
    if solver in OWN_CONSTANTS:
        trainer = replace(trainer, tracker=Extrapolated(column.beta))
    return Method(family, trainer)


def _pool(column: Column, solver: str, trainer: CompositionalSolver) -> Pool:
    """On autoencoders, a batch and its noise form a chunk that tracked methods keep for 5 steps."""
    if column.kind == "autoencoders":
        return Pool() if isinstance(trainer.tracker, NoTracker) else Pool(switch_every=5)
    if solver in LITERAL:
        return Pool(size=100 * column.samples.outer, switch_every=5, draw="uniform")
    return trainer.pool


def _update(column: Column, solver: str, published: Update) -> Update:
    if not isinstance(published, FirstOrder):
        return column.update
    rate = RATES[column.kind].get(solver, published.learning_rate)
    chosen = replace(published, learning_rate=rate, clip=None)
    return chosen if chosen.decay == "power" else replace(chosen, decay="constant")


def _toy(*constants: Any) -> Column:
    return Column("toys", TOYS, *constants)


def _regression(noise_dim: int, *constants: Any) -> Column:
    family = replace(TOYS, hidden=(200, 200), noise_dim=noise_dim, conditional="cholesky")
    return Column("regressions", family, *constants)


def _two_groups(c_alpha: float, c_gamma: float, c_alpha_scale: float, c_gamma_scale: float) -> CiviAdam:
    """Separate constants for the mixing network (theta_1) and the scale of the conditional (theta_2)."""
    return CiviAdam(PerGroup.of(mixing=c_alpha, scale=c_alpha_scale), PerGroup.of(mixing=c_gamma, scale=c_gamma_scale))


TOYS = Architecture(
    hidden=(50, 50), activation="relu", noise_dim=3, noise_scale=1.0, conditional="diagonal", scale=1.0, spread=1.0
)
NODAL = _regression(3, 600, Samples(200, 2000), 0.99, _two_groups(1.7e-4, 0.75, 1.7e-4, 0.85))
NODAL_25 = NODAL._replace(family=replace(NODAL.family, scale=3.0))
IMAGES = Column(
    "autoencoders",
    ImageArchitecture(),
    18_000,
    Samples(300, 30),
    0.999,
    CiviAdam(PerGroup.of(mixing=1e-5, scale=1e-4, decoder=5e-4), c_gamma=0.2),
)
TEXT = Column(
    "autoencoders",
    TextArchitecture(),
    40_000,
    Samples(320, 100),
    0.99,
    CiviAdam(PerGroup.of(mixing=2e-4, scale=2e-4, decoder=5e-4), c_gamma=0.1),
)
TABLE: dict[str, Column] = {
    "two-modal": _toy(200, Samples(100, 1000), 0.99, CiviAdam(3e-4, 0.9)),
    "star": _toy(300, Samples(200, 2000), 0.999, CiviAdam(2e-4, 0.9)),
    "banana": _toy(300, Samples(200, 2000), 0.999, CiviAdam(3e-4, 1.0)),
    "spam": _regression(3, 600, Samples(50, 500), 0.999, _two_groups(1.5e-4, 0.7, 0.2, 0.6)),
    "nodal": NODAL,
    "nodal-25": NODAL_25,
    "waveform": _regression(10, 3000, Samples(100, 1000), 0.999, _two_groups(3e-4, 0.85, 2.5e-4, 0.85)),
    "mnist": IMAGES,
    "fashion-mnist": IMAGES,
    "ptb": TEXT,
}
