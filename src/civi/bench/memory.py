"""Peak memory of training as the number of inner samples grows; each size runs in its own process."""

from __future__ import annotations

import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
from rich.table import Table

from civi.bench.timing import Advance
from civi.bench.workloads import Workload, block, workload
from civi.tracker import NoTracker

QUICK = (10_000, 100_000)
SIZES = (1000, 10_000, 100_000, 1_000_000)
STATUS = Path("/proc/self/status")
OUTER, STEPS = 128, 2


def measure(quick: bool, advance: Advance) -> dict[str, Any]:
    """Measure the peak memory, in MB, of a process that runs STEPS steps."""
    rows = []
    for inner in QUICK if quick else SIZES:
        advance(f"{inner:,} inner samples")
        command = [sys.executable, "-m", "civi.bench.memory", str(inner)]
        peak = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]
        rows.append({"inner": inner, "megabytes": float(peak)})
    return {"outer": OUTER, "rows": rows}


def peak_of_steps(inner: int) -> float:
    """Run a few steps of civi on the banana without a tracker; the peak resident memory of this process in MB."""
    work = workload("banana", outer=OUTER, inner=inner)
    jax.block_until_ready(block(Workload(replace(work.solver, tracker=NoTracker()), work.problem), STEPS).run())
    return peak_megabytes()


def peak_megabytes() -> float:
    """The peak resident memory of this process so far, in MB.

    On Linux it is read from /proc, because getrusage starts from the memory of the parent process.
    """
    if STATUS.exists():
        peak = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(peak.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def table(found: dict[str, Any]) -> Table:
    """One row per size."""
    made = Table(title=f"peak memory of a step on the banana, {found['outer']} outer samples", title_justify="left")
    for name in ("inner samples", "MB", "MB of all pairs"):
        made.add_column(name, justify="right")
    for row in found["rows"]:
        pairs = 4 * found["outer"] * row["inner"] / 2**20
        made.add_row(f"{row['inner']:,}", f"{row['megabytes']:.0f}", f"{pairs:,.0f}")
    return made


if __name__ == "__main__":
    print(peak_of_steps(int(sys.argv[1])))
