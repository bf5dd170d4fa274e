"""KL and seconds of every tracker on the three toys, with 100 inner samples unless a row says otherwise.

python benchmarks/trackers.py [--seeds 5] [--steps 3000]
"""

from __future__ import annotations

import argparse

from rich.progress import track

from civi.experiment.plan import Plan
from civi.experiment.runners import runner_of

TASKS = ("two-modal", "star", "banana")
EXTRAPOLATED = ["tracker=extrapolated", "tracker.beta=0.5", "pool.switch_every=5"]
VARIANTS = {
    "none, K2 = 100": ["tracker=none"],
    "none, K2 = 1000": ["tracker=none", "samples.inner=1000"],
    "extrapolated, beta 0.5, chunk kept 5 steps": EXTRAPOLATED,
    "extrapolated, K2 = 350": [*EXTRAPOLATED, "samples.inner=350"],
    "smoothed, beta 0.5, chunk kept 5 steps": ["tracker=smoothed", "tracker.beta=0.5", "pool.switch_every=5"],
    "ring, beta 0.3, a quarter renewed per step": ["tracker=ring", "pool.renew=0.25"],
    "bank of 8 steps, weights on grad log g": ["objective.weigh=ratio"],
    "bank of 8 steps (default)": [],
}


def row(label: str, assignments: list[str], seeds: int, steps: int) -> str:
    """One row of the table: mean (worst) KL on every toy, and seconds per seed on the last one."""
    cells, seconds = [], 0.0
    for task in TASKS:
        plan = Plan.make(task, "civi", "default", 0, steps, ["samples.inner=100", *assignments])
        result = runner_of(plan).run_seeds(plan, range(seeds), lambda step: None)
        kl, seconds = result.values("kl"), result.seconds
        lost = seeds - len(kl)
        cells.append(f"{kl.mean():.4f} ({kl.max():.4f})" + (f", {lost} diverged" if lost else ""))
    return f"| {label} | {' | '.join(cells)} | {seconds:.1f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3000, help="number of steps")
    asked = parser.parse_args()
    variants = track(VARIANTS.items(), description="trackers")
    rows = [row(label, assignments, asked.seeds, asked.steps) for label, assignments in variants]
    print(f"| tracker | {' | '.join(TASKS)} | seconds per seed (banana) |")
    print("|---" * (len(TASKS) + 2) + "|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
