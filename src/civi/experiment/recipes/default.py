"""The default recipe: the settings that performed best over all tasks, without tuning for single tasks.

Toys: 6,000 steps in which the inner samples grow from 50 to 400, the theorem's growing K in three stages.
Tracker: a bank of 8 steps. With 3,000 steps of 100 inner samples it reaches KL 0.006 on the banana,
    against 0.019 without it (docs/trackers.md).
Family: the scale depends on eps. Training starts with many narrow conditionals far apart, so that no mode is lost.
    Regressions also have correlations, in a frame, because their posterior has one mode and many dimensions.
Pilot: Laplace for regressions, so that the scale of the data does not matter. Mean field has no pilot: its coordinates
    would be independent in the frame of the pilot instead of the user's coordinates.
Update: Adam with learning rate 1e-2 and cosine decay to 0. DIVI has 2e-3 and clipping: its network must follow q, and
    with 1e-2 it diverges on the banana.
Autoencoders: the noise enters at the last hidden layer, where a pair costs little and the mixing is used. The scales
    depend on x. There is no tracker: keeping a batch for several steps costs more than tracking gains. Adam 1e-3.
    Images use small batches, Adam 2e-3 and a warm-up. Without warm-up, a dimension of z occasionally collapses in the
    first steps and never recovers. Weight decay on the encoder, but not on the decoder, prevents the encoder from
    memorising the training images.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from civi.errors import SettingError
from civi.family import Architecture
from civi.inference.nuts import Nuts
from civi.inference.pilot import Laplace
from civi.inference.settings import Settings
from civi.problem import ImageArchitecture, ProblemSettings, TextArchitecture
from civi.solver import SOLVERS, CompositionalSolver, Defaults
from civi.tracker import NoTracker, Pool
from civi.update import FirstOrder, PerGroup, Samples


class Autoencoding(NamedTuple):
    """The settings that all solvers share on an autoencoder; `update` applies to the solvers that use Adam."""

    family: Architecture
    steps: int
    samples: Samples
    problem: ProblemSettings
    update: FirstOrder


IMAGES = Autoencoding(
    ImageArchitecture(noise_layer=2, conditional="scaled"),
    165_000,
    Samples(outer=100, inner=10),
    ProblemSettings(batch=100, warm_up=1000),
    FirstOrder(learning_rate=2e-3, l2=PerGroup.of(mixing=0.1, scale=0.1, decoder=0.0)),
)
TEXT = Autoencoding(
    TextArchitecture(conditional="scaled"),
    2000,
    Samples(outer=32, inner=100),
    ProblemSettings(batch=32),
    FirstOrder(learning_rate=1e-3),
)
AUTOENCODERS: dict[str, Autoencoding] = {
    "mnist": IMAGES,
    "mnist-dynamic": IMAGES,
    "fashion-mnist": IMAGES,
    "ptb": TEXT,
}
SLOW: dict[str, FirstOrder] = {"divi": FirstOrder(learning_rate=2e-3, clip=10.0)}
TOY_STEPS, TOY_SAMPLES = 6000, Samples(stages=(50, 100, 400))
REGRESSIONS = {"spam": 3, "nodal": 3, "nodal-25": 3, "waveform": 10, "regression": 10}


def default(task: str, solver: str) -> Settings | Nuts:
    """The default settings of a solver on a task."""
    if task in AUTOENCODERS:
        return _autoencoder(task, solver)
    if solver == "nuts":
        return Nuts()
    if task not in REGRESSIONS:
        return _toy(solver)
    defaults = Defaults(update=SLOW.get(solver, FirstOrder()))
    method = SOLVERS[solver](Architecture.in_frame(REGRESSIONS[task]), defaults)
    return Settings.of(method) if solver == "mfvb" else Settings.of(method, pilot=Laplace())


def _toy(solver: str) -> Settings:
    """Use the same steps and growing inner samples for every solver."""
    method = SOLVERS[solver](Architecture(), Defaults(TOY_SAMPLES, SLOW.get(solver, FirstOrder())))
    return Settings(method.family, replace(method.solver, steps=TOY_STEPS))


def _autoencoder(task: str, solver: str) -> Settings:
    """Use the same sample sizes, steps and batches for every solver; an explicit family needs no inner samples.

    A chunk has its own batch, so C-ADAM's fixed pool, which would train on a single batch, is replaced by chunks that
    are kept for 5 steps.
    """
    if solver == "nuts":
        raise SettingError(f"nuts samples a single posterior, but {task} has one per datum: choose another solver")
    ours = AUTOENCODERS[task]
    method = SOLVERS[solver](ours.family, Defaults(ours.samples, ours.update))
    explicit = method.family.mixing == "constant"
    family = replace(method.family, conditional="scaled") if solver == "mfvb" else method.family
    samples = replace(ours.samples, inner=1) if explicit else ours.samples
    chosen = replace(method.solver, steps=ours.steps, samples=samples)
    if solver == "civi":
        chosen = replace(chosen, tracker=NoTracker())
    if isinstance(chosen, CompositionalSolver) and chosen.pool.switch_every is None:
        chosen = replace(chosen, pool=Pool(switch_every=5))
    return Settings(family, chosen, ours.problem)
