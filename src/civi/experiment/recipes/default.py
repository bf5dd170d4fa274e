"""The default recipe: what measured best over all tasks, with no tuning per task.

tracker   bank of 8 steps: KL on the banana 0.006, where 100 fresh samples give 0.019 (docs/trackers.md)
family    scale depends on eps; many narrow conditionals spread wide at the start, so that no mode is lost
          regression: correlations in a frame besides, as the posterior has one mode and many dimensions
pilot     regression: Laplace, so that the scale of the data does not matter; not for mean field, whose independence
          would then hold in the pilot's coordinates and not in the user's
update    Adam 1e-2 with cosine decay to 0
autoencoders   noise beside the last hidden layer, where a pair costs little and the mixing is used; scales that depend
          on x; no tracker, as keeping a batch for a few steps costs more than tracking it gains; Adam 1e-3
          images: small batches, Adam 2e-3 and a warm-up, without which now and then a dimension of z is given up in
          the first steps and never comes back; the encoder's weights decay, so that it does not learn the training
          images by heart, and the decoder's do not
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from civi.errors import SettingError
from civi.family import Architecture
from civi.inference.pilot import Laplace
from civi.problem.architecture import ImageArchitecture, TextArchitecture
from civi.solver import SOLVERS, Settings
from civi.tracker import NoTracker
from civi.update import FirstOrder, Samples


class Autoencoding(NamedTuple):
    """What all solvers of an autoencoder have alike; learning rate and decay of the encoder where they use Adam."""

    family: Architecture
    steps: int
    samples: Samples
    learning_rate: float = 1e-3
    warm_up: int = 0
    encoder_l2: float = 0.0


IMAGES = Autoencoding(
    ImageArchitecture(noise_layer=2, conditional="scaled"),
    165_000,
    Samples(outer=100, inner=10, batch=100),
    learning_rate=2e-3,
    warm_up=1000,
    encoder_l2=0.1,
)
TEXT = Autoencoding(TextArchitecture(conditional="scaled"), 2000, Samples(outer=32, inner=100, batch=32))
AUTOENCODERS: dict[str, Autoencoding] = {
    "mnist": IMAGES,
    "mnist-dynamic": IMAGES,
    "fashion-mnist": IMAGES,
    "ptb": TEXT,
}
REGRESSIONS = {"spam": 3, "nodal": 3, "nodal-25": 3, "waveform": 10, "regression": 10}
EXPLICIT = ("mfvb", "nuts")


def default(task: str, solver: str) -> Settings:
    """Ours: robust."""
    if task in AUTOENCODERS:
        return _autoencoder(task, solver)
    if task not in REGRESSIONS:
        return SOLVERS[solver](Architecture())
    settings = SOLVERS[solver](Architecture.in_frame(REGRESSIONS[task]))
    return settings if solver in EXPLICIT else replace(settings, pilot=Laplace())


def _autoencoder(task: str, solver: str) -> Settings:
    """The same for every solver, as far as it has it; an explicit family needs no inner samples."""
    if solver == "nuts":
        raise SettingError(f"nuts samples one posterior, and {task} has one for every datum: choose another solver")
    ours = AUTOENCODERS[task]
    settings = SOLVERS[solver](ours.family)
    samples = replace(ours.samples, inner=1) if settings.family.mixing == "constant" else ours.samples
    method = replace(settings.solver, steps=ours.steps, samples=samples)
    if hasattr(method, "warm_up"):
        method = replace(method, warm_up=ours.warm_up)
    if solver == "civi":
        method = replace(method, tracker=NoTracker())
    if isinstance(method.update, FirstOrder) and method.update.rule == "adam":
        rate, decay = ours.learning_rate, ours.encoder_l2
        method = replace(method, update=replace(method.update, learning_rate=rate, l2=decay, l2_decoder=0.0))
    explicit = replace(settings.family, conditional="scaled") if solver == "mfvb" else settings.family
    return replace(settings, family=explicit, solver=method)
