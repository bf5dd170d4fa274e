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

Parts that are in the file of --out are not repeated, so a script that was stopped continues.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from faults_damage import KINDS as FILES
from faults_damage import damages
from faults_inputs import bad_inputs
from faults_processes import RUNS, Runs, full_disks, hangs, interrupts, kills

DEFAULTS = {"kills": 20, "interrupts": 1000, "disk": 1000, "damage": 500, "inputs": 1000, "hangs": 50}


def parts(given: argparse.Namespace, runs: Runs) -> Iterator[tuple[str, Iterator[str]]]:
    """The name of each part and its cases; a case is an empty text, or says what broke."""
    chosen = given.only.split(",")
    number = {name: given.count or default for name, default in DEFAULTS.items()}
    if "inputs" in chosen:
        yield "inputs", bad_inputs(runs.folder, number["inputs"])
    if "damage" in chosen:
        for kind in given.files.split(","):
            yield f"damage to {kind}", damages(kind, runs.folder, number["damage"])
    if "interrupts" in chosen:
        yield "interrupts", interrupts(runs, number["interrupts"])
    if "disk" in chosen:
        yield "full disk", full_disks(runs, number["disk"])
    if "hangs" in chosen:
        yield "hangs", hangs(runs, number["hangs"])
    if "kills" in chosen:
        for kind in given.kinds.split(","):
            yield f"kills of the {kind}", kills(runs, kind, number["kills"])


def outcome_of(name: str, cases: Iterator[str], console: Console) -> dict[str, Any]:
    """The number of cases of a part and those that broke, which are also shown at once."""
    tried: int = 0
    broke: list[str] = []
    with console.status(f"{name}: 0 tried") as line:
        for case in cases:
            tried += 1
            if case:
                broke.append(case)
                console.print(f"{name}: {case}", style="red", soft_wrap=True, markup=False)
            line.update(f"{name}: {tried} tried, {len(broke)} broke")
    console.print(f"{name}: {tried} tried, {len(broke)} broke")
    return {"tried": tried, "broke": broke}


def main() -> None:
    """Run the chosen parts, write the results after each, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(DEFAULTS), help="parts, separated by commas")
    parser.add_argument("--kinds", default=",".join(RUNS), help="kinds of runs to kill, separated by commas")
    parser.add_argument("--files", default=",".join(FILES), help="kinds of files to damage, separated by commas")
    parser.add_argument("--count", type=int, help="number of cases of each part")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file of the results")
    parser.add_argument("--folder", type=Path, help="folder for the runs; a temporary one by default")
    given = parser.parse_args()
    done = json.loads(given.out.read_text()) if given.out and given.out.exists() else {}
    table = Table("part", "tried", "held", "broke")
    console = Console()
    with tempfile.TemporaryDirectory(prefix="faults-") as temporary:
        folder = (given.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        runs = Runs(folder, given.seed)
        for name, cases in parts(given, runs):
            if name not in done:
                done[name] = outcome_of(name, cases, console)
                if given.out:
                    given.out.write_text(json.dumps(done, indent=1))
            tried, broke = done[name]["tried"], len(done[name]["broke"])
            table.add_row(name, str(tried), str(tried - broke), str(broke))
    console.print(table)


if __name__ == "__main__":
    main()
