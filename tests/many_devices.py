"""Runs in separate processes for test_distributed.py: tasks without metrics, and a process that is killed.

python many_devices.py run ARGUMENTS      `civi run ARGUMENTS`. If UNDISTURBED is set, the same run goes to that folder
                                          first; if DIE_AT is set, SIGKILL then ends the second run at that step
python many_devices.py four FOLDER        four virtual devices: the banana on two by two, images on four by one
"""

import json
import os
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

import civi.experiment.run
from civi.experiment.context import RunContext
from civi.experiment.data.images import ImageData
from civi.experiment.plan import Plan
from civi.experiment.tasks import TASKS
from civi.parallel.mesh import make_mesh, place
from civi.parallel.team import SINGLE_PROCESS, Address, Team, join_team
from civi.parts import split
from civi.problem import make_problem
from civi.progress import TrainingBar
from civi.solver.loop import run_block, start
from small_tasks import ImagesOnly, Ready, ToyOnly

STEPS, EVERY, ROWS = 200, 50, 30
TOY = ("samples.outer=8", "samples.inner=6", "tracker.steps=2", "family.hidden=4")
IMAGES = (
    *(
        "samples.outer=8",
        "problem.batch=8",
        "samples.inner=4",
        "tracker=bank",
        "tracker.steps=2",
        "pool.switch_every=2",
    ),
    *("family.hidden=6,5", "family.decoder_hidden=5", "family.latent_dim=2", "family.noise_dim=2"),
)


def without_measures() -> None:
    """Replace tasks by versions without metrics; the number of images is not divisible by the number of devices."""
    bits = np.random.default_rng(0).integers(0, 2, (ROWS, 12)).astype(np.uint8)
    few = ImageData(bits, bits[:2], grey=False, source="a few bits")
    TASKS["banana"], TASKS["mnist"] = Ready(ToyOnly("banana")), Ready(ImagesOnly("mnist", load=lambda: few))
    civi.experiment.run.draw_history = lambda *_: None


def plan(task: str, seed: int = 0, *changes: str) -> Plan:
    return Plan.make(task, "civi", "default", seed, STEPS, [*(TOY if task == "banana" else IMAGES), *changes])


def fit(chosen: Plan, folder: Path, team: Team = SINGLE_PROCESS) -> None:
    context = RunContext(folder, Console(quiet=True), checkpoint_every=EVERY, team=team)
    civi.experiment.run.run(chosen, context)


def on_four_devices(folder: Path) -> None:
    """Do both runs, and record facts about the compiled program of the second."""
    with join_team(Address(), inner=2) as team:
        fit(plan("banana"), folder / "two-by-two", team)
    images, mesh = plan("mnist"), make_mesh()
    fit(images, folder / "images", Team(mesh))
    settings, source = images.settings, images.source()
    problem = place(make_problem(settings.family, source, jax.random.key(0), settings.problem), mesh, rows=True)
    with jax.set_mesh(mesh):
        state = start(settings.solver, problem, jax.random.key(1))
        lowered = eqx.filter_jit(run_block).lower(settings.solver, split(problem)[1], state, jnp.asarray(1))
        program = lowered.compile().compiled.as_text()
    reduced = re.findall(r"(\S+) all-reduce\(|\((.*)\) all-reduce\(", program)
    pixels = problem.data.pixels
    facts = {
        "all-reduced": ["".join(each) for each in reduced],
        "program": sorted(set(re.findall(r"f32\[\d+,12\]", program))),
        "part": pixels.sharding.shard_shape(pixels.shape),
        "replicated": all(leaf.is_fully_replicated for leaf in jax.tree.leaves(state)),
    }
    (folder / "facts.json").write_text(json.dumps(facts))


def undisturbed_first(folder: Path) -> None:
    """Let `civi run` do its run twice with one compiled program: to this folder, then as asked."""
    run, leave = civi.experiment.run.run, Team.leave

    def run_twice(chosen: Plan, context: RunContext) -> None:
        Team.leave = lambda self: None  # the second run needs the other process
        run(chosen, replace(context, folder=folder, console=Console(quiet=True)))
        Team.leave = leave
        if "DIE_AT" in os.environ:
            TrainingBar.update = die
        run(chosen, context)

    civi.experiment.run.run = run_twice


def die(self: TrainingBar, done: int, neg_elbo: float) -> None:
    if done >= int(os.environ["DIE_AT"]):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    without_measures()
    if "UNDISTURBED" in os.environ:
        undisturbed_first(Path(os.environ["UNDISTURBED"]))
    if sys.argv[1] == "four":
        on_four_devices(Path(sys.argv[2]))
    else:
        from civi.cli.main import main

        main()
