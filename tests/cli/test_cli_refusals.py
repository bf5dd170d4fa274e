"""Wrong options, settings and data: each is one line with exit code 2, and nothing is written."""

import json

import pytest

MODEL = """
import numpyro, numpyro.distributions as dist
def line(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(slope * x, 1), obs=y)
"""
DATA = {
    "twice.json": ('{"x": [1], "x": [2]}', "the name 'x' occurs more than once"),
    "none.json": ('{"x": []}', "x is empty: give at least one number"),
    "deep.json": ("[" * 100_000, "is nested too deeply"),
    "large.json": (json.dumps({"x": [10**30]}), "does not fit into 64 bits"),
    "mixed.json": ('{"x": [1, "a"]}', "x is not made of numbers"),
    "object.csv": ('{"x": [1, 2]}', "looks like JSON, not like CSV: name it .json, or convert it"),
    "array.csv": ("\ufeff [[1, 2], [3, 4]]", "looks like JSON, not like CSV"),
    "nul.csv": ("x\n1\n2\0\n", "is not a CSV file that can be read (it contains NUL bytes)"),
}


@pytest.fixture(autouse=True)
def in_a_folder_with_a_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "good.json").write_text('{"x": [1, 2]}')


@pytest.mark.parametrize("name", DATA)
def test_wrong_data_is_refused(failing, tmp_path, name):
    text, message = DATA[name]
    (tmp_path / name).write_text(text)
    assert message in failing("fit", "model.py:line", "--data", name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--seed 4294967296", "seed must be from 0 to 2147483647, not 4294967296"),
        ("--seed 99999999999999999999999", "seed must be from 0 to 2147483647, not 99999999999999999999999"),
        ("--seed x", "invalid value for '--seed': "),
        ("--steps 3000000000", "steps must be at most 2147483647, not '3000000000'"),
        ("--wait -1 --distributed", "--wait must be from 1 to 86400 seconds, not -1"),
        ("--wait 9", "need --distributed: add it"),
        ("--nothing", "no such option: --nothing: see `civi run --help`"),
        ("extra", "got unexpected extra argument"),
        ("--set samples.inner=99999999999999", "samples.inner must be at most 2147483647, not '99999999999999'"),
        ("--set samples.inner=2000000000", "numbers of samples must be at most 100000000, but one is 2000000000"),
        ("--set update.learning_rate=inf", "update.learning_rate must be finite, not 'inf'"),
        ("--set update.learning_rate=1e39", "update.learning_rate must be at most 3.40282e+38 in absolute value"),
        ("--set update.power=nan", "update.power must be finite, not 'nan'"),
        ("--set update.power=-1", "update.power must be in [0, 10], not -1.0"),
        ("--solver nuts --steps 0", "steps must be at least 1, not 0"),
        ("--set update.decay=nan", "update.decay must be one of cosine, hold, power, stairs, constant, not 'nan'"),
        ("--set family.hidden=", "family.hidden must be comma-separated whole numbers, not ''"),
        ("--set update.l2_decoder=1", "unknown setting 'update.l2_decoder': did you mean "),
        (
            "--set update.l2=mixing:1,decoder:1",
            "update.l2 has a value for 'decoder', but the parameter groups of this task are mixing, scale",
        ),
        ("--set problem.warm_up=5", "problem.warm_up is only for autoencoders: leave it at none"),
        ("--set problem.kl_weight=0.5", "problem.kl_weight is only for autoencoders: leave it at 1"),
        ("--set learning_rate=1", "unknown setting 'learning_rate': did you mean 'update.learning_rate'? known: "),
        ("--set tracker=none --set tracker.steps=3", "the chosen tracker has no settings: leave it out or choose"),
        ("--out EMPTY", "--out must not be empty: name a folder, or leave the option out"),
        (f"--out {'x' * 300}", "File name too long"),
    ],
)
def test_a_wrong_option_of_a_run_is_refused(failing, tmp_path, options, message):
    before = sorted(tmp_path.iterdir())
    words = ["" if word == "EMPTY" else word for word in options.split(" ")]
    assert message in failing("run", "star", *words)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--draws 9999999999999", "draws must be from 10 to 10000000, not 9999999999999"),
        ("--seed 4294967296", "seed must be from 0 to 2147483647, not 4294967296"),
        ("--seconds nan", "seconds must be positive and finite, not nan"),
        ("--solver nuts", "civi fit trains a family, but nuts draws Markov chains"),
        ("--out EMPTY", "--out must not be empty"),
    ],
)
def test_a_wrong_option_of_a_fit_is_refused(failing, tmp_path, options, message):
    words = ["" if word == "EMPTY" else word for word in options.split(" ")]
    assert message in failing("fit", "model.py:line", "--data", "good.json", *words)
    assert not (tmp_path / "runs").exists()
