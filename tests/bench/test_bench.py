"""What the benchmark compares is the same thing computed in two ways; how long it takes is not tested."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from civi.bench import command, growth, literal, vae_step
from civi.bench.timing import Timed, in_turns
from civi.estimate import log_ratios
from civi.family import Architecture
from civi.problem.architecture import ImageArchitecture
from civi.problem.autoencoder import Autoencoder, Images
from civi.problem.target.toy import banana
from civi.solver import Model
from civi.solver.base import split

SMALL = ImageArchitecture(hidden=(6, 5), decoder_hidden=(5,), latent_dim=2, noise_dim=2)


def model_and_batch(kind):
    """A family with one posterior, or an autoencoder."""
    if kind == "banana":
        return Model.make(Architecture(hidden=(4,)), banana(), jax.random.key(1)), 0
    bits = jax.random.bernoulli(jax.random.key(0), 0.3, (20, 12)).astype(jnp.uint8)
    return Model.make(SMALL, Autoencoder(Images(bits)), jax.random.key(1)), 4


@pytest.mark.parametrize("kind", ["banana", "images"])
def test_the_literal_version_has_the_log_ratios_of_the_library(kind):
    model, batch = model_and_batch(kind)
    written, keys = literal._literal(), jax.random.split(jax.random.key(2), 3)
    outer, sizes = model.family.draw_outer(keys[0], 4), written.Sizes(4, 7, batch)
    unsplit = Model(vae_step.joined(model.family), model.target) if batch else model
    got = written._log_g(*split(unsplit), outer, sizes, keys[1], keys[2])
    family, target = model.on_batch(keys[1], batch)
    expected = log_ratios(family, target, outer, family.noise.sample(keys[2], 7), jnp.asarray(7)).fresh_J
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    other = log_ratios(family, target, outer, family.noise.sample(keys[0], 7), jnp.asarray(7)).fresh_J
    assert not np.allclose(got, other, rtol=1e-4, atol=1e-4)


def test_the_literal_version_lowers_its_objective():
    model, _ = model_and_batch("banana")
    values = literal._literal().run(model, literal._literal().Sizes(32, 20, 0), 300)
    assert np.mean(values[-50:]) < np.mean(values[:50])


def test_programs_take_turns_and_are_warmed_up():
    called, told = [], []
    timed = in_turns({name: lambda name=name: called.append(name) for name in "ab"}, 2, told.append, "x ")
    assert called == ["a", "b", "a", "b", "a", "b"]
    assert told[:2] == ["x a", "x b"]
    assert all(value.low <= value.median <= value.high for value in timed.values())


def test_the_exponent_is_that_of_the_larger_sizes(monkeypatch):
    """A cost of 3 size^2 beside a constant that hides it at small sizes."""
    monkeypatch.setattr(growth, "SWEEPS", {"size": ((1, 10, 1000, 10_000), lambda size: size)})
    seconds = {str(size): 500.0 + 3 * size**2 for size in (1, 10, 1000, 10_000)}
    timed = {size: Timed(value, value, value) for size, value in seconds.items()}
    monkeypatch.setattr(growth, "in_turns", lambda *_: timed)
    monkeypatch.setattr(growth, "_whole_fits", lambda seeds, _: float(seeds))
    found = growth.measure(False, lambda _: None)
    assert found["rows"][0]["exponent"] == pytest.approx(2, abs=1e-3)
    assert growth.table(found).caption.endswith("ratio 32.0")


def test_figures_are_written_part_by_part(monkeypatch, tmp_path):
    class Part:
        def measure(self, quick, advance):
            advance("half way")
            return {"rows": [], "quick": quick}

        def table(self, found):
            return f"{found}"

    monkeypatch.setattr(command, "PARTS", {"one": Part(), "two": Part()})
    found = command.bench("all", Console(quiet=True), quick=True, out=tmp_path / "figures.json")
    assert list(found) == ["machine", "quick", "one", "two"]
    assert (tmp_path / "figures.json").exists()


def test_an_unknown_part_is_refused(failing):
    assert failing("bench", "step").startswith("unknown part of the benchmark 'step'")
