"""How often `diagnose` is right: 20 good fits and 20 deliberately bad ones, each diagnosed once.

    python benchmarks/diagnose_calibration.py [--keys 0]

Good fits are those of `civi.fit` with its defaults on six targets, two of them hierarchical models written centred, if
their means are within 0.1 sd and their sd ratios within 0.9 to 1.1 of exact draws. Bad fits are of five kinds, four
each: too few steps, one mode lost, scale halved, mean shifted by one sd in every direction, and a hierarchical model
fitted in its neck, with the scale of its groups a hundredth of the prior's. --keys is the first key. During
development, --keys 100 was used.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import civi
from calibration_cases import (
    CASES,
    INTERCEPTS,
    SCHOOLS,
    LogDensityOfZ,
    banana,
    collapsed,
    log_normal_groups,
    one_mode,
    two_modes,
)
from civi.inference.diagnose.agreement import moment_errors
from civi.inference.fit import draws_of
from civi.inference.pilot import Gaussian
from civi.inference.posterior import SemiImplicitPosterior
from civi.inference.seeds import derived
from civi.problem.target import LogDensity

BAD = 4


def fit(target: Callable[..., Any], arguments: Mapping[str, Any], key: int, **options: Any) -> SemiImplicitPosterior:
    """`civi.fit` with its defaults, except for the options."""
    return civi.fit(target, key=jax.random.key(key), progress=False, **arguments, **options)


def moved(posterior: SemiImplicitPosterior, shift: float, scale: float) -> SemiImplicitPosterior:
    """The same fit, moved by `shift` sd along every direction of its frame and scaled about its centre."""
    framed: Any = posterior.target
    frame = framed.frame
    centre = jnp.asarray(posterior.sample_unconstrained(jax.random.key(0), 2000).mean(0))
    location = centre + scale * (frame.location - centre) + shift * frame.factor.sum(1)
    parts = (location, scale * frame.factor)
    changed = eqx.tree_at(lambda framed: (framed.frame.location, framed.frame.factor), framed, parts)
    return replace(posterior, target=changed)


def presented(log_density: LogDensityOfZ, wrong: LogDensityOfZ, dim: int, key: int) -> SemiImplicitPosterior:
    """A good fit of the density `wrong`, presented as a fit of `log_density`."""
    target = LogDensity(log_density, dim)
    lost = fit(wrong, {"dim": dim}, key)
    guesses = draws_of(Gaussian().find(target, derived(np.zeros(2, np.uint32), key)).guesses)
    return replace(lost, target=eqx.tree_at(lambda s: s.target, lost.target, target), guesses=guesses)


def good_fits(first: int) -> Iterator[tuple[str, str, int, SemiImplicitPosterior]]:
    """Yield the fits of all cases, and after those of a case the bad fits that are made from them."""
    changes = {"Gaussian": (0.0, 0.5), "banana": (0.0, 0.5), "Student t": (1.0, 1.0), "log gamma": (1.0, 1.0)}
    for case in CASES:
        exact = case.draws(np.random.default_rng(first), 100_000)
        made = {key: fit(case.target, case.arguments, key) for key in range(first, first + case.count)}
        for key, posterior in made.items():
            draws = np.asarray(case.flat(posterior.sample(jax.random.key(key + 1), 20_000)), np.float64)
            errors = moment_errors(draws, exact)
            within = errors["mean_error_max"] <= 0.1 and 0.9 <= errors["sd_ratio_min"] <= errors["sd_ratio_max"] <= 1.1
            yield "good" if within else "good, not within", case.name, key, posterior
        if case.name in changes:
            shift, scale = changes[case.name]
            kind = "mean shifted" if shift else "scale halved"
            for key in list(made)[: BAD // 2]:
                yield kind, case.name, key, moved(made[key], shift, scale)
        jax.clear_caches()


def fits(first: int) -> Iterator[tuple[str, str, int, SemiImplicitPosterior]]:
    """Yield tuples (good or what is wrong, target, key, fit)."""
    yield from good_fits(first)
    keys = range(first, first + BAD)
    yield from (("too few steps", "banana", key, fit(banana, {"dim": 3}, key, steps=40)) for key in keys)
    yield from (("one mode lost", "two modes", key, presented(two_modes, one_mode, 2, key)) for key in keys)
    jax.clear_caches()
    for name, data in {"schools": SCHOOLS, "intercepts": INTERCEPTS}.items():
        right, wrong = (partial(density, data=data) for density in (log_normal_groups, collapsed))
        for key in keys[: BAD // 2]:
            yield "scale collapsed", name, key, presented(right, wrong, 2 + len(data["y"]), key)
        jax.clear_caches()


def main() -> None:
    """Print one line per fit, and how many verdicts are right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=0)
    first = parser.parse_args().keys
    table, begun = Table("fit", "target", "key", "verdict", "why"), time.perf_counter()
    right = {"good": [0, 0], "bad": [0, 0]}
    for kind, target, key, posterior in fits(first):
        diagnosis = posterior.diagnose(jax.random.key(key + 2))
        why = ", ".join(f"{f.name} {f.value:.2g}" for f in diagnosis.findings if f.verdict != "good")
        row = (kind, target, str(key), diagnosis.verdict, why)
        table.add_row(*row)
        print(*row, f"{time.perf_counter() - begun:.0f} s", sep="  ", flush=True)
        if kind != "good, not within":
            count = right["good" if kind == "good" else "bad"]
            count[0] += (diagnosis.verdict == "good") == (kind == "good")
            count[1] += 1
    Console(width=120).print(table)
    print(f"good fits called good: {right['good'][0]} of {right['good'][1]}")
    print(f"bad fits called doubtful or bad: {right['bad'][0]} of {right['bad'][1]}")


if __name__ == "__main__":
    main()
