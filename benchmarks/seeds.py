"""Mean and standard deviation over seeds of finished runs; and the CPU time of a step, for runs of equal seconds.

    python benchmarks/seeds.py RUN [RUN ...] [--measures neg_elbo,test_neg_log_lik,mixing_share]
    python benchmarks/seeds.py --clock mnist "mfvb family.latent_dim=2" "civi family.latent_dim=2" [...]

RUN is the folder of a `civi run`. Runs whose settings differ in the seed alone are one row. With --clock TASK, every
argument is a solver with its settings, whose CPU milliseconds per step are measured: unlike wall time, they hardly
depend on other jobs of the machine.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from civi.errors import require
from civi.experiment.plan import Plan
from field_measure import steps_in

CLOCKED = 100.0
SHOWN = "neg_elbo,test_neg_log_lik,mixing_share"


class Row(NamedTuple):
    """Runs that differ in the seed alone: the name of the first folder, and metrics.json of each."""

    name: str
    metrics: list[dict[str, Any]]


def grouped(folders: Sequence[Path]) -> list[Row]:
    """The rows, in the order of their first runs."""
    rows: dict[str, Row] = {}
    for folder in folders:
        config = json.loads((folder / "config.json").read_text())
        seed = config.pop("seed")
        row = rows.setdefault(json.dumps(config, sort_keys=True), Row(folder.name, []))
        again = any(metrics["seed"] == seed for metrics in row.metrics)
        require(not again, f"{folder} has the settings and the seed of another run: give each run once")
        row.metrics.append(json.loads((folder / "metrics.json").read_text()))
    return list(rows.values())


def cell(values: Sequence[float]) -> str:
    """Mean ± standard deviation over seeds, or the value of a single seed."""
    return f"{np.mean(values):.2f}" + (f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else "")


def table(rows: Sequence[Row], measures: Sequence[str]) -> str:
    """The rows as a Markdown table."""
    lines = [f"| first run | seeds | steps | {' | '.join(measures)} |", "|---" * (3 + len(measures)) + "|"]
    for name, metrics in rows:
        cells = [cell([run[measure] for run in metrics]) for measure in measures]
        lines.append(f"| {name} | {len(metrics)} | {metrics[0]['steps']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def milliseconds(task: str, words: str) -> float:
    """CPU milliseconds per step of a solver with settings, such as "civi samples.inner=50"."""
    solver, *assignments = words.split()
    return 1e3 * CLOCKED / steps_in(Plan.make(task, solver, "default", 0, None, assignments), CLOCKED)


def main() -> None:
    """Print a table of runs, or the CPU time of a step of every solver."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--clock", metavar="TASK", help="measure the CPU time of a step on this task")
    parser.add_argument("--measures", default=SHOWN, help="names of metrics.json, separated by commas")
    asked = parser.parse_args()
    if asked.clock is None:
        print(table(grouped([Path(run) for run in asked.runs]), asked.measures.split(",")))
        return
    for words in asked.runs:
        print(f"{milliseconds(asked.clock, words):.2f} CPU ms per step: {words}", flush=True)


if __name__ == "__main__":
    main()
