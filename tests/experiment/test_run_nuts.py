"""`civi run --solver nuts`: chains instead of training, the usual files, and a posterior that can be loaded."""

import json

import jax
import numpy as np
import pytest
import xarray
from typer.testing import CliRunner

import civi
from civi.cli.main import app
from civi.errors import TargetError
from civi.experiment.plan import Plan
from civi.experiment.report.comparison import outcome_of
from civi.experiment.runners import runner_of
from civi.experiment.tasks import TASKS
from civi.inference.nuts import Nuts
from civi.inference.posterior import SampledPosterior
from small_tasks import Ready, small_toy

SETTINGS = ["chains=2", "warmup=100", "draws=150"]
OPTIONS = [word for setting in SETTINGS for word in ("--set", setting)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of the star with an empty cache."""
    out = tmp_path_factory.mktemp("nuts") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CIVI_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setitem(TASKS, "star", Ready(small_toy("star")))
        command = ["run", "star", "--solver", "nuts", "--out", str(out), *OPTIONS]
        result = CliRunner().invoke(app, command, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert result.output.splitlines()[-1].startswith(f"2 chains of 150 draws; files are in {out}")
        yield out


def metrics(folder):
    return json.loads((folder / "metrics.json").read_text())


def test_the_folder_holds_the_files_of_a_run_without_training(folder):
    assert {path.name for path in folder.iterdir()} == {
        *("config.json", "metrics.json", "draws.nc", "posterior.civi", "figures", "report.civi", "report.html")
    }
    assert {path.name for path in (folder / "figures").iterdir()} == {"density.png"}
    config = json.loads((folder / "config.json").read_text())
    assert config["settings"] == {"chains": 2, "warmup": 100, "draws": 150, "accept": 0.9, "depth": 10}


def test_the_posterior_file_has_the_chains_of_the_run(folder):
    with xarray.open_datatree(folder / "draws.nc", engine="h5netcdf") as data:
        draws = data["posterior"]["z"].to_numpy()
    loaded = civi.load(folder / "posterior.civi")
    assert type(loaded) is SampledPosterior
    assert draws.shape == (2, 150, 2)
    np.testing.assert_array_equal(loaded.reference.draws, draws)
    assert loaded.sample(jax.random.key(0), 10).shape == (10, 2)
    assert loaded.message == "2 chains of 150 draws"
    with pytest.raises(TargetError, match="which have no density"):
        loaded.elbo(jax.random.key(0))


def test_metrics_have_the_quality_of_the_chains_in_place_of_a_density(folder):
    found, loaded = metrics(folder), civi.load(folder / "posterior.civi")
    assert (found["status"], found["steps"], found["neg_elbo"], found["neg_elbo_se"]) == ("finished", 250, None, None)
    assert "kl" not in found
    assert {name: found[name] for name in ("r_hat", "effective_size", "divergences")} == loaded.chain_measures()
    assert 0.9 < found["r_hat"] < 1.5
    assert 0 < found["sliced_wasserstein_floor"] < 0.3
    assert found["sliced_wasserstein"] < 1


def test_the_diagnosis_of_the_run_is_the_one_of_its_chains(folder):
    loaded = civi.load(folder / "posterior.civi")
    values = {finding.name: finding.value for finding in loaded.diagnose(jax.random.key(0)).findings}
    assert values == {name: float(value) for name, value in loaded.chain_measures().items()}


def test_a_comparison_takes_the_cached_chains_and_measures_them_alike(folder, monkeypatch):
    def never(*_):
        raise AssertionError("NUTS ran again")

    monkeypatch.setattr(Nuts, "sample", never)
    plan = Plan.make("star", "nuts", "default", 0, None, SETTINGS)
    outcome = runner_of(plan).run_seeds(plan, [0], lambda step: None)
    found = metrics(folder)
    assert outcome.measures[0] == {name: found[name] for name in outcome.measures[0]}
    assert outcome.curve.step == []
    assert outcome.diverged == [None]
    said = f"R-hat at most {found['r_hat']:.3f}, effective size at least {found['effective_size']:.0f}"
    assert outcome_of(outcome) == said
    with pytest.raises(AssertionError, match="NUTS ran again"):
        runner_of(plan).run_seeds(plan, [1], lambda step: None)
