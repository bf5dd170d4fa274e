"""Fingerprints of complete runs at fixed seeds, to verify that a refactoring has changed no number.

    python benchmarks/bits.py --out before.json            record
    python benchmarks/bits.py --against before.json        compare, and exit with 1 if anything differs

Every case runs public commands and reads the files that they write: the history, the metrics (without times), the draws
and the trained arrays of the last checkpoint. These arrays are compared as a set, so they may be renamed or reordered.
Compare with the same versions and number of cores: the order of summation in large matrix products depends on
the number of threads.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5netcdf
import numpy as np
import orbax.checkpoint as ocp

SOLVERS = [
    "civi",
    "civi-paper",
    "sivi",
    "uivi",
    "nmc-adam",
    "nmc-rmsprop",
    "nmc-sgd",
    "scgd",
    "asc-pg",
    "cadam",
    "mfvb",
    "fullrank",
    "nuts",
]
UNCOUNTED = re.compile(r"seconds|sha256|path|^out$|message")
SCHOOLS = """
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

SIGMA = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
Y = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])


def eight_schools():
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", 8):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu + tau * z, SIGMA), obs=Y)
"""


def digest(array: Any) -> str:
    """A short hash of the type, shape and bytes of an array."""
    values = np.ascontiguousarray(array)
    return hashlib.sha256(f"{values.dtype}{values.shape}".encode() + values.tobytes()).hexdigest()[:16]


def civi(*words: str) -> None:
    """Run the command line; its output is shown only if it fails."""
    done = subprocess.run([sys.executable, "-m", "civi.cli.main", *words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"civi {' '.join(words)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def fingerprint(folder: Path) -> dict[str, Any]:
    """Hashes of the files of a run, and the values of its metrics."""
    found: dict[str, Any] = {}
    if (folder / "history.csv").exists():
        rows = [line.split(",") for line in (folder / "history.csv").read_text().splitlines()]
        kept = [i for i, name in enumerate(rows[0]) if name != "seconds"]
        found |= {f"history.{rows[0][i]}": digest([row[i] for row in rows]) for i in kept}
    if (folder / "metrics.json").exists():
        metrics = json.loads((folder / "metrics.json").read_text())
        for finding in metrics.get("findings", []):
            finding.pop("sentence")
        found |= {f"metrics.{name}": value for name, value in metrics.items() if not UNCOUNTED.search(name)}
    if (folder / "draws.nc").exists():
        with h5netcdf.File(folder / "draws.nc") as file:
            for group in file.groups.values():
                found |= {f"draws.{group.name}.{name}": digest(value[...]) for name, value in group.variables.items()}
    if (folder / "checkpoints").exists():
        found["trained"] = _trained(folder / "checkpoints")
    return found


def _trained(folder: Path) -> list[str]:
    """Sorted hashes of all floating-point arrays of the state in the last checkpoint."""
    logging.getLogger("absl").setLevel(logging.CRITICAL)
    manager = ocp.CheckpointManager(folder.resolve())
    saved = manager.restore(manager.latest_step(), args=ocp.args.Composite(run=ocp.args.StandardRestore()))["run"]
    manager.close()
    return sorted(digest(value) for value in saved["state"].values() if np.asarray(value).dtype.kind == "f")


def run(*words: str) -> Callable[[Path], dict[str, Any]]:
    """A case that consists of one `civi run`."""

    def case(folder: Path) -> dict[str, Any]:
        civi("run", *words, "--out", str(folder / "run"))
        return fingerprint(folder / "run")

    return case


def resumed(folder: Path) -> dict[str, Any]:
    """A run of 400 steps whose checkpoints after step 200 are deleted, then resumed."""
    out = folder / "run"
    words = ("run", "star", "--steps", "400", "--checkpoint-every", "100", "--out", str(out))
    civi(*words)
    whole = fingerprint(out)
    for step in (out / "checkpoints").iterdir():
        if step.name.isdigit() and int(step.name) > 200:
            shutil.rmtree(step)
    civi(*words, "--resume")
    again = fingerprint(out)
    return again | {"same as without interruption": again == whole}


def fit(folder: Path) -> dict[str, Any]:
    """`civi fit` on eight schools, 2,000 steps."""
    (folder / "schools.py").write_text(SCHOOLS)
    model = f"{folder / 'schools.py'}:eight_schools"
    civi("fit", model, "--steps", "2000", "--seconds", "100000", "--out", str(folder / "run"))
    return fingerprint(folder / "run")


def compare(folder: Path) -> dict[str, Any]:
    """`civi compare` with three solvers and two seeds."""
    civi(
        "compare", "star", "--solvers", "civi,uivi,mfvb", "--seeds", "2", "--steps", "60", "--out", str(folder / "run")
    )
    content = json.loads((folder / "run" / "comparison.json").read_text())
    return {
        f"{solver['solver']}.{name}": json.dumps(value)
        for solver in content["solvers"]
        for name, value in {**solver, "curve": solver["curve"]["neg_elbo"]}.items()
        if name in ("measures", "curve", "diverged")
    }


def compositional(folder: Path) -> dict[str, Any]:
    """Every compositional method on both problems with known answers."""
    script = """
import json, sys
import jax, numpy as np
sys.path.insert(0, {here!r})
from bits import digest
from civi.compositional import minimise
from civi.compositional.problems import linear_design, portfolio
import jax.numpy as jnp
assets, design = portfolio(), linear_design(jax.random.key(5))
start = jnp.pi * 2 / 3 + jnp.array([-0.2, 0.2])
found = {{}}
for method in ("scgd", "asc-pg", "cadam", "civi", "nmc"):
    for name, problem, theta in (("portfolio", assets.problem, jnp.zeros(4)), ("design", design.problem, start)):
        result = minimise(problem, theta, jax.random.key(3), method, 200)
        found[f"{{method}}.{{name}}.theta"] = digest(result.theta)
        for column in ("objective", "gradient_norm", "oracle_calls"):
            found[f"{{method}}.{{name}}.{{column}}"] = digest(getattr(result.history, column))
        found[f"{{method}}.{{name}}.skipped"] = int(result.skipped)
print(json.dumps(found))
"""
    code = script.format(here=str(Path(__file__).parent))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


CASES: dict[str, Callable[[Path], dict[str, Any]]] = {
    **{
        f"star-{solver}": run("star", "--solver", solver, *([] if solver == "nuts" else ["--steps", "200"]))
        for solver in SOLVERS
    },
    "star-paper": run("star", "--recipe", "paper", "--steps", "100"),
    "star-sketch": run(
        "star", "--steps", "100", "--set", "sketch.form=dense", "--set", "sketch.size=16", "--set", "tracker=ring"
    ),
    "banana": run("banana"),
    "waveform": run("waveform"),
    "waveform-batch": run("waveform", "--steps", "100", "--set", "problem.batch=50"),
    "resumed": resumed,
    "fit": fit,
    "compare": compare,
    "compositional": compositional,
    "mnist": run("mnist", "--steps", "200"),
    "mnist-paper": run("mnist", "--recipe", "paper", "--steps", "20"),
    "ptb": run("ptb", "--steps", "20"),
}


def main() -> None:
    """Run the cases, and record or compare their fingerprints."""
    parser = argparse.ArgumentParser(description="Fingerprints of complete runs at fixed seeds.")
    parser.add_argument("--out", type=Path, help="file for the fingerprints")
    parser.add_argument("--against", type=Path, help="fingerprints to compare with")
    parser.add_argument("--only", help="names of cases, separated by commas; a name may end in *")
    options = parser.parse_args()
    before = json.loads(options.against.read_text()) if options.against else {}
    wanted = (options.only or "*").split(",")
    found: dict[str, Any] = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    different = 0
    for name, case in CASES.items():
        if not any(name == part or (part.endswith("*") and name.startswith(part[:-1])) for part in wanted):
            continue
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            try:
                found[name] = json.loads(json.dumps(case(Path(folder))))
            except RuntimeError as error:
                found[name] = {"failed": str(error)}
        changed = [key for key, value in before.get(name, found[name]).items() if found[name].get(key) != value]
        different += bool(changed)
        note = f"DIFFERS: {', '.join(changed)}" if changed else ("same" if name in before else "recorded")
        print(f"{name:<18} {time.perf_counter() - begun:6.1f} s  {len(found[name]):3d} entries  {note}", flush=True)
        if options.out:
            options.out.write_text(json.dumps(found, indent=1))
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    os.environ.setdefault("CIVI_CACHE_DIR", str(Path(tempfile.gettempdir()) / "civi-bits-cache"))
    main()
