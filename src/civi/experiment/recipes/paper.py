"""The paper's settings: exactly the tables of appendix B, for literal CI-VI without the own term.

The tables leave some settings open. We chose: a pool of 100 K1 samples, in chunks of K1 that are kept for 5 steps;
K3 = K2; no sketching; log scales that start at 0; the last iterate as the result.
"""

from __future__ import annotations

from dataclasses import replace

from civi.errors import SettingError
from civi.family import Architecture
from civi.inference.settings import Settings
from civi.problem import ImageArchitecture, ProblemSettings, TextArchitecture
from civi.solver import CompositionalSolver, LogTrick
from civi.tracker import Extrapolated, Pool
from civi.update import CiviAdam, PerGroup, Samples

TOYS = Architecture(
    hidden=(50, 50), activation="relu", noise_dim=3, noise_scale=1.0, conditional="diagonal", scale=1.0, spread=1.0
)


def paper(task: str, solver: str) -> Settings:
    """The settings of appendix B."""
    if solver != "civi":
        raise SettingError(f"the paper gives no settings for solver '{solver}': use --recipe default")
    if task not in TABLE:
        raise SettingError(f"the paper has no settings for task '{task}': use --recipe default")
    return TABLE[task]


def _solver(steps: int, samples: Samples, pool: Pool, beta: float, update: CiviAdam) -> CompositionalSolver:
    return CompositionalSolver(
        steps, samples, pool, tracker=Extrapolated(beta), objective=LogTrick("plain", "ratio"), update=update
    )


def _literal(architecture: Architecture, steps: int, samples: Samples, beta: float, update: CiviAdam) -> Settings:
    pool = Pool(size=100 * samples.outer, switch_every=5, draw="uniform")
    return Settings(architecture, _solver(steps, samples, pool, beta, update))


def _regression(noise_dim: int) -> Architecture:
    return replace(TOYS, hidden=(200, 200), noise_dim=noise_dim, noise_scale=10.0, conditional="cholesky")


def _autoencoder(family: Architecture, steps: int, samples: Samples, beta: float, update: CiviAdam) -> Settings:
    """A batch and its noise form a chunk that is kept for 5 steps; the data set takes the place of the pool."""
    solver = _solver(steps, samples, Pool(switch_every=5), beta, update)
    return Settings(family, solver, ProblemSettings(batch=samples.outer))


def _two_groups(c_alpha: float, c_gamma: float, c_alpha_scale: float, c_gamma_scale: float) -> CiviAdam:
    """Separate constants for the mixing network (theta_1) and the scale of the conditional (theta_2)."""
    return CiviAdam(PerGroup.of(mixing=c_alpha, scale=c_alpha_scale), PerGroup.of(mixing=c_gamma, scale=c_gamma_scale))


IMAGES = _autoencoder(
    ImageArchitecture(),
    18_000,
    Samples(300, 30),
    0.999,
    CiviAdam(PerGroup.of(mixing=1e-5, scale=1e-4, decoder=5e-4), c_gamma=0.2),
)
TEXT = _autoencoder(
    TextArchitecture(),
    40_000,
    Samples(320, 100),
    0.99,
    CiviAdam(PerGroup.of(mixing=2e-4, scale=2e-4, decoder=5e-4), c_gamma=0.1),
)
TABLE = {
    "two-modal": _literal(TOYS, 200, Samples(100, 1000), 0.99, CiviAdam(3e-4, 0.9)),
    "star": _literal(TOYS, 300, Samples(200, 2000), 0.999, CiviAdam(2e-4, 0.9)),
    "banana": _literal(TOYS, 300, Samples(200, 2000), 0.999, CiviAdam(3e-4, 1.0)),
    "spam": _literal(_regression(3), 600, Samples(50, 500), 0.999, _two_groups(1.5e-4, 0.7, 0.2, 0.6)),
    "nodal": _literal(_regression(3), 600, Samples(200, 2000), 0.99, _two_groups(1.7e-4, 0.75, 1.7e-4, 0.85)),
    "waveform": _literal(_regression(10), 3000, Samples(100, 1000), 0.999, _two_groups(3e-4, 0.85, 2.5e-4, 0.85)),
    "mnist": IMAGES,
    "fashion-mnist": IMAGES,
    "ptb": TEXT,
}
