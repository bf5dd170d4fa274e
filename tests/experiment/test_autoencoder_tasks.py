"""Autoencoder tasks: `civi run` and `civi compare` on a few images and sentences, and both recipes."""

import importlib
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from matplotlib.image import imread
from typer.testing import CliRunner

import civi
import civi.experiment.run
from civi.cli import main as cli
from civi.errors import SettingError, TargetError
from civi.experiment.data import text as texts
from civi.experiment.plan import Plan
from civi.experiment.recipes import settings_for
from civi.experiment.tasks import TASKS, find_task
from civi.experiment.tasks.images import _some
from civi.inference.pilot import NoPilot
from civi.inference.posterior import AmortisedPosterior
from civi.problem import ImageArchitecture, ProblemSettings, TextArchitecture
from civi.solver import SOLVERS, LogTrick
from civi.tracker import Extrapolated
from civi.update import CiviAdam, PerGroup
from civi.update.groups import value_for
from saved_runs import arrays
from small_tasks import WORDS, ImagesOnly, Ready, few_images, few_sentences

diagnosed = importlib.import_module("civi.inference.diagnose.autoencoder")
STEPS = 7
TINY = ("samples.outer=4", "problem.batch=4", "samples.inner=3", "family.hidden=5,5", "family.latent_dim=2")
OF_IMAGES = (
    *TINY,
    "family.decoder_hidden=5",
    "family.noise_dim=2",
    "tracker=bank",
    "tracker.steps=2",
    "pool.switch_every=3",
)
OF_TEXT = (*TINY, "family.embedding=4", "family.recurrent=3", "tracker=none", "family.word_dropout=0.2")
OFTEN = ("--checkpoint-every", "2")
KILLED = """
import os, signal
import jax
from civi.cli.main import main
from civi.experiment.tasks import TASKS
from civi.progress import TrainingBar
from small_tasks import ImagesOnly, Ready, few_images

def die(bar, done, neg_elbo):
    if done >= 5:
        os.kill(os.getpid(), signal.SIGKILL)

jax.config.update("jax_disable_most_optimizations", True)
TASKS["mnist"], TrainingBar.update = Ready(ImagesOnly("mnist", load=few_images)), die
main()
"""

FEWER = {"test_draws": 20, "shown_draws": 50}
OF_CURVES = {"quick_images": 8, "quick_draws": 20, "curve_images": 8, "curve_draws": 10}
SMALL = {
    "mnist": replace(find_task("mnist"), load=few_images, **FEWER, **OF_CURVES),
    "mnist-dynamic": replace(find_task("mnist-dynamic"), load=lambda: few_images(grey=True), **FEWER, **OF_CURVES),
    "ptb": replace(find_task("ptb"), load=few_sentences, together=20, curve_sentences=8, shown_draws=50),
}


@pytest.fixture(scope="module", autouse=True)
def small_tasks():
    """Use data that need no files, fewer draws for the measures, and more than one block of test images."""
    with pytest.MonkeyPatch.context() as patch:
        for name, task in SMALL.items():
            patch.setitem(TASKS, name, Ready(task))
        patch.setattr(diagnosed, "BLOCK", 2)
        yield


def command(task: str, folder: Path, settings, *options: str) -> list[str]:
    chosen = [part for setting in settings for part in ("--set", setting)]
    return ["run", task, *chosen, "--steps", str(STEPS), "--out", str(folder), *options]


def invoke(arguments: list[str]):
    return CliRunner().invoke(cli.app, arguments, catch_exceptions=False)


def read(path: Path) -> dict:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in {path}")

    return json.loads(path.read_text(), parse_constant=refuse)


@pytest.fixture(scope="module", autouse=True)
def victim(tmp_path_factory):
    """A run in a separate process that kills itself at step 5 or 6; it starts first, to compile concurrently."""
    folder = tmp_path_factory.mktemp("killed") / "run"
    arguments = [sys.executable, "-c", KILLED, *command("mnist", folder, OF_IMAGES, *OFTEN)]
    helpers = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    outputs = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(arguments, env={**os.environ, "PYTHONPATH": helpers}, **outputs) as child:
        yield child, folder
        child.kill()


@pytest.fixture(scope="module")
def mnist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mnist") / "run"
    result = invoke(command("mnist", folder, OF_IMAGES))
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture(scope="module")
def ptb(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ptb") / "run"
    result = invoke(command("ptb", folder, OF_TEXT))
    assert result.exit_code == 0, result.output
    return folder


def draws(folder: Path) -> np.ndarray:
    with xarray.open_datatree(folder / "draws.nc", engine="h5netcdf") as data:
        return data["posterior"]["z"].to_numpy()


def test_a_run_leaves_the_files_of_the_contract(mnist):
    names = {"config.json", "metrics.json", "history.csv", "draws.nc", "posterior.civi", "figures", "checkpoints"}
    names |= {"report.civi", "report.html"}
    assert {path.name for path in mnist.iterdir()} == names
    figures = {"history.png", "reconstructions.png", "prior.png", "walk.png", "latents.png"}
    assert {path.name for path in (mnist / "figures").iterdir()} == figures
    for name in figures:
        image = imread(mnist / "figures" / name)[..., :3]
        assert 0.01 < (image.min(axis=2) < 0.9).mean() < 0.95


def test_metrics_of_images(mnist):
    metrics = read(mnist / "metrics.json")
    names = {"task": "mnist", "solver": "civi", "steps": STEPS, "status": "finished", "data": "a few dots"}
    assert {name: metrics[name] for name in names} == names
    assert (metrics["test_images"], metrics["test_draws"], metrics["skipped_steps"]) == (20, 20, 0)
    assert metrics["neg_elbo"] > metrics["test_neg_log_lik"] > 300
    assert 0 < metrics["test_neg_log_lik_se"] < metrics["test_neg_log_lik"]
    assert 0 < metrics["neg_elbo_se"] < metrics["neg_elbo"]
    assert 0 < metrics["mixing_share"] < 1


def test_draws_are_of_the_posterior_of_every_image_that_is_shown(mnist):
    assert draws(mnist).shape == (1, 50, 16, 2)
    spread, between = draws(mnist)[0].std(0), draws(mnist)[0].mean(0).std(0)
    assert spread.min() > 0.1
    assert between.min() > 0.01


def loaded_and_shown(folder: Path, shown) -> tuple[AmortisedPosterior, np.ndarray]:
    """The posterior of a run, and its draws of z for the shown data with the run's own key."""
    loaded, task = civi.load(folder / "posterior.civi"), read(folder / "config.json")["task"]
    assert type(loaded) is AmortisedPosterior
    key = Plan.make(task, "civi", "default", 0, None, []).keys(0)[3]
    return loaded, diagnosed.latents(loaded.family, shown, key, 50)


def test_the_posterior_file_of_images_draws_the_draws_of_the_run_bit_for_bit(mnist):
    loaded, z = loaded_and_shown(mnist, jnp.asarray(_some(few_images().test, 16), float))
    np.testing.assert_array_equal(z, draws(mnist))
    assert (loaded.dim, loaded.message, len(loaded.history["step"])) == (2, f"finished {STEPS} steps", STEPS)
    probability = np.asarray(loaded.decoder.mean(jnp.asarray(z[0, 0])))
    assert probability.shape == (16, 784)
    assert (probability > 0).all()
    assert (probability < 1).all()
    with pytest.raises(TargetError, match=r"one posterior per data point\): call given\(x\) with your data first"):
        loaded.sample(jax.random.key(0), 5)


def test_the_posterior_file_of_sentences_draws_the_draws_of_the_run_bit_for_bit(ptb):
    _, z = loaded_and_shown(ptb, SMALL["ptb"]._some(16))
    np.testing.assert_array_equal(z, draws(ptb))


def test_images_that_are_shown_are_a_fixed_random_part():
    test = few_images().test
    some = _some(test, 16)
    np.testing.assert_array_equal(some, _some(test, 20)[:16])
    assert not np.array_equal(some, test[:16])
    assert len({row.tobytes() for row in _some(test, 20)}) == 20


def test_grey_test_images_are_binarised_once_and_always_alike():
    task = SMALL["mnist-dynamic"]
    bits, grey = task._test_bits(), task.load().test
    np.testing.assert_array_equal(bits, task._test_bits())
    assert set(np.unique(bits)) == {0, 1}
    assert not bits[grey == 0].any()
    share, count = bits[grey == 200].mean(), (grey == 200).sum()
    p = 200 / 255
    assert abs(share - p) < 4.5 * np.sqrt(p * (1 - p) / count)
    assert task.source().grey


def test_a_run_of_sentences(ptb):
    figures = {"history.png", "latents.png", "sentences.json"}
    assert {path.name for path in (ptb / "figures").iterdir()} == figures
    metrics, test = read(ptb / "metrics.json"), few_sentences().test
    assert (metrics["test_sentences"], metrics["data"], metrics["status"]) == (18, "a few words", "finished")
    per_word = metrics["test_neg_log_lik"] * 18 / test.lengths.sum()
    assert metrics["test_perplexity"] == pytest.approx(np.exp(per_word), rel=1e-4)
    assert metrics["unigram_perplexity"] == pytest.approx(texts.unigram_perplexity(few_sentences()))
    assert metrics["neg_elbo"] > metrics["test_neg_log_lik"]
    assert 2 < metrics["test_perplexity"] < 20
    assert metrics["rate"] > 0
    assert 0 <= metrics["active_units"] <= 2
    assert draws(ptb).shape == (1, 50, 16, 2)
    assert read(ptb / "config.json")["settings"]["family"]["word_dropout"] == 0.2


def test_sentences_that_are_shown_come_with_what_was_made_of_them(ptb):
    found, shown = read(ptb / "figures" / "sentences.json"), SMALL["ptb"]._some(16)
    assert np.all(np.diff(shown.length) >= 0)
    originals = [texts.decode(row, WORDS) for row in shown.words]
    assert [row[0] for row in found["reconstructions"]] == originals
    decoder, z = civi.load(ptb / "posterior.civi").decoder, draws(ptb)[0]
    for k in range(3):
        made = np.asarray(decoder.most_likely(jnp.asarray(z[k]), 30, never=(6,)))
        assert [row[1 + k] for row in found["reconstructions"]] == [texts.decode(row, WORDS) for row in made]
    pairs = [(row[0], row[-1]) for row in found["interpolations"]]
    assert pairs == list(zip(originals[:4], originals[12:], strict=True))
    middle = np.asarray(decoder.most_likely(jnp.asarray((z[0, :4] + z[0, 12:]) / 2), 30, never=(6,)))
    assert [row[3] for row in found["interpolations"]] == [texts.decode(row, WORDS) for row in middle]
    assert originals[0] in (ptb / "report.html").read_text()


@pytest.mark.parametrize("task", ["mnist", "ptb"])
def test_nuts_is_refused(task, failing, tmp_path):
    message = failing("run", task, "--solver", "nuts", "--out", str(tmp_path / "run"))
    assert message == f"nuts samples a single posterior, but {task} has one per datum: choose another solver"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("problem.batch=none", r"an autoencoder needs a batch of data in each step: set problem.batch"),
        ("problem.batch=0", r"problem.batch must be at least 1, or none, not 0"),
        (
            "samples.outer=3",
            r"outer samples for every data point: samples.outer \(3\) must be problem.batch \(4\) or",
        ),
        ("problem.batch=13", r"problem.batch \(13\) is larger than the data \(12 rows\)"),
        ("family.noise_layer=3", r"family.noise_layer must be 1 to 2, not 3"),
        ("pool.renew=0.5", r"problem.batch keeps a batch of data .* set pool.renew to 1"),
        ("pilot=laplace", r"an autoencoder has one per data point: set pilot=none"),
    ],
)
def test_settings_that_cannot_work_end_in_one_line(setting, message, failing, tmp_path):
    line = failing(*command("mnist", tmp_path / "run", (*OF_IMAGES, setting)))
    assert re.search(message, line)
    assert not (tmp_path / "run").exists()


def test_a_comparison(tmp_path):
    chosen = [setting for setting in OF_IMAGES if "tracker" not in setting] + ["tracker=none"]
    settings = [part for setting in chosen for part in ("--set", setting)]
    options = ["--solvers", "civi,nmc-adam", "--seeds", "1", "--steps", "2", "--out", str(tmp_path / "out")]
    result = invoke(["compare", "mnist", *options, *settings])
    assert result.exit_code == 0, result.output
    content = read(tmp_path / "out" / "comparison.json")
    assert content["rank_by"] == "test_neg_log_lik"
    assert {row["solver"] for row in content["solvers"]} == {"civi", "nmc-adam"}
    measured = [row["measures"][0] for row in content["solvers"]]
    assert measured[0]["test_neg_log_lik"] <= measured[1]["test_neg_log_lik"]
    assert [(one["test_images"], one["test_draws"]) for one in measured] == [(8, 20)] * 2
    curves = {row["solver"]: row["curve"] for row in content["solvers"]}
    assert curves["civi"]["step"] == [0, 1, 2]
    assert curves["civi"]["neg_elbo"][0] == curves["nmc-adam"]["neg_elbo"][0]
    assert curves["civi"]["neg_elbo"][2] != curves["nmc-adam"]["neg_elbo"][2]


def test_a_run_killed_while_a_batch_is_kept_goes_on_to_the_same_bits(mnist, victim, monkeypatch):
    """Chunks are kept for three steps, so a checkpoint at step 5 or 6 has a partly used bank, batch and chunk."""
    child, folder = victim
    errors = child.communicate(timeout=300)[1]
    assert child.returncode == -signal.SIGKILL, errors
    steps = {path.name for path in (folder / "checkpoints").iterdir()}
    assert steps
    assert str(STEPS) not in steps
    monkeypatch.setitem(TASKS, "mnist", Ready(ImagesOnly("mnist", load=few_images)))
    monkeypatch.setattr(civi.experiment.run, "draw_history", lambda *_: None)
    assert invoke([*command("mnist", folder, OF_IMAGES, *OFTEN), "--resume", "--no-report"]).exit_code == 0
    expected, got = arrays(mnist, STEPS), arrays(folder, STEPS)
    assert expected.keys() == got.keys()
    assert [name for name in expected if expected[name].tobytes() != got[name].tobytes()] == []


# Table "Experimental settings for variational autoencoder": iterations, K1, K2, C_alpha, C_beta, C_gamma, mu.
# The constants are those of the encoder (theta_1), its scale (theta_2) and the decoder.
PAPER = {
    "mnist": (18_000, 300, 30, (1e-5, 1e-4, 5e-4), 0.999, (0.2, 0.2, 0.2), 0.999),
    "fashion-mnist": (18_000, 300, 30, (1e-5, 1e-4, 5e-4), 0.999, (0.2, 0.2, 0.2), 0.999),
    "ptb": (40_000, 320, 100, (2e-4, 2e-4, 5e-4), 0.99, (0.1, 0.1, 0.1), 0.999),
}


@pytest.mark.parametrize("task", PAPER)
def test_paper_has_the_constants_of_its_table(task):
    settings = settings_for(task, "civi", "paper")
    steps, outer, inner, c_alpha, c_beta, c_gamma, mu = PAPER[task]
    solver, update = settings.solver, settings.solver.update
    assert (solver.steps, solver.samples.outer, solver.samples.inner) == (steps, outer, inner)
    assert (settings.problem, solver.samples.growth) == (ProblemSettings(batch=outer, warm_up=None), 0.0)
    assert solver.tracker == Extrapolated(beta=c_beta, decay=0.0)
    assert type(update) is CiviAdam
    groups = ("mixing", "scale", "decoder")
    assert tuple(value_for(update.c_alpha, group) for group in groups) == c_alpha
    assert tuple(value_for(update.c_gamma, group) for group in groups) == c_gamma
    assert (update.mu, update.clip) == (mu, None)
    assert (solver.objective, solver.output) == (LogTrick(inner_mean="plain", weigh="ratio"), "last")
    assert settings.pilot == NoPilot()


@pytest.mark.parametrize("task", PAPER)
def test_paper_has_the_family_of_its_table(task):
    family = settings_for(task, "civi", "paper").family
    assert (family.noise_dim, family.noise_scale, family.conditional) == (10, 1.0, "diagonal")
    assert (family.activation, family.mixing) == ("relu", "network")
    if task == "ptb":
        assert type(family) is TextArchitecture
        assert (family.embedding, family.recurrent, family.hidden) == (256, 256, (256,))
        assert (family.latent_dim, family.word_dropout) == (20, 0.0)
    else:
        assert type(family) is ImageArchitecture
        assert (family.hidden, family.decoder_hidden) == ((200, 200), (200, 200))
        assert (family.latent_dim, family.noise_layer) == (10, 1)


@pytest.mark.parametrize("task", ["mnist", "mnist-dynamic", "fashion-mnist", "ptb"])
def test_default_gives_all_solvers_the_same_batches(task):
    with pytest.raises(SettingError, match="nuts samples a single posterior"):
        settings_for(task, "nuts", "default")
    with pytest.raises(SettingError, match=r"family\.mixing=particles is for a single posterior"):
        settings_for(task, "pvi", "default")
    every = {name: settings_for(task, name, "default") for name in SOLVERS if name != "pvi"}
    batches = {(one.solver.steps, one.solver.samples.outer, one.problem) for one in every.values()}
    assert len(batches) == 1
    ((_, outer, problem),) = batches
    assert outer == problem.batch
    explicit = {name for name, one in every.items() if one.family.mixing == "constant"}
    assert explicit == {"mfvb", "fullrank"}
    assert {every[name].solver.samples.inner for name in explicit} == {1}
    assert len({one.solver.samples.inner for name, one in every.items() if name not in explicit}) == 1
    adam = [one.solver.update for one in every.values() if getattr(one.solver.update, "rule", "") == "adam"]
    assert len(adam) > 4
    decay = (4e-3, 0.0) if task == "ptb" else (2e-3, PerGroup.of(mixing=0.1, scale=0.1, decoder=0.0))
    assert {(update.learning_rate, update.l2) for update in adam} == {decay}


def test_the_paper_has_no_settings_for_dynamic_binarisation():
    with pytest.raises(SettingError, match="the paper has no settings for task 'mnist-dynamic': use --recipe default"):
        settings_for("mnist-dynamic", "civi", "paper")
