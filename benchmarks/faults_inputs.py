"""Wrong inputs, for faults.py: each must end in one line with exit code 2, or a CiviError, within a few CPU seconds."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import jax.numpy as jnp
import numpy as np

import civi
from civi.cli.errors import exit_code_of
from civi.cli.main import app
from civi.errors import CiviError
from civi.experiment.recipes import settings_for

SECONDS = 5.0
WRONG = ("", "nan", "-inf", "x y", "99999999999999999999", "1e999")
MODEL = """
import numpyro, numpyro.distributions as dist
def line(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(slope * x, 1), obs=y)
NUMBER = 3
"""
DATA: dict[str, str | bytes] = {
    "empty.json": "",
    "half.json": '{"x": [1,',
    "list.json": "[1]",
    "number.json": "3",
    "twice.json": '{"x": [1], "x": [2]}',
    "deep.json": "[" * 100_000,
    "none.json": '{"x": []}',
    "null.json": '{"x": [1, null]}',
    "text.json": '{"x": ["a"]}',
    "mixed.json": '{"x": [1, "a"]}',
    "object.json": '{"x": {"a": 1}}',
    "ragged.json": '{"x": [[1], [1, 2]]}',
    "nan.json": '{"x": [NaN]}',
    "large.json": '{"x": [3000000000]}',
    "larger.json": '{"x": [99999999999999999999999999]}',
    "huge.json": '{"x": [1e39]}',
    "other.json": '{"z": [1]}',
    "more.json": '{"x": [1], "z": [1]}',
    "empty.csv": "",
    "header.csv": "x\n",
    "object.csv": '{"x": [1]}',
    "array.csv": "[[1, 2], [3, 4]]",
    "nul.csv": "x\n1\n2\0\n",
    "text.csv": "x\n1\na\n",
    "missing.csv": "x,y\n1,2\n,3\n",
    "ragged.csv": "x,y\n1,2\n1,2,3\n",
    "twice.csv": "x,x\n1,2\n",
    "unnamed.csv": "x,\n1,2\n",
    "large.csv": "x\n3000000000\n",
    "huge.csv": "x\n1e39\n",
    "infinite.csv": "x\ninf\n",
    "latin.csv": b"x\n\xe9\n",
    "data.txt": "1",
}
TABLES: dict[str, str | bytes] = {
    "one.csv": "y,a\n0,1\n",
    "label.csv": "y,a\n0,1\n0,2\n",
    "labels.csv": "y,a\n0,1\n1,2\n2,3\n",
    "alone.csv": "y\n0\n1\n",
    "constant.csv": "y,a\n0,1\n1,1\n",
    "semicolon.csv": "y;a\n0;1\n1;2\n",
    **{name: content for name, content in DATA.items() if name.endswith(".csv")},
}
OPTIONS = (
    *("run", "run banan", "run star extra", "run star --nothing", "run star --seed -1", "run star --seed 4294967296"),
    *("run star --seed 99999999999999999999", "run star --seed x", "run star --seed 1.5", "run star --steps 0"),
    *("run star --steps -5", "run star --steps 3000000000", "run star --steps 1e3", "run star --steps x"),
    *(
        "run star --solver cvii",
        "run star --recipe papre",
        "run star --solver iwhvi --recipe paper",
        "run star --resume",
    ),
    *("run star --force --resume", "run star --checkpoint-every 0", "run star --checkpoint-every -1"),
    *("run star --wait -1", "run star --wait 10", "run star --distributed --wait -1", "run star --processes 2"),
    *("run star --distributed --wait 0", "run star --distributed --coordinator x --processes 2 --process 0"),
    *("run star --distributed --coordinator localhost:1 --processes 2", "run star --inner-devices 2"),
    *("run star --distributed --coordinator localhost:99999 --processes 2 --process 0", "run star --whole-data"),
    *("run star --distributed --coordinator localhost:1 --processes 2 --process 2", "run star --coordinator a:1"),
    *("run star --data x.csv", "run star --target y", "run star --hold-out 0.5", "run regression"),
    *("run regression --data absent.csv --target y", "run regression --data good.csv", "run mnist --solver nuts"),
    *("run regression --data good.csv --target z", "run regression --data good.csv --target y --hold-out 1"),
    *("run regression --data good.csv --target y --hold-out -0.1", "run regression --data . --target y"),
    *("run star --stream", "run regression --data good.csv --target z --stream", "run regression --stream"),
    *("run regression --data model.py --target y --stream", "run regression --data absent --target y --stream"),
    *("run regression --data good.csv --target y --hold-out nan", "run star --set", "run star --set samples"),
    *("run star --set =3", "run star --set samples=3", "run star --set samples.=3", "run star --set nothing=1"),
    *(
        "run star --set update.l2=mixing:1,decoder:1",
        "run star --set update.l2_decoder=1",
        "run star --set update.l2=a",
    ),
    *("run star --set problem.warm_up=5", "run star --set problem.batch=5", "run star --set family.latent_dim=3"),
    *("run star --set tracker=nothing", "run star --set tracker=none --set tracker.steps=3", "run star --set pool=3"),
    *("run star --set samples.inner=99999999999999", "run star --set samples.inner=2000000000"),
    *("run star --set update.learning_rate=1e39", "run star --set update.power=-1", "run star --set family.hidden=0"),
    *("run mnist --set problem.batch=none", "run mnist --set pilot=laplace", "run star --solver nuts --set chains=1"),
    *(
        "run star --out good.csv",
        "run star --out good.csv/below",
        f"run star --out {'x' * 300}",
        "run star --out EMPTY",
    ),
    *("compare star --solvers ,", "compare star --solvers civi,civi", "compare star --solvers civi,sivy"),
    *("compare star --seeds 0", "compare star --seeds -1", "compare star --seeds 99999999999", "compare star --resume"),
    *("compare star --force --resume", "compare banan", "compare star --out EMPTY", "compare mnist --solvers nuts"),
    *(
        "compare star --solvers civi,iwhvi --recipe paper",
        "compare regression",
        "compare star --set nothing=1",
        "compare star --steps 0",
    ),
    *("bench nothing", "data", "data fetch", "data fetch nothing", "data path nothing", "data nothing", "nothing"),
    *("fit", "fit model.py", "fit :line", "fit model.py:", "fit absent.py:line", "fit model.py:lien"),
    *(
        "fit model.py:NUMBER",
        "fit model.py:line",
        "fit model.py:line --data absent.json",
        "fit model.py:line --seed -1",
    ),
    *("fit model.py:line --data good.json --draws 9", "fit model.py:line --data good.json --draws 9999999999999"),
    *("fit model.py:line --data good.json --seed 4294967296", "fit model.py:line --data good.json --seconds 0"),
    *("fit model.py:line --data good.json --seconds -1", "fit model.py:line --data good.json --seconds nan"),
    *("fit model.py:line --data good.json --seconds inf", "fit model.py:line --data good.json --steps 0"),
    *("fit model.py:line --data good.json --steps 1.5", "fit model.py:line --data good.json --solver nuts"),
    *("fit model.py:line --data good.json --solver civvi", "fit model.py:line --data good.json --out EMPTY"),
    *("fit model.py:line --data good.json --out good.csv", f"fit model.py:line --data good.json --out {'x' * 300}"),
)


def commands() -> Iterator[list[str]]:
    """The arguments of wrong commands."""
    for options in OPTIONS:
        yield ["" if word == "EMPTY" else word for word in options.split()]
    for name in DATA:
        yield ["fit", "model.py:line", "--data", name]
    for name in TABLES:
        yield ["run", "regression", "--data", f"tables/{name}", "--target", "y"]
        yield ["run", "regression", "--data", f"tables/{name}", "--target", "y", "--stream"]
    for task in ("star", "mnist"):
        for row in settings_for(task, "civi", "default").listing():
            for value in WRONG:
                yield ["run", task, "--force", "--set", f"{row.name}={value}"]


def calls() -> Iterator[Callable[[], Any]]:
    """Wrong calls of Python's functions that are refused before anything is computed."""

    def fitted(**options: Any) -> Callable[[], Any]:
        return lambda: civi.fit(lambda z: -(z**2).sum(), **({"dim": 2, "key": 0, "progress": False} | options))

    for key in (None, -1, 2**31, 1.5, "0", True, [0], jnp.zeros(3), np.zeros(2)):
        yield fitted(key=key)
    for name in ("dim", "steps", "runs"):
        for value in (0, -1, 1.5, "3", 2**31, True, np.zeros(1)):
            yield fitted(**{name: value})
    for seconds in (0, -1, float("nan"), "60"):
        yield fitted(seconds=seconds)
    yield fitted(solver="civvi")
    for path in ("absent.civi", ".", "good.json", "good.csv"):
        yield partial(civi.load, path)


def bad_inputs(folder: Path, count: int) -> Iterator[str]:
    """Try wrong commands and calls; each outcome is empty, or says what broke."""
    place = folder / "inputs"
    (place / "tables").mkdir(parents=True, exist_ok=True)
    files: dict[str, str | bytes] = {
        "model.py": MODEL,
        "good.json": '{"x": [1, 2], "y": [1, 2]}',
        "good.csv": "y,a\n0,1\n1,2\n0,3\n1,5\n",
    }
    files |= DATA | {f"tables/{name}": content for name, content in TABLES.items()}
    for name, content in files.items():
        (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    before = sorted(path.name for path in place.iterdir())
    with contextlib.chdir(place), nothing_trains():
        tries = [*(partial(_command, words) for words in commands()), *(partial(_call, call) for call in calls())]
        for attempt in tries[:count]:
            yield attempt()
    left = [path for path in os.listdir(place) if path not in (*before, "__pycache__")]
    yield f"files were written: {left}" if left else ""


class Accepted(BaseException):
    """A wrong input was accepted, and training would begin."""


@contextlib.contextmanager
def nothing_trains() -> Iterator[None]:
    """Raise `Accepted` where training would begin."""

    def accepted(*_: Any, **__: Any) -> None:
        raise Accepted

    with (
        mock.patch("civi.experiment.run.runner_of", accepted),
        mock.patch("civi.experiment.compare.runner_of", accepted),
        mock.patch("civi.inference.fit.train_runs", accepted),
    ):
        yield


def _command(words: list[str]) -> str:
    output, errors, begun = io.StringIO(), io.StringIO(), time.process_time()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            code = exit_code_of(lambda: app(words, standalone_mode=False))
    except BaseException as error:
        return f"{' '.join(words)[:200]}: {type(error).__name__}: {str(error)[:200]}"
    lines = errors.getvalue().splitlines()
    good = code == 2 and ((len(lines) == 1 and lines[0].startswith("civi: error: ")) or words in (["data"], []))
    slow = time.process_time() - begun > SECONDS
    return "" if good and not slow else f"{' '.join(words)[:200]}: code {code}, slow {slow}, {lines[-3:]}"


def _call(call: Callable[[], Any]) -> str:
    begun = time.process_time()
    try:
        call()
    except CiviError as error:
        slow = time.process_time() - begun > SECONDS
        return "" if "\n" not in str(error) and not slow else f"slow or more than one line: {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "accepted"
