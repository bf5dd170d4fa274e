"""`python -m civi.compositional [--seeds 16] [--out docs/figures]`: all methods on problems with known solutions."""

from __future__ import annotations

import argparse
from pathlib import Path

from civi.compositional.comparison import benchmarks, draw, run, table


def main() -> None:
    """Print the tables. With --out, also write the figure to that folder."""
    parser = argparse.ArgumentParser(prog="python -m civi.compositional", description="Compare the methods.")
    parser.add_argument("--seeds", type=int, default=16, help="runs of every method (default 16)")
    parser.add_argument("--out", type=Path, help="folder for compositional-methods.png")
    options = parser.parse_args()
    if options.seeds < 2:
        parser.error("--seeds must be at least 2, so that a standard deviation can be computed")
    results = []
    for benchmark, entries in benchmarks():
        results.append((benchmark, [(entry, run(benchmark, entry, options.seeds)) for entry in entries]))
        print(f"\n{benchmark.name}, {options.seeds} seeds\n\n{table(*results[-1])}", flush=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        print(f"\nwrote {draw(results, options.out / 'compositional-methods.png')}")


if __name__ == "__main__":
    main()
