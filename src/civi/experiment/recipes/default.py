"""The default recipe: what measured best over all tasks, with no tuning per task.

tracker   bank of 8 steps: KL on the banana 0.006, where 100 fresh samples give 0.019 (docs/trackers.md)
family    scale depends on eps; many narrow conditionals spread wide at the start, so that no mode is lost
          regression: correlations in a frame besides, as the posterior has one mode and many dimensions
pilot     regression: Laplace, so that the scale of the data does not matter; not for mean field, whose independence
          would then hold in the pilot's coordinates and not in the user's
update    Adam 1e-2 with cosine decay to 0
autoencoders   noise enters at the last hidden layer, where a pair costs little and the mixing is used; scales that
          depend on x; no tracker, as keeping a batch for a few steps costs more than tracking it gains; Adam 1e-3
          images: small batches, Adam 2e-3 and a warm-up, without which now and then a dimension of z is given up in
          the first steps and never comes back; the encoder's weights decay, so that it does not memorise the training
          images, and the decoder's do not
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
from civi.solver import SOLVERS, Defaults
from civi.tracker import NoTracker
from civi.update import FirstOrder, PerGroup, Samples


class Autoencoding(NamedTuple):
    """What all solvers of an autoencoder share; `update` is that of the solvers that use Adam."""

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
REGRESSIONS = {"spam": 3, "nodal": 3, "nodal-25": 3, "waveform": 10, "regression": 10}


def default(task: str, solver: str) -> Settings | Nuts:
    """Ours: robust."""
    if task in AUTOENCODERS:
        return _autoencoder(task, solver)
    if solver == "nuts":
        return Nuts()
    if task not in REGRESSIONS:
        return Settings.of(SOLVERS[solver](Architecture()))
    method = SOLVERS[solver](Architecture.in_frame(REGRESSIONS[task]))
    return Settings.of(method) if solver == "mfvb" else Settings.of(method, pilot=Laplace())


def _autoencoder(task: str, solver: str) -> Settings:
    """The same sample sizes, steps and data for every solver; an explicit family needs no inner samples."""
    if solver == "nuts":
        raise SettingError(f"nuts samples one posterior, and {task} has one for every datum: choose another solver")
    ours = AUTOENCODERS[task]
    method = SOLVERS[solver](ours.family, Defaults(ours.samples, ours.update))
    explicit = method.family.mixing == "constant"
    family = replace(method.family, conditional="scaled") if solver == "mfvb" else method.family
    samples = replace(ours.samples, inner=1) if explicit else ours.samples
    chosen = replace(method.solver, steps=ours.steps, samples=samples)
    if solver == "civi":
        chosen = replace(chosen, tracker=NoTracker())
    return Settings(family, chosen, ours.problem)
