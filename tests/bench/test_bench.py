"""The two sides that the benchmark compares compute the same thing; their speed is not tested."""

import json
import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from civi.bench import command, growth, literal_version, vae_step
from civi.bench.joined import unsplit
from civi.bench.timing import Timed, clocked, in_turns
from civi.estimate import log_ratios
from civi.family import Architecture
from civi.problem import ImageArchitecture, ProblemSettings, make_problem
from civi.problem.images import Images
from civi.problem.target.toy import banana
from civi.tracker import Extrapolated, NoTracker
from civi.update import CiviAdam

SMALL = ImageArchitecture(hidden=(6, 5), decoder_hidden=(5,), latent_dim=2, noise_dim=2)


def problem_of(kind):
    """A single posterior, or an autoencoder with batches of four images."""
    if kind == "banana":
        return make_problem(Architecture(hidden=(4,)), banana(), jax.random.key(1))
    bits = jax.random.bernoulli(jax.random.key(0), 0.3, (20, 12)).astype(jnp.uint8)
    return make_problem(SMALL, Images(bits), jax.random.key(1), ProblemSettings(batch=4))


@pytest.mark.parametrize("kind", ["banana", "images"])
def test_the_literal_version_has_the_log_ratios_of_the_library(kind):
    problem, keys = problem_of(kind), jax.random.split(jax.random.key(2), 3)
    outer = problem.draw_outer(keys[0], 4)
    written = unsplit(problem) if kind == "images" else problem
    got = literal_version.log_g(written, outer, 7, keys[1], keys[2])
    family, log_prob_each = problem.on_batch(keys[1])
    expected = log_ratios(family, log_prob_each, outer, family.noise.sample(keys[2], 7), jnp.asarray(7)).fresh_J
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    other = log_ratios(family, log_prob_each, outer, family.noise.sample(keys[0], 7), jnp.asarray(7)).fresh_J
    assert not np.allclose(got, other, rtol=1e-4, atol=1e-4)


def test_only_an_encoder_with_noise_can_be_unsplit():
    constant = replace(SMALL, mixing="constant")
    problem = make_problem(constant, problem_of("images").data, jax.random.key(1), ProblemSettings(batch=4))
    with pytest.raises(TypeError, match="only an image encoder with noise has a split first layer"):
        unsplit(problem)


def test_the_literal_version_lowers_its_objective():
    values = literal_version.run(problem_of("banana"), literal_version.Sizes(32, 20), 300)
    assert np.mean(values[-50:]) < np.mean(values[:50])


def test_the_time_of_the_paper_stands_beside_the_method_of_the_paper():
    assert set(vae_step.PAPER) < set(vae_step.SOLVERS)
    assert "civi" not in vae_step.PAPER
    tracked, untracked = (vae_step._on_paper(name).solver for name in ("civi-paper", "civi"))
    assert (type(tracked.tracker), type(tracked.update)) == (Extrapolated, CiviAdam)
    assert type(untracked.tracker) is NoTracker
    assert tracked.samples == untracked.samples


def test_a_clock_gives_the_result_and_counts_waiting_only_by_the_clock():
    result, seconds, cpu_seconds = clocked(lambda: time.sleep(0.05) or "done")
    assert result == "done"
    assert seconds >= 0.05 > cpu_seconds


def test_programs_take_turns_and_are_warmed_up():
    called, told = [], []
    timed = in_turns({name: lambda name=name: called.append(name) for name in "ab"}, 2, told.append, "x ")
    assert called == ["a", "b", "a", "b", "a", "b"]
    assert told[:2] == ["x a", "x b"]
    assert all(value.low <= value.median <= value.high for value in timed.values())


def test_the_exponent_is_that_of_the_larger_sizes(monkeypatch):
    """A cost of 3 size^2 plus a constant that dominates at small sizes."""
    monkeypatch.setattr(growth, "SWEEPS", {"size": ((1, 10, 1000, 10_000), lambda size: size)})
    seconds = {str(size): 500.0 + 3 * size**2 for size in (1, 10, 1000, 10_000)}
    timed = {size: Timed(value, value, value) for size, value in seconds.items()}
    monkeypatch.setattr(growth, "in_turns", lambda *_: timed)
    monkeypatch.setattr(growth, "_whole_fits", lambda seeds, _: float(seeds))
    found = growth.measure(False, lambda _: None)
    assert found["rows"][0]["exponent"] == pytest.approx(2, abs=1e-3)
    assert growth.table(found).caption.endswith("ratio 32.0")


class Part:
    """A part that reads the content of the file when it starts, or fails."""

    def __init__(self, file, fails=False):
        self.file, self.fails, self.before = file, fails, None

    def measure(self, quick, advance):
        self.before = json.loads(self.file.read_text()) if self.file.exists() else None
        if self.fails:
            raise RuntimeError("out of memory")
        return {"seconds": 2.0, "quick": quick}

    def table(self, found):
        return f"took {found['seconds']} s"


def test_figures_of_finished_parts_are_in_the_file_when_a_later_part_fails(monkeypatch, tmp_path):
    file = tmp_path / "figures.json"
    parts = {"one": Part(file), "long": Part(file), "two": Part(file, fails=True)}
    monkeypatch.setattr(command, "PARTS", parts)
    monkeypatch.setattr(command, "QUICK", ("one", "two"))
    with pytest.raises(RuntimeError, match="out of memory"):
        command.bench("all", Console(quiet=True), quick=True, out=file)
    assert parts["one"].before is None
    written = json.loads(file.read_text())
    assert written == parts["two"].before
    assert list(written) == ["machine", "quick", "one"]
    assert written["one"] == {"seconds": 2.0, "quick": True}


def test_one_part_runs_alone_and_shows_its_table(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command, "PARTS", {"one": Part(tmp_path / "none"), "two": Part(tmp_path / "none")})
    found = command.bench("two", Console(), quick=False, out=None)
    assert list(found) == ["machine", "quick", "two"]
    assert "took 2.0 s" in capsys.readouterr().out


def test_an_unknown_part_is_refused(failing):
    assert failing("bench", "step").startswith("unknown part of the benchmark 'step'")
