"""A regression on a table larger than memory: peak memory, time per step against data in memory, and two processes.

    python benchmarks/large_data.py                               # 100 million rows x 20 columns, 8.4 GB on disk
    python benchmarks/large_data.py --rows 5000000 --folder /data/scratch --parts run,step

The table is generated in a folder below `--folder` (by default the temporary folder) and deleted at the end. Times are
ratios of alternating rounds in one process; CPU times include reading ahead and, in the first round, compilation.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from civi.experiment.plan import Plan
from civi.experiment.tasks import find_task
from civi.problem import make_problem
from civi.problem.target import Framed, LogisticRegression
from civi.problem.target.feeding import feeding
from civi.solver import train

GROUP, FILES, ROUNDS = 250_000, 10, 3
GB = 1e9


def main() -> None:
    """Generate the table, run the parts and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--parts", default="run,pair,step", help="parts, separated by commas")
    parser.add_argument("--table", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.table is not None:
        print(json.dumps(step_times(options.table, options.batch, options.steps)))
        return
    needed, folder = 4.5 * options.rows * options.columns, options.folder
    if shutil.disk_usage(folder).free < 1.2 * needed:
        sys.exit(f"{folder} has less than {1.2 * needed / GB:.1f} GB left: give another --folder or fewer --rows")
    with tempfile.TemporaryDirectory(prefix="civi-large-", dir=folder) as made:
        table = Path(made) / "table"
        begun = time.perf_counter()
        generate(table, options.rows, options.columns)
        size = sum(file.stat().st_size for file in table.iterdir())
        report("table", f"{options.rows:,} rows x {options.columns} columns, {size / GB:.1f} GB on disk")
        report("generated in", f"{time.perf_counter() - begun:.0f} s")
        if "run" in options.parts:
            one_process(table, Path(made), options, size)
        if "pair" in options.parts:
            two_processes(table, Path(made), options, size)
        if "step" in options.parts:
            child = [sys.executable, __file__, "--table", str(table), "--batch", str(options.batch)]
            done = subprocess.run([*child, "--steps", str(options.steps)], check=True, capture_output=True, text=True)
            for name, value in json.loads(done.stdout.splitlines()[-1]).items():
                report(name, value)


def report(name: str, value: str) -> None:
    """Print one line of the table."""
    print(f"{name:<44} {value}", flush=True)


def generate(folder: Path, rows: int, columns: int) -> None:
    """Write FILES Parquet files of float32 features and labels 0 and 1, in groups of GROUP rows."""
    folder.mkdir(parents=True)
    beta = 0.3 * np.random.default_rng(0).normal(size=columns)
    names = [f"x{j}" for j in range(columns)]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("y", pa.int8())])
    share = -(-rows // FILES)
    for number in range(FILES):
        rng, left = np.random.default_rng([1, number]), min(share, rows - number * share)
        with pa.parquet.ParquetWriter(
            folder / f"part-{number:02d}.parquet", schema, compression="none", use_dictionary=False
        ) as file:
            while left > 0:
                x = rng.standard_normal((columns, min(GROUP, left)), dtype=np.float32)
                y = (rng.random(x.shape[1]) < 1 / (1 + np.exp(-(beta @ x + 0.5)))).astype(np.int8)
                file.write_table(pa.table([*x, y], schema=schema), row_group_size=GROUP)
                left -= x.shape[1]


def command(table: Path, out: Path, options: Any) -> list[str]:
    """The command line of a run."""
    chosen = ["--data", str(table), "--target", "y", "--stream", "--steps", str(options.steps), "--out", str(out)]
    script = [sys.executable, "-m", "civi.cli", "run", "regression"]
    return [*script, *chosen, "--set", f"problem.batch={options.batch}"]


def one_process(table: Path, made: Path, options: Any, size: int) -> None:
    """One run from the command line: what it reads, peak memory, and the time of its parts."""
    begun = time.perf_counter()
    (read,), (peak,) = watched([subprocess.Popen(command(table, made / "run", options), stdout=subprocess.DEVNULL)])
    metrics = json.loads((made / "run" / "metrics.json").read_text())
    report("one process: read, peak memory", f"{read / size:.2f} x table, {peak / GB:.2f} GB")
    report("one process: whole run", f"{time.perf_counter() - begun:.0f} s")
    report("one process: ms per step, without waiting", f"{1e3 * metrics['seconds_per_step']:.2f}")
    report("one process: neg_elbo", f"{metrics['neg_elbo']:.2f} +- {metrics['neg_elbo_se']:.2f}")


def two_processes(table: Path, made: Path, options: Any, size: int) -> None:
    """Two processes on this machine: what each of them reads and its peak memory."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    meet = ["--distributed", "--coordinator", f"127.0.0.1:{port}", "--processes", "2", "--process"]
    pair = [
        subprocess.Popen([*command(table, made / "pair", options), *meet, str(i)], stdout=subprocess.DEVNULL)
        for i in range(2)
    ]
    read, peak = watched(pair)
    metrics = json.loads((made / "pair" / "metrics.json").read_text())
    for i in range(2):
        report(f"process {i} of two: read, peak memory", f"{read[i] / size:.2f} x table, {peak[i] / GB:.2f} GB")
    report("two processes: neg_elbo", f"{metrics['neg_elbo']:.2f} +- {metrics['neg_elbo_se']:.2f}")


def watched(processes: list[subprocess.Popen[bytes]]) -> tuple[list[int], list[int]]:
    """Bytes that each process has read when it ends, and its peak memory."""
    read, peak = [0] * len(processes), [0] * len(processes)
    while any(process.poll() is None for process in processes):
        for i, process in enumerate(processes):
            read[i], peak[i] = _used(process.pid, (read[i], peak[i]))
        time.sleep(0.2)
    if any(process.returncode for process in processes):
        sys.exit(f"the processes ended with {[process.returncode for process in processes]}")
    return read, peak


def _used(pid: int, before: tuple[int, int]) -> tuple[int, int]:
    """Bytes that a process has read and its peak memory; those `before` if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().split() + Path(f"/proc/{pid}/status").read_text().split()
        return int(lines[lines.index("rchar:") + 1]), 1024 * int(lines[lines.index("VmHWM:") + 1])
    except (OSError, ValueError):
        return before


def step_times(table: Path, batch: int, steps: int) -> dict[str, str]:
    """Wall time per step of a streamed training and of one in memory, in alternating rounds of one process."""
    found, clock = {}, time.perf_counter()
    task = find_task("regression", data=table, target="y", stream=True)
    plan = Plan.make(
        task,
        "civi",
        "default",
        0,
        steps,
        [f"problem.batch={batch}"],
    )
    source = plan.source()
    found["scan"] = f"{time.perf_counter() - clock:.1f} s"
    clock = time.perf_counter()
    framed = plan.settings.pilot.look(source)
    found["pilot with full passes"] = f"{time.perf_counter() - clock:.1f} s"
    some = np.concatenate([source.stream.group(i) for i in range(min(20, len(source.stream.scan.rows)))])
    inside = LogisticRegression(jnp.asarray(some[:, :-1]), jnp.asarray(some[:, -1]))
    in_memory = Framed.at(inside, framed.frame)
    problems = {
        name: make_problem(plan.settings.family, target, jax.random.key(0), plan.settings.problem)
        for name, target in {"streamed": framed, "in memory": in_memory}.items()
    }
    times: dict[str, list[float]] = {name: [] for name in problems}
    worked: dict[str, list[float]] = {name: [] for name in problems}
    for _ in range(ROUNDS):
        for name, problem in problems.items():
            with feeding(problem, 0, batch) as feed:
                filled = feed(problem, 0)[0]
                begun = time.process_time()
                trained = train(replace(plan.settings.solver, steps=steps), filled, jax.random.key(1), feed=feed)
                worked[name].append(1e3 * (time.process_time() - begun) / steps)
            times[name].append(1e3 * trained.loop_seconds / steps)
    for what, rounds in (("ms", times), ("CPU ms", worked)):
        for name, values in rounds.items():
            found[f"{name}: {what} per step, {ROUNDS} rounds"] = ", ".join(f"{value:.3f}" for value in values)
        ratio = [a / b for a, b in zip(*rounds.values(), strict=True)]
        found[f"streamed / in memory, {what}"] = f"{statistics.median(ratio):.3f} (asked at most 1.10)"
    return found | {"cores": str(os.cpu_count())}


if __name__ == "__main__":
    main()
