"""The default recipe: the settings that performed best over all tasks, without tuning for single tasks.

Toys: 6,000 steps in which the inner samples grow from 50 to 400, the theorem's growing K in three stages.
Tracker: a bank of 8 steps. With 3,000 steps of 100 inner samples it reaches KL 0.006 on the banana,
    against 0.019 without it (docs/trackers.md).
Family: the scale depends on eps. Training starts with many narrow conditionals far apart, so that no mode is lost.
    A table of your own also has correlations, in a frame, because its posterior has one mode and many dimensions.
Ring of eight modes: a wider network, which separates the modes, and a wider start, which reaches all of them.
Diffusion and regressions: the settings of civi.fit, whose trained frame serves correlated and skewed coordinates. In a
    regression a draw costs little and the noise of the gradient comes from the draws, so there are more of them and
    fewer inner samples. DIVI and SIVI-SM diverge in a trained frame and have the fixed frame of Laplace. So has PVI,
    whose particles cannot be in a trained frame.
Bayesian neural networks: hundreds of weights, so a pair must cost little: diagonal scales that do not depend on eps, a
    small network, and no tracker. The own term dominates the inner mean in so many dimensions. The scale starts at
    exp(-8 / 2), as in KSIVI, so that training first finds weights that fit. With the output layer integrated out, a
    step sees all rows, so fewer steps and fewer draws are enough.
Pilot: Laplace for tables of your own, so that the scale of the data does not matter. Mean field has no pilot: its
    coordinates would be independent in the frame of the pilot instead of the user's coordinates.
Update: Adam with learning rate 1e-2 and cosine decay to 0. DIVI, KPG, KSIVI and SIVI-SM have 2e-3 and clipping: their
    second player or kernel follows q too slowly for 1e-2, and they diverge or vary between seeds on the banana.
Autoencoders: the noise enters at the last hidden layer, where a pair costs little and the mixing is used. The scales
    depend on x. There is no tracker: keeping a batch for several steps costs more than tracking gains.
    Images use small batches, Adam 2e-3 and a warm-up. Without warm-up, a dimension of z occasionally collapses in the
    first steps and never recovers. Weight decay on the encoder, but not on the decoder, prevents the encoder from
    memorising the training images. Smooth activations (silu) make both networks better than relu.
    Text uses Adam 4e-3. So that its LSTM decoder does not learn to ignore z, the encoder pools the hidden states of all
    words by their maximum and starts with little noise, z enters the logits of the words as well as the gates, and the
    KL term has weight 0.25 after a warm-up. Measures always have weight 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from civi.errors import SettingError, require
from civi.family import Architecture
from civi.inference.nuts import Nuts
from civi.inference.pilot import Laplace
from civi.inference.recipe import NOT_IN_A_FRAME, fit_settings
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
    ImageArchitecture(noise_layer=2, conditional="scaled", activation="silu"),
    137_000,
    Samples(outer=100, inner=10),
    ProblemSettings(batch=100, warm_up=1000),
    FirstOrder(learning_rate=2e-3, l2=PerGroup.of(mixing=0.1, scale=0.1, decoder=0.0)),
)
TEXT = Autoencoding(
    TextArchitecture(conditional="scaled", scale=0.1, noise_gain=0.3, pooling="max", latent_input="both"),
    1500,
    Samples(outer=32, inner=100),
    ProblemSettings(batch=32, warm_up=500, kl_weight=0.25),
    FirstOrder(learning_rate=4e-3),
)
AUTOENCODERS: dict[str, Autoencoding] = {
    "mnist": IMAGES,
    "mnist-dynamic": IMAGES,
    "fashion-mnist": IMAGES,
    "ptb": TEXT,
}
SLOW = dict.fromkeys(("divi", "kpg", "ksivi", "sivi-sm"), FirstOrder(learning_rate=2e-3, clip=10.0))
TOY_STEPS, TOY_SAMPLES = 6000, Samples(stages=(50, 100, 400))
RING = Architecture(hidden=(100, 100), scale=1.0, spread=4.0)
REGRESSIONS = {"spam": 3, "nodal": 6, "nodal-25": 6, "waveform": 22}
REGRESSION_STEPS, REGRESSION_SAMPLES = 3000, Samples(outer=300, inner=60)
DIFFUSIONS = {"diffusion": 100}
LAPLACE_NOISE = {"waveform": 10, "regression": 10}
FIXED_FRAME = (*NOT_IN_A_FRAME, "divi", "sivi-sm")
NETWORK = Architecture(hidden=(10, 10), conditional="diagonal", scale=0.018, spread=0.3)
NETWORK_STEPS, NETWORK_SAMPLES, NETWORK_RATE = 40_000, Samples(outer=16, inner=50), 1e-2
MARGINAL_STEPS = {
    **dict.fromkeys(("bnn-boston", "bnn-concrete", "bnn-wine", "bnn-yacht"), 3000),
    **dict.fromkeys(("bnn-power", "bnn-protein"), 1000),
}
MARGINAL_SAMPLES, MARGINAL_RATE = Samples(outer=4, inner=50), 2e-2
SLOW_TO_SAMPLE = ("bnn-power", "bnn-protein", "bnn-ksivi-protein", "bnn-pvi-protein")


def default(task: str, solver: str) -> Settings | Nuts:
    """The default settings of a solver on a task."""
    if task in AUTOENCODERS:
        return _autoencoder(task, solver)
    if task.startswith("bnn-"):
        return _network(task, solver)
    if solver == "nuts":
        return Nuts()
    if task in DIFFUSIONS and solver not in FIXED_FRAME:
        return fit_settings(solver, DIFFUSIONS[task])
    if task in REGRESSIONS and solver not in FIXED_FRAME:
        return _regression(task, solver)
    if task not in REGRESSIONS and task not in DIFFUSIONS and task != "regression":
        return _toy(task, solver)
    defaults = Defaults(update=SLOW.get(solver, FirstOrder()))
    method = SOLVERS[solver](Architecture.in_frame(LAPLACE_NOISE.get(task, 3)), defaults)
    return Settings.of(method) if solver == "mfvb" else Settings.of(method, pilot=Laplace())


def _regression(task: str, solver: str) -> Settings:
    """Use the trained frame of civi.fit and the same samples and steps for every solver."""
    found = fit_settings(solver, REGRESSIONS[task])
    samples = replace(found.solver.samples, outer=REGRESSION_SAMPLES.outer)
    if found.family.mixing != "constant":
        samples = replace(samples, inner=REGRESSION_SAMPLES.inner)
    return replace(found, solver=replace(found.solver, steps=REGRESSION_STEPS, samples=samples))


def _toy(task: str, solver: str) -> Settings:
    """Use the same steps and growing inner samples for every solver."""
    family, update = RING if task == "eight-gaussians" else Architecture(), SLOW.get(solver, FirstOrder())
    method = SOLVERS[solver](family, Defaults(TOY_SAMPLES, update))
    return Settings(method.family, replace(method.solver, steps=TOY_STEPS))


def _network(task: str, solver: str) -> Settings | Nuts:
    """Use the same sample sizes, steps and batches for every solver."""
    if solver == "nuts":
        quick = task not in SLOW_TO_SAMPLE
        require(quick, f"nuts would take hours on {task}: choose another solver or a smaller table")
        return Nuts(warmup=500, draws=500, depth=8)
    marginal = task in MARGINAL_STEPS
    samples, rate = (MARGINAL_SAMPLES, MARGINAL_RATE) if marginal else (NETWORK_SAMPLES, NETWORK_RATE)
    method = SOLVERS[solver](NETWORK, Defaults(samples, FirstOrder(learning_rate=rate)))
    if method.family.mixing != "network":  # one Gaussian, or all particles
        samples = replace(samples, inner=method.solver.samples.inner)
    chosen = replace(method.solver, steps=MARGINAL_STEPS.get(task, NETWORK_STEPS), samples=samples)
    if solver == "civi":
        chosen = replace(chosen, tracker=NoTracker())
    if marginal:
        return Settings(method.family, chosen)
    return Settings(method.family, _with_batches(chosen), ProblemSettings(batch=100))


def _autoencoder(task: str, solver: str) -> Settings:
    """Use the same sample sizes, steps and batches for every solver; an explicit family needs no inner samples."""
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
    return Settings(family, _with_batches(chosen), ours.problem)


def _with_batches(solver: Any) -> Any:
    """The solver with a pool that changes.

    A chunk has its own batch, so C-ADAM's fixed pool, which would train on a single batch, is replaced by chunks that
    are kept for 5 steps.
    """
    if isinstance(solver, CompositionalSolver) and solver.pool.switch_every is None:
        return replace(solver, pool=Pool(switch_every=5))
    return solver
