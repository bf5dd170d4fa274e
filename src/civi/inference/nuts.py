"""NUTS (NumPyro): reference draws with R-hat and effective sample size, cached per target, settings and seed."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from civi.errors import SettingError, require
from civi.folders import cache_folder
from civi.interrupts import postponed
from civi.problem.target import Target
from civi.settings import Setting, check_settings, describe, listing, override, self_checking

UNREADABLE = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError, MemoryError),
    *(zipfile.BadZipFile, zlib.error),
)


@dataclass(frozen=True)
class Reference:
    """Draws of Markov chains and their diagnostics.

    Attributes:
        draws: draws after the warm-up, of shape (chain, draw, dim).
        r_hat: split R-hat of each parameter.
        effective_size: effective sample size of each parameter.
        divergences: number of divergent transitions.
    """

    draws: np.ndarray
    r_hat: np.ndarray
    effective_size: np.ndarray
    divergences: int

    def pooled(self, count: int) -> np.ndarray:
        """`count` evenly spaced draws of the concatenated chains, of shape (count, dim)."""
        every = self.draws.reshape(-1, self.draws.shape[-1])
        return every[np.linspace(0, len(every) - 1, count).astype(int)]


@self_checking
@dataclass(frozen=True)
class Nuts:
    """NUTS (NumPyro): reference draws from 4 Markov chains, cached."""

    chains: Annotated[int, "Number of Markov chains, which run in parallel."] = 4
    warmup: Annotated[int, "Warm-up transitions per chain, which are discarded."] = 1000
    draws: Annotated[int, "Draws per chain after the warm-up."] = 2500
    accept: Annotated[float, "Target acceptance probability of the step-size adaptation."] = 0.9
    depth: Annotated[int, "Maximum depth of the trees: a draw takes at most 2^depth - 1 gradients."] = 10

    def __post_init__(self) -> None:
        check_settings(self)
        require(self.chains >= 2, f"chains must be at least 2, so that R-hat can be computed, not {self.chains}")
        require(self.warmup >= 1, f"warmup must be at least 1, not {self.warmup}")
        require(self.draws >= 4, f"draws must be at least 4, not {self.draws}")
        require(0 < self.accept < 1, f"accept must be in (0, 1), not {self.accept}")
        require(1 <= self.depth <= 20, f"depth must be from 1 to 20, not {self.depth}")

    def described(self) -> dict[str, Any]:
        """All settings as JSON values, under the names that `changed` takes."""
        return describe(self)

    def listing(self) -> list[Setting]:
        """Every setting with its name, type, value and meaning."""
        return listing(self)

    def changed(self, steps: int | None, assignments: Sequence[str]) -> Nuts:
        """A copy with each name=value applied. `steps` is checked and ignored: NUTS has draws and warm-up instead."""
        require(steps is None or steps >= 1, f"steps must be at least 1, not {steps}")
        return override(self, assignments)

    def check(self, source: Any) -> None:
        """Accept any target with a log density on all its data."""
        in_memory = not hasattr(source, "feed")
        require(in_memory, "nuts evaluates all rows at every step, but these are read from disk: add --in-memory")

    def check_devices(self, devices: Mapping[str, int]) -> None:
        """Reject any distribution over devices: NUTS runs on one device."""
        raise SettingError("nuts runs on one device: leave --distributed out")

    def sample(self, target: Target, key: PRNGKeyArray) -> Reference:
        """Run all chains as one vectorised program, from random starts with standard deviation 2."""
        from numpyro.diagnostics import effective_sample_size, split_gelman_rubin  # noqa: PLC0415 start-up time
        from numpyro.infer import MCMC, NUTS  # noqa: PLC0415 start-up time

        start_key, run_key = jax.random.split(key)
        kernel = NUTS(
            potential_fn=lambda z: -target.log_prob(z), target_accept_prob=self.accept, max_tree_depth=self.depth
        )
        mcmc = MCMC(
            kernel,
            num_warmup=self.warmup,
            num_samples=self.draws,
            num_chains=self.chains,
            chain_method="vectorized",
            progress_bar=False,
        )
        first = 2 * jax.random.normal(start_key, (self.chains, target.dim))
        mcmc.run(run_key, init_params=first, extra_fields=("diverging",))
        draws = np.asarray(mcmc.get_samples(group_by_chain=True))
        divergences = int(np.asarray(mcmc.get_extra_fields()["diverging"]).sum())
        return Reference(draws, split_gelman_rubin(draws), effective_sample_size(draws), divergences)

    def cached(self, name: str, target: Target, seed: int) -> Reference:
        """The same as `sample`, but reads the draws from the cache if they are there.

        Args:
            name: name of the target, the first part of the file name.
            target: the target.
            seed: seed of the random key.
        """
        file = cache_folder("nuts") / f"{name}-{self._fingerprint(target, seed)}.npz"
        saved = _read(file, (self.chains, self.draws, target.dim))
        if saved is not None:
            return saved
        reference = self.sample(target, jax.random.key(seed))
        _write(file, reference)
        return reference

    def _fingerprint(self, target: Target, seed: int) -> str:
        """A hash of the settings, the seed and the target's values at fixed points, so that changes are noticed."""
        probe = jax.random.normal(jax.random.key(0), (8, target.dim))
        values = np.asarray(jax.jit(jax.vmap(target.log_prob))(probe)).round(3).tolist()
        content = json.dumps([asdict(self), seed, target.dim, values])
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def _read(file: Path, shape: tuple[int, ...]) -> Reference | None:
    """The draws in a file of the cache; None if it does not exist or is damaged, so that they are drawn again."""
    try:
        with np.load(file, allow_pickle=False) as saved:
            names = ("draws", "r_hat", "effective_size")
            found = Reference(**{name: saved[name] for name in names}, divergences=int(saved["divergences"]))
    except UNREADABLE:
        return None
    fits = found.draws.shape == shape and np.isfinite(found.draws).all()
    return found if fits and found.r_hat.shape == found.effective_size.shape == shape[-1:] else None


def _write(file: Path, reference: Reference) -> None:
    """Write draws to the cache; without a cache that can be written they are drawn anew each time."""
    part = file.with_suffix(f".{os.getpid()}.part.npz")
    with postponed():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            np.savez(part, **asdict(reference))
            part.replace(file)
        except OSError as error:
            warnings.warn(f"the draws of NUTS are not cached: {error}", stacklevel=3)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)
