"""The recipe `paper` of methods with a paper of their own: its settings, on the tasks that it shares with ours.

bsivi, aisivi: the authors' files of settings. Their noise is uniform on the unit square, ours is Gaussian of the same
    dimension. The flow of aisivi is trained from the first step on, without 50 to 100 updates before it.
ksivi, sivi-sm: the authors' files of settings. They temper the target over the first half of the run on two-modal,
    which is not done here. On the networks they first fit weights to held-out rows, add -log p to the loss and average
    the iterates, which is not done here either.
divi: settings of a third party's rerun. Its variances are softplus functions of eps with a floor of 1e-4; here log
    scales change by at most 5 with eps, because runs diverge without a bound. It tempers the target over the first half
    of the run, which is not done here.
kpg: the family, batch and update of ksivi, which its paper compares it with.
pvi: 100 particles in R^2. The paper clips nothing and has a constant learning rate.
iwhvi: its paper has autoencoders that are not among our tasks.
"""

from __future__ import annotations

from dataclasses import replace

from civi.errors import SettingError
from civi.estimate.fresh import Fresh
from civi.estimate.kernel import Kernel
from civi.estimate.player import Training
from civi.estimate.proposal import Proposal, Reverse
from civi.estimate.regression import Regression
from civi.family import Architecture
from civi.inference.settings import Settings
from civi.objective import Fisher, KernelPath, KernelStein, PathGradient, Pathwise
from civi.problem import ProblemSettings
from civi.solver import PathwiseSolver
from civi.update import FirstOrder, Langevin, Samples, Update

REPORT = 20
TABLES = ("boston", "concrete", "power", "wine", "yacht", "protein")
STAIRS = FirstOrder(learning_rate=1e-3, decay="stairs", factor=0.9, stair=1000, beta2=0.99)
SMALL = Architecture(hidden=(50, 50), noise_dim=3, conditional="diagonal", scale=1.0, spread=1.0)
NARROW = Architecture(hidden=(128, 128), noise_dim=2, conditional="diagonal", scale=0.13, spread=1.0)
PARTICLES = replace(NARROW, mixing="particles", particles=100, scale=1.0)


def _settings(family: Architecture, steps: int, samples: Samples, objective: Pathwise, update: Update) -> Settings:
    return Settings(family, PathwiseSolver(steps, samples, objective, update))


def _tenth(learning_rate: float) -> FirstOrder:
    """A tenth of the learning rate after every 2,000 steps."""
    return FirstOrder(learning_rate=learning_rate, decay="stairs", factor=0.1, stair=2000)


def _bsivi(steps: int, inner: int, learning_rate: float) -> Settings:
    return _settings(NARROW, steps, Samples(128, inner), PathGradient(Fresh()), _tenth(learning_rate))


def _aisivi(inner: int, layers: int, learning_rate: float) -> Settings:
    proposal = Proposal(own=False, reverse=Reverse(layers, (64, 64)), training=Training(learning_rate=learning_rate))
    return _settings(NARROW, 4000, Samples(128, inner), PathGradient(proposal), _tenth(0.01))


def _batches_of_500(objective: Pathwise, scale: float = 1.0) -> Settings:
    return _settings(replace(SMALL, scale=scale), 50_000, Samples(500, REPORT), objective, STAIRS)


def _ksivi_on_diffusion() -> Settings:
    family = replace(SMALL, hidden=(128, 128), noise_dim=100, scale=0.37)
    update = FirstOrder(learning_rate=2e-4, decay="stairs", factor=0.9, stair=10_000, beta2=0.99)
    return _settings(family, 100_000, Samples(128, REPORT), KernelStein(), update)


def _ksivi_on_network() -> Settings:
    family = replace(SMALL, hidden=(10, 10), scale=0.018)
    update = FirstOrder(learning_rate=1e-3, decay="stairs", factor=0.9, stair=3000, clip=1.0)
    settings = _settings(family, 20_000, Samples(100, REPORT), KernelStein(), update)
    return replace(settings, problem=ProblemSettings(batch=100))


def _divi() -> Settings:
    score = Regression((128, 128), "silu", Training(updates=5, draws=2048, learning_rate=1e-3))
    update = FirstOrder(learning_rate=1e-3, decay="stairs", factor=0.7, stair=1000)
    family = replace(SMALL, conditional="bounded", activation="silu")
    return _settings(family, 10_000, Samples(128, REPORT), PathGradient(score), update)


def _pvi() -> Settings:
    update = Langevin(1e-2, 1e-8, 0.9, FirstOrder(learning_rate=1e-4, decay="constant"))
    return _settings(PARTICLES, 15_000, Samples(500, 100), PathGradient(Fresh(own=False)), update)


OWN_PAPERS: dict[str, dict[str, Settings]] = {
    "bsivi": {
        "two-modal": _bsivi(4000, 2048, 0.01),
        "star": _bsivi(4000, 4096, 0.01),
        "banana": _bsivi(1000, 1000, 0.003),
    },
    "aisivi": {"two-modal": _aisivi(512, 4, 0.01), "star": _aisivi(256, 4, 0.001), "banana": _aisivi(8192, 6, 0.01)},
    "iwhvi": {},
    "divi": {task: _divi() for task in ("two-modal", "star", "banana")},
    "kpg": {task: _batches_of_500(KernelPath()) for task in ("two-modal", "star", "banana")},
    "ksivi": {
        "two-modal": _batches_of_500(KernelStein(Kernel("imq", moving=False))),
        "star": _batches_of_500(KernelStein()),
        "banana": _batches_of_500(KernelStein(), scale=0.5),
        "diffusion": _ksivi_on_diffusion(),
        **{f"bnn-ksivi-{table}": _ksivi_on_network() for table in TABLES},
    },
    "sivi-sm": {task: _batches_of_500(Fisher()) for task in ("two-modal", "star", "banana")},
    "pvi": {task: _pvi() for task in ("two-modal", "star", "banana")},
}


def own_paper(task: str, solver: str) -> Settings:
    """The settings of the paper that introduced this solver."""
    if task not in OWN_PAPERS[solver]:
        raise SettingError(f"the paper of {solver} has no settings for task '{task}': use --recipe default")
    return OWN_PAPERS[solver][task]
