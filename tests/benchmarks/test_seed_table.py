"""The table of runs over seeds."""

import json

import pytest

from civi.errors import SettingError
from seeds import grouped, table


def folder(path, seed, loss, steps=100):
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"task": "mnist", "seed": seed, "settings": {"steps": steps}}))
    (path / "metrics.json").write_text(json.dumps({"neg_elbo": loss}))
    return path


def test_runs_that_differ_in_the_seed_alone_are_one_row(tmp_path):
    found = [folder(tmp_path / f"a-{seed}", seed, loss) for seed, loss in enumerate((1.0, 2.0, 6.0))]
    other = folder(tmp_path / "b-0", 0, 7.5, steps=200)
    lines = table(grouped([*found, other]), ["neg_elbo"]).splitlines()
    assert lines[0] == "| first run | seeds | steps | neg_elbo |"
    assert lines[2:] == ["| a-0 | 3 | 100 | 3.00 ± 2.65 |", "| b-0 | 1 | 200 | 7.50 |"]


def test_the_same_run_twice_is_refused(tmp_path):
    run = folder(tmp_path / "a-0", 0, 1.0)
    with pytest.raises(SettingError, match="give it once"):
        grouped([run, run])
