"""The table of the field: every solver on every posterior task, with equal families and seconds and as published.

    python benchmarks/field.py [--seconds 10] [--seeds 3] [--tasks A,B] [--solvers A,B] [--kinds A,B] [--page]

For each solver and task: the default recipe, whose families are the same for all solvers that mix, with the number of
steps that fits into --seconds of CPU time per seed; and the recipe `paper` where it has settings. Quality is measured
by the estimator that all share and by the measures of the task. Each result is added to field_results.jsonl (or
--results) as soon as it is there, and is not computed again: repeat the command to resume. At the end, or at once with
--page, the tables and the figure of all results are written to docs/field.md (or --docs), between its two markers, with
the published figures of field_published.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from civi.errors import require
from civi.experiment.recipes import METHODS
from civi.files import make_folder
from civi.inference.programs import drop_programs
from field_measure import KINDS, POSTERIORS, Cell, cells, has_settings, measured
from field_page import draw_field, write_page
from results_file import add_result, read_results

PER_CELL, PER_SEED = 30, 10
RESULTS = Path(__file__).with_name("field_results.jsonl")
FIGURE = "figures/field.png"


def main() -> None:
    """Measure what is missing, then write the page."""
    asked, console = _arguments(), Console()
    asked_for, done = cells(asked.tasks, asked.solvers, asked.kinds), read_results(asked.results, Cell._fields)
    possible = [cell for cell in asked_for if cell.kind == "equal" or has_settings(cell)]
    missing = [] if asked.page else [cell for cell in possible if cell not in done]
    hours = _estimate(missing, asked)
    where = f"results are in {asked.results}"
    console.print(f"{len(missing)} of {len(possible)} cells to measure, about {hours:.1f} hours; {where}")
    for i, cell in enumerate(missing):
        drop_programs()
        result = measured(cell, asked.seconds, asked.seeds)
        add_result(asked.results, result)
        console.print(f"[{i + 1}/{len(missing)}] {' '.join(cell)}: {_line(result)}", soft_wrap=True, highlight=False)
    done = read_results(asked.results, Cell._fields)
    results = [done[cell] for cell in cells(list(POSTERIORS), list(METHODS), list(KINDS)) if cell in done]
    if results and asked.docs.parent.is_dir():
        draw_field(results, make_folder(asked.docs.parent / "figures") / Path(FIGURE).name)
        write_page(results, asked.docs, FIGURE, asked.seconds)
        console.print(f"tables and figure are in {asked.docs}", soft_wrap=True)


def _estimate(missing: list[Cell], asked: argparse.Namespace) -> float:
    """A rough number of hours: for each cell two compilations, and for each seed training and evaluation."""
    return len(missing) * (PER_CELL + asked.seeds * (asked.seconds + PER_SEED)) / 3600


def _line(result: dict[str, Any]) -> str:
    if "refused" in result:
        return f"refused, {result['refused']}"
    ended = sum(step is None for step in result["diverged"])
    spent = f"{result['steps']} steps, {result['cpu_seconds']:.1f} CPU s per seed"
    return f"{spent}, {ended} of {len(result['diverged'])} finished"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU seconds of training per seed")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", type=_names, default=list(POSTERIORS), metavar="A,B", help=", ".join(POSTERIORS))
    parser.add_argument("--solvers", type=_names, default=list(METHODS), metavar="A,B", help=", ".join(METHODS))
    parser.add_argument("--kinds", type=_names, default=list(KINDS), metavar="A,B", help=", ".join(KINDS))
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of the results, one line per cell")
    parser.add_argument("--docs", type=Path, default=Path("docs/field.md"), help="the page with the two markers")
    parser.add_argument("--page", action="store_true", help="write the page from the results so far; measure nothing")
    asked = parser.parse_args()
    require(asked.seconds > 0 and asked.seeds >= 1, "--seconds must be positive and --seeds at least 1")
    for names, known in ((asked.tasks, POSTERIORS), (asked.solvers, METHODS), (asked.kinds, KINDS)):
        for name in names:
            if name not in known:
                parser.error(f"unknown name {name}: known are {', '.join(known)}")
    return asked


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    main()
