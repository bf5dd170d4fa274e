"""Mean and standard deviation over seeds of finished runs.

    python benchmarks/seeds.py RUN [RUN ...] [--draws 200] [--measures neg_elbo,test_neg_log_lik,mixing_share]

RUN is the folder of a `civi run`. Runs whose settings differ in the seed alone are one row. With --draws, autoencoders
are evaluated anew on all test data with so many draws each, which needs only posterior.civi.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from civi import load
from civi.errors import require
from civi.experiment.tasks import find_task

SHOWN = "neg_elbo,test_neg_log_lik,mixing_share"


class Row(NamedTuple):
    """Runs that differ in the seed alone: the name of the first folder, their steps, and the measures of each seed."""

    name: str
    steps: int
    measures: dict[int, dict[str, Any]]


def grouped(folders: Sequence[Path], draws: int | None = None) -> list[Row]:
    """The rows, in the order of their first runs, with measures from metrics.json or from new draws."""
    rows: dict[str, Row] = {}
    for folder in folders:
        config = json.loads((folder / "config.json").read_text())
        task, seed, steps = config["task"], config.pop("seed"), config["settings"]["steps"]
        row = rows.setdefault(json.dumps(config, sort_keys=True), Row(folder.name, steps, {}))
        require(seed not in row.measures, f"{folder} is another run of these settings and this seed: give it once")
        written = None if draws else json.loads((folder / "metrics.json").read_text())
        row.measures[seed] = written or evaluated(folder, task, draws or 1)
    return list(rows.values())


def evaluated(folder: Path, task: str, draws: int) -> dict[str, Any]:
    """The measures of an autoencoder on all test data with this many draws each."""
    keys = jax.random.split(jax.random.key(0))
    found: Any = find_task(task)
    return replace(found, test_draws=draws).evaluate(load(folder / "posterior.civi"), keys, "full").measures


def cell(values: Sequence[float]) -> str:
    """Mean ± standard deviation over seeds, or the value of a single seed."""
    return f"{np.mean(values):.2f}" + (f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else "")


def table(rows: Sequence[Row], measures: Sequence[str]) -> str:
    """The rows as a Markdown table."""
    lines = [f"| first run | seeds | steps | {' | '.join(measures)} |", "|---" * (3 + len(measures)) + "|"]
    for name, steps, by_seed in rows:
        cells = [cell([run[measure] for run in by_seed.values()]) for measure in measures]
        lines.append(f"| {name} | {len(by_seed)} | {steps} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print a table of runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--draws", type=int, help="evaluate autoencoders anew, with so many draws per test datum")
    parser.add_argument("--measures", default=SHOWN, help="names of metrics.json, separated by commas")
    asked = parser.parse_args()
    print(table(grouped([Path(run) for run in asked.runs], asked.draws), asked.measures.split(",")))


if __name__ == "__main__":
    main()
