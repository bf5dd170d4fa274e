"""Try what can go wrong, and print a table: tried, held, broke.

python benchmarks/faults.py --out faults.json                    all parts; hours on two cores
python benchmarks/faults.py --only damage,inputs --count 50      some parts, with fewer cases
python benchmarks/faults.py --only kills --kinds toy --count 3

kills        SIGKILL at random moments of a toy, an autoencoder, a comparison, a distributed run and one whose rows are
             read from disk (20 of each, half of them after a checkpoint of training was written); the resumed run must
             have the bits of an undisturbed one
interrupts   SIGINT, SIGTERM and SIGHUP in every phase: one line, code 130, nothing half-written, resumed as above
disk         a disk that is full from the first, second, ... write on: one line, and resumed as above
damage       random damages (500 to each kind of file) and forged files with valid checksums: refused or without effect
inputs       wrong options, settings, data and arguments: one line with exit code 2, or a CiviError
hangs        50 comparisons of waveform, each of which must end within 20 minutes

What is in the file of --out is not repeated, so a script that was stopped continues: with the next case of kills,
interrupts, disk and hangs, and with the last unfinished part of the others.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from faults_damage import KINDS as FILES
from faults_damage import damages
from faults_inputs import bad_inputs
from faults_processes import KILLED, Runs, full_disks, hangs, interrupts, kills

DEFAULTS = {"kills": 20, "interrupts": 1000, "disk": 1000, "damage": 500, "inputs": 1000, "hangs": 50}


def parts(given: argparse.Namespace, runs: Runs, done: dict[str, Any]) -> Iterator[tuple[str, Iterator[str]]]:
    """The name of each part and the cases that are left of it; a case is an empty text, or says what broke."""

    def first(name: str) -> int:
        return int(done[name]["tried"]) if name in done else 0

    def all_or_none(name: str, cases: Iterator[str]) -> tuple[str, Iterator[str]]:
        if name in done and done[name]["complete"]:
            return name, iter(())
        done.pop(name, None)
        return name, cases

    chosen = given.only.split(",")
    number = {name: given.count or default for name, default in DEFAULTS.items()}
    if "inputs" in chosen:
        yield all_or_none("inputs", bad_inputs(runs.folder, number["inputs"]))
    if "damage" in chosen:
        for kind in given.files.split(","):
            yield all_or_none(f"damage to {kind}", damages(kind, runs.folder, number["damage"]))
    if "interrupts" in chosen:
        yield "interrupts", interrupts(runs, first("interrupts"), number["interrupts"])
    if "disk" in chosen:
        left = full_disks(runs, first("full disk"), number["disk"])
        yield "full disk", iter(()) if done.get("full disk", {}).get("complete") else left
    if "hangs" in chosen:
        yield "hangs", hangs(runs, first("hangs"), number["hangs"])
    if "kills" in chosen:
        for kind in given.kinds.split(","):
            name = f"kills of the {kind}"
            yield name, kills(runs, kind, first(name), number["kills"])


def try_all(
    name: str, cases: Iterator[str], outcome: dict[str, Any], console: Console, save: Callable[[], None]
) -> None:
    """Try the cases of a part, and save the outcome after each; those that break are also shown at once."""
    with console.status(f"{name}: {outcome['tried']} tried") as line:
        for case in cases:
            outcome["tried"] += 1
            if case:
                outcome["broke"].append(case)
                console.print(f"{name}: {case}", style="red", soft_wrap=True, markup=False)
            line.update(f"{name}: {outcome['tried']} tried, {len(outcome['broke'])} broke")
            save()
    console.print(f"{name}: {outcome['tried']} tried, {len(outcome['broke'])} broke")


def main() -> None:
    """Run the chosen parts, write the results after each, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(DEFAULTS), help="parts, separated by commas")
    parser.add_argument("--kinds", default=",".join(KILLED), help="kinds of runs to kill, separated by commas")
    parser.add_argument("--files", default=",".join(FILES), help="kinds of files to damage, separated by commas")
    parser.add_argument("--count", type=int, help="number of cases of each part")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file of the results")
    parser.add_argument("--folder", type=Path, help="folder for the runs; a temporary one by default")
    given = parser.parse_args()
    done = json.loads(given.out.read_text()) if given.out and given.out.exists() else {}

    def save() -> None:
        if given.out:
            given.out.write_text(json.dumps(done, indent=1))

    table = Table("part", "tried", "held", "broke")
    console = Console()
    with tempfile.TemporaryDirectory(prefix="faults-") as temporary:
        folder = (given.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        runs = Runs(folder, given.seed)
        for name, cases in parts(given, runs, done):
            outcome = done.setdefault(name, {"tried": 0, "broke": [], "complete": False})
            try_all(name, cases, outcome, console, save)
            outcome["complete"] = True
            save()
            tried, broke = done[name]["tried"], len(done[name]["broke"])
            table.add_row(name, str(tried), str(tried - broke), str(broke))
    console.print(table)


if __name__ == "__main__":
    main()
