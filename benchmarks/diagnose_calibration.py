"""How often `diagnose` is right: 20 good fits and 20 deliberately bad ones, each diagnosed once.

    python benchmarks/diagnose_calibration.py [--keys 0]

Good fits are those of `civi.fit` with its defaults on four targets with five keys each, if their means are within
0.1 sd and their sd ratios within 0.9 to 1.1 of exact draws. Bad fits are of four kinds, five each: too few steps, one
mode lost, scale halved, and mean shifted by one sd in every direction. --keys is the first key. During development,
--keys 100 was used.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import civi
from civi.inference.diagnose.agreement import moment_errors
from civi.inference.fit import guesses_of
from civi.inference.posterior import SemiImplicitPosterior
from civi.problem.target import LogDensity

KEYS = 5
LogDensityOfZ = Callable[[jax.Array], jax.Array]


@dataclass(frozen=True)
class Case:
    """A log density with exact draws."""

    name: str
    dim: int
    log_density: LogDensityOfZ
    draws: Callable[[np.random.Generator, int], np.ndarray]


def correlated(z: jax.Array) -> jax.Array:
    """A correlated Gaussian with scales 0.01, 1 and 50."""
    return -0.5 * jnp.sum((jnp.asarray(WHITENING) @ (z - jnp.asarray(MEAN))) ** 2)


def banana(z: jax.Array) -> jax.Array:
    """z_0 ~ N(0, 1), z_1 = z_0^2 + N(0, 1/2), z_2 ~ N(0, 1)."""
    return -0.5 * (z[0] ** 2 + (z[1] - z[0] ** 2) ** 2 / 0.5 + z[2] ** 2)


def student(z: jax.Array) -> jax.Array:
    """Independent Student t with 8 degrees of freedom in four dimensions."""
    return -4.5 * jnp.log1p(z**2 / 8).sum()


def skewed(z: jax.Array) -> jax.Array:
    """Logarithms of Gamma(a) variables, a = 1, 3 and 10, like a scale parameter on the log scale."""
    return (jnp.asarray(SHAPES) * z - jnp.exp(z)).sum()


def two_modes(z: jax.Array) -> jax.Array:
    """0.6 N((-3, 0), I / 2) + 0.4 N((3, 1), I / 2)."""
    away = [jnp.sum((z - jnp.asarray(place)) ** 2) for place in PLACES]
    return jnp.logaddexp(jnp.log(0.6) - away[0], jnp.log(0.4) - away[1])


def one_mode(z: jax.Array) -> jax.Array:
    """The first mode of `two_modes`."""
    return -jnp.sum((z - jnp.asarray(PLACES[0])) ** 2)


MEAN, SCALES = np.array([3.0, -1.0, 400.0]), np.array([0.01, 1.0, 50.0])
FACTOR = SCALES[:, None] * np.linalg.cholesky([[1.0, 0.8, 0.0], [0.8, 1.0, -0.3], [0.0, -0.3, 1.0]])
WHITENING = np.linalg.inv(FACTOR).astype(np.float32)
SHAPES, PLACES = (1.0, 3.0, 10.0), ((-3.0, 0.0), (3.0, 1.0))


def banana_draws(rng: np.random.Generator, count: int) -> np.ndarray:
    """Exact draws of the banana."""
    z = rng.normal(size=(count, 3))
    z[:, 1] = z[:, 0] ** 2 + np.sqrt(0.5) * z[:, 1]
    return z


CASES = (
    Case("Gaussian", 3, correlated, lambda rng, n: MEAN + rng.normal(size=(n, 3)) @ FACTOR.T),
    Case("banana", 3, banana, banana_draws),
    Case("Student t", 4, student, lambda rng, n: rng.standard_t(8, (n, 4))),
    Case("log gamma", 3, skewed, lambda rng, n: np.log(rng.gamma(SHAPES, size=(n, 3)))),
)


def fit(log_density: LogDensityOfZ, dim: int, key: int, steps: int | None = None) -> SemiImplicitPosterior:
    """`civi.fit` with its defaults, except for the number of steps and enough time for a busy machine."""
    return civi.fit(log_density, dim=dim, key=jax.random.key(key), steps=steps, seconds=600, progress=False)


def moved(posterior: SemiImplicitPosterior, shift: float, scale: float) -> SemiImplicitPosterior:
    """The same fit, moved by `shift` sd along every direction of its frame and scaled about its centre."""
    framed: Any = posterior.target
    frame = framed.frame
    centre = jnp.asarray(posterior.sample_unconstrained(jax.random.key(0), 2000).mean(0))
    location = centre + scale * (frame.location - centre) + shift * frame.factor.sum(1)
    parts = (location, scale * frame.factor)
    changed = eqx.tree_at(lambda framed: (framed.frame.location, framed.frame.factor), framed, parts)
    return replace(posterior, target=changed)


def without_a_mode(key: int) -> SemiImplicitPosterior:
    """A good fit of one mode, presented as a fit of both."""
    target = LogDensity(two_modes, 2)
    lost = fit(one_mode, 2, key)
    return replace(lost, target=eqx.tree_at(lambda s: s.target, lost.target, target), guesses=guesses_of(target))


def fits(first: int) -> Iterator[tuple[str, str, int, SemiImplicitPosterior]]:
    """Yield tuples (good or what is wrong, target, key, fit)."""
    keys = range(first, first + KEYS)
    for case in CASES:
        good = {key: fit(case.log_density, case.dim, key) for key in keys}
        rng = np.random.default_rng(first)
        exact = case.draws(rng, 100_000)
        for key, posterior in good.items():
            draws = posterior.sample_unconstrained(jax.random.key(key + 1), 20_000).astype(np.float64)
            errors = moment_errors(draws, exact)
            within = errors["mean_error_max"] <= 0.1 and 0.9 <= errors["sd_ratio_min"] <= errors["sd_ratio_max"] <= 1.1
            yield "good" if within else "good, not within", case.name, key, posterior
        if case.name in ("Gaussian", "banana"):
            some = list(good.items())[: 3 if case.name == "Gaussian" else 2]
            yield from (("scale halved", case.name, key, moved(p, 0.0, 0.5)) for key, p in some)
        if case.name in ("Student t", "log gamma"):
            some = list(good.items())[: 3 if case.name == "Student t" else 2]
            yield from (("mean shifted", case.name, key, moved(p, 1.0, 1.0)) for key, p in some)
        if case.name == "banana":
            yield from (("too few steps", case.name, key, fit(banana, 3, key, steps=40)) for key in keys)
        jax.clear_caches()
    yield from (("one mode lost", "two modes", key, without_a_mode(key)) for key in keys)


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
