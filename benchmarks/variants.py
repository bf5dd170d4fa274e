"""Variants of the settings of a task, trained for the same CPU seconds per seed and evaluated by the same measures.

    python benchmarks/variants.py mnist "mfvb" "civi samples.inner=50" "bsivi" --seconds 100 --results r10.jsonl

Every variant is the name of a solver, followed by settings as for --set of `civi run`. The number of steps follows from
the time of a step, measured in a short run of each variant; --steps gives it instead. Results are added to --results as
soon as they are there, and are not computed again. Prints the mean and the standard deviation over seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from civi.experiment.plan import Plan
from civi.inference.programs import drop_programs
from field_measure import run_plan
from results_file import add_result, read_results

KEY = ("task", "variant")


def measured(task: str, variant: str, seconds: float, steps: int | None, seeds: int) -> dict[str, Any]:
    """The result of a variant as JSON values."""
    solver, *assignments = variant.split()
    plan = Plan.make(task, solver, "default", 0, steps, assignments)
    found = run_plan(plan, None if steps else seconds, seeds)
    return {"task": task, "variant": variant, **found}


def table(results: Sequence[dict[str, Any]], measures: Sequence[str]) -> str:
    """The results as a Markdown table; seeds that diverged are counted and left out of the means."""
    lines = [
        f"| variant | steps | CPU ms per step | {' | '.join(measures)} | diverged |",
        "|---" * (4 + len(measures)) + "|",
    ]
    for one in results:
        rows = [row for row, step in zip(one["measures"], one["diverged"], strict=True) if step is None]
        cells = [cell([row[name] for row in rows if row.get(name) is not None]) for name in measures]
        lost = len(one["diverged"]) - len(rows)
        clock = "-" if lost else f"{1000 * one['cpu_seconds'] / one['steps']:.2g}"
        ended = f"{lost} of {len(one['diverged'])}" if lost else "-"
        lines.append(f"| {one['variant']} | {one['steps']:,} | {clock} | {' | '.join(cells)} | {ended} |")
    return "\n".join(lines)


def cell(values: Sequence[float]) -> str:
    """Mean ± standard deviation over seeds, with five significant digits."""
    if not values:
        return "-"
    spread = f" ± {np.std(values, ddof=1):.2g}" if len(values) > 1 else ""
    return f"{np.mean(values):.5g}{spread}"


def main() -> None:
    """Measure what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("variants", nargs="+", metavar="VARIANT", help="a solver and its settings, in quotes")
    parser.add_argument("--seconds", type=float, default=100.0, help="CPU seconds of training per seed")
    parser.add_argument("--steps", type=int, help="steps of every variant, in place of seconds")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--measures", default="neg_elbo,test_neg_log_lik,test_neg_log_lik_by_q,mixing_share")
    parser.add_argument("--results", type=Path, required=True, help="file of the results, one line per variant")
    asked = parser.parse_args()
    for variant in asked.variants:
        if (asked.task, variant) not in read_results(asked.results, KEY):
            drop_programs()
            add_result(asked.results, measured(asked.task, variant, asked.seconds, asked.steps, asked.seeds))
    done = read_results(asked.results, KEY)
    print(table([done[asked.task, variant] for variant in asked.variants], asked.measures.split(",")), flush=True)


if __name__ == "__main__":
    main()
