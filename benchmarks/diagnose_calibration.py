"""How often `diagnose` is right: 20 good fits and 20 deliberately bad ones, each diagnosed once.

    python benchmarks/diagnose_calibration.py [--keys 0] [--out FILE]

Good fits are those of `civi.fit` with its defaults on six targets, two of them hierarchical models written centred, if
their means are within 0.1 sd and their sd ratios within 0.9 to 1.1 of exact draws. Bad fits are of five kinds, four
each: too few steps, one mode lost, scale halved, mean shifted by one sd in every direction, and a hierarchical model
fitted in its neck, with the scale of its groups a hundredth of the prior's. --keys is the first key. During
development, --keys 100 was used. Each result is saved to a JSON file immediately, so that a second call continues.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from rich.console import Console
from rich.table import Table

import civi
from calibration_cases import (
    CASES,
    INTERCEPTS,
    SCHOOLS,
    Case,
    LogDensityOfZ,
    banana,
    collapsed,
    log_normal_groups,
    one_mode,
    two_modes,
)
from civi.folders import cache_folder
from civi.inference import moments
from civi.inference.diagnose.agreement import moment_errors
from civi.inference.fit import draws_of
from civi.inference.pilot import Gaussian
from civi.inference.posterior import SemiImplicitPosterior
from civi.inference.seeds import derived
from civi.problem.target import LogDensity

BAD, EXACT, JUDGED = 4, 100_000, 20_000
CHANGES = {"Gaussian": (0.0, 0.5), "banana": (0.0, 0.5), "Student t": (1.0, 1.0), "log gamma": (1.0, 1.0)}


class Task(NamedTuple):
    """A fit to be diagnosed: `kind` is good or what is wrong, and `make` returns the fit."""

    kind: str
    target: str
    key: int
    make: Callable[[], SemiImplicitPosterior]


def fit(target: Callable[..., Any], arguments: Mapping[str, Any], key: int, **options: Any) -> SemiImplicitPosterior:
    """`civi.fit` with its defaults, except for the options."""
    return civi.fit(target, key=jax.random.key(key), progress=False, **arguments, **options)


@lru_cache(maxsize=4)
def fit_of(case: Case, key: int) -> SemiImplicitPosterior:
    """The fit of a case, which is made once for the good fit and the bad one that is made from it."""
    return fit(case.target, case.arguments, key)


def moved(case: Case, key: int) -> SemiImplicitPosterior:
    """The fit of a case, shifted by a number of sd along every direction of its frame, or made narrower."""
    posterior = fit_of(case, key)
    shift, scale = (np.full(posterior.dim, value) for value in CHANGES[case.name])
    return replace(posterior, family=moments.moved(posterior.family, scale, shift))


def presented(log_density: LogDensityOfZ, wrong: LogDensityOfZ, dim: int, key: int) -> SemiImplicitPosterior:
    """A good fit of the density `wrong`, presented as a fit of `log_density`."""
    target = LogDensity(log_density, dim)
    lost = fit(wrong, {"dim": dim}, key)
    guesses = draws_of(Gaussian().find(target, derived(np.zeros(2, np.uint32), key)).guesses)
    return replace(lost, target=eqx.tree_at(lambda s: s.target, lost.target, target), guesses=guesses)


def tasks(first: int) -> Iterator[Task]:
    """The good fits of all cases, each followed by the bad fit that is made from it, and the other bad fits."""
    for case in CASES:
        for key in range(first, first + case.count):
            yield Task("good", case.name, key, partial(fit_of, case, key))
            if case.name in CHANGES and key < first + BAD // 2:
                kind = "mean shifted" if CHANGES[case.name][0] else "scale halved"
                yield Task(kind, case.name, key, partial(moved, case, key))
    keys = range(first, first + BAD)
    yield from (Task("too few steps", "banana", key, partial(fit, banana, {"dim": 3}, key, steps=40)) for key in keys)
    yield from (
        Task("one mode lost", "two modes", key, partial(presented, two_modes, one_mode, 2, key)) for key in keys
    )
    for name, data in {"schools": SCHOOLS, "intercepts": INTERCEPTS}.items():
        right, wrong = (partial(density, data=data) for density in (log_normal_groups, collapsed))
        make = partial(presented, right, wrong, 2 + len(data["y"]))
        yield from (Task("scale collapsed", name, key, partial(make, key)) for key in keys[: BAD // 2])


def is_within(task: Task, posterior: SemiImplicitPosterior, first: int) -> bool:
    """Whether the draws of a good fit agree with exact ones."""
    case = next(case for case in CASES if case.name == task.target)
    exact = case.draws(np.random.default_rng(first), EXACT)
    draws = np.asarray(case.flat(posterior.sample(jax.random.key(task.key + 1), JUDGED)), np.float64)
    errors = moment_errors(draws, exact)
    return bool(errors["mean_error_max"] <= 0.1 and 0.9 <= errors["sd_ratio_min"] <= errors["sd_ratio_max"] <= 1.1)


def measured(task: Task, first: int) -> dict[str, Any]:
    """The verdict of one fit, why, and the seconds it took."""
    begun, posterior = time.perf_counter(), task.make()
    diagnosis = posterior.diagnose(jax.random.key(task.key + 2))
    not_within = task.kind == "good" and not is_within(task, posterior, first)
    return {
        "kind": "good, not within" if not_within else task.kind,
        "verdict": diagnosis.verdict,
        "why": ", ".join(f"{f.name} {f.value:.2g}" for f in diagnosis.findings if f.verdict != "good"),
        "seconds": time.perf_counter() - begun,
    }


def main() -> None:
    """Diagnose what is missing, print one line per fit, and how many verdicts are right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=0)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    file = asked.out or cache_folder("diagnose-calibration") / f"{asked.keys}.json"
    results: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    table, right = Table("fit", "target", "key", "verdict", "why"), {"good": [0, 0], "bad": [0, 0]}
    for task in tasks(asked.keys):
        label = f"{task.kind}, {task.target}, {task.key}"
        if label not in results:
            results[label] = measured(task, asked.keys)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(results, indent=1))
        found = results[label]
        row = (found["kind"], task.target, str(task.key), found["verdict"], found["why"])
        table.add_row(*row)
        print(*row, f"{found['seconds']:.0f} s", sep="  ", flush=True)
        if found["kind"] != "good, not within":
            count = right["good" if task.kind == "good" else "bad"]
            count[0] += (found["verdict"] == "good") == (task.kind == "good")
            count[1] += 1
    Console(width=120).print(table)
    print(f"good fits called good: {right['good'][0]} of {right['good'][1]}")
    print(f"bad fits called doubtful or bad: {right['bad'][0]} of {right['bad'][1]}")
    print(f"seconds in all: {sum(found['seconds'] for found in results.values()):.0f}")


if __name__ == "__main__":
    main()
