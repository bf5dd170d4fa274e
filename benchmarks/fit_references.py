"""Reference draws of the unconstrained parameters of the models in fit_models.py, cached.

python benchmarks/fit_references.py          makes missing references and prints the diagnostics of all

References are NUTS in double precision, unless better draws exist. The funnel and the Gaussian have independent draws.
On the centred eight schools, NUTS diverges and misses the neck of the funnel: with 25,000 draws per chain and target
acceptance 0.99 it has 272 divergences, and the sd of log tau is 1.05 instead of 1.17, although R-hat is 1.001. Its
reference is therefore that of the non-centred model, transformed exactly by theta = mu + tau z.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import initialize_model
from rich.console import Console
from rich.table import Table

from civi.bench.timing import clocked
from civi.folders import cache_folder
from civi.inference.load_arviz import import_arviz
from fit_models import MODELS, ModelCase


@dataclass(frozen=True)
class FitReference:
    """Reference draws and their diagnostics.

    Attributes:
        draws: unconstrained draws (chain, draw, D) in the order of `ravel_pytree`.
        r_hat: rank-normalised R-hat (D,).
        effective_size: bulk effective sample size (D,).
        divergences: number of divergent transitions.
        seconds: wall time.
    """

    draws: np.ndarray
    r_hat: np.ndarray
    effective_size: np.ndarray
    divergences: int
    seconds: float


@dataclass(frozen=True)
class Sampling:
    """Settings of NUTS; independent draws use only chains, draws and seed."""

    chains: int = 4
    warmup: int = 2000
    draws: int = 20_000
    accept: float = 0.95
    seed: int = 0


@dataclass(frozen=True)
class Unconstrained:
    """The log density of a model as a function of a vector in the order of `ravel_pytree`, and starts (chain, D)."""

    log_density: Callable[[jax.Array], jax.Array]
    starts: jax.Array


SAMPLING = {name: Sampling(accept=0.99) for name in ("eight-schools-centred", "eight-schools-noncentred", "garch11")}


def unconstrained(case: ModelCase, chains: int, seed: int) -> Unconstrained:
    """The log density that NumPyro itself samples, as a function of a vector."""
    keys = jax.random.split(jax.random.PRNGKey(seed), chains)
    info = initialize_model(keys, case.model, model_args=case.args, model_kwargs=dict(case.kwargs))
    _, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], info.param_info.z))
    starts = jax.vmap(lambda z: ravel_pytree(z)[0])(info.param_info.z)
    return Unconstrained(lambda vector: -info.potential_fn(unravel(vector)), starts)


def nuts(case: ModelCase, sampling: Sampling) -> tuple[np.ndarray, int]:
    """Draws (chain, draw, D) with a dense mass matrix, and the number of divergences."""
    target = unconstrained(case, sampling.chains, sampling.seed)
    kernel = NUTS(
        potential_fn=lambda vector: -target.log_density(vector),
        target_accept_prob=sampling.accept,
        dense_mass=True,
    )
    mcmc = MCMC(
        kernel,
        num_warmup=sampling.warmup,
        num_samples=sampling.draws,
        num_chains=sampling.chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.PRNGKey(sampling.seed + 1), init_params=target.starts, extra_fields=("diverging",))
    return np.asarray(mcmc.get_samples(group_by_chain=True)), int(mcmc.get_extra_fields()["diverging"].sum())


def independent(case: ModelCase, sampling: Sampling) -> tuple[np.ndarray, int]:
    """Independent draws of the case's own sampler, shaped as chains."""
    if case.exact_unconstrained_draws is None:
        raise ValueError(f"{case.name} has no sampler of independent draws")
    draws = case.exact_unconstrained_draws(np.random.default_rng(sampling.seed), sampling.chains * sampling.draws)
    return draws.reshape(sampling.chains, sampling.draws, -1), 0


def centred_schools(case: ModelCase, sampling: Sampling) -> tuple[np.ndarray, int]:
    """Draws of the non-centred model (mu, log tau, z), transformed to (mu, log tau, theta)."""
    draws, divergences = nuts(MODELS["eight-schools-noncentred"], sampling)
    mu, log_tau, z = np.split(draws, [1, 2], axis=-1)
    return np.concatenate([mu, log_tau, mu + np.exp(log_tau) * z], axis=-1), divergences


SAMPLERS = {"eight-schools-centred": centred_schools}


def reference(case: ModelCase, sampling: Sampling | None = None) -> FitReference:
    """The reference of this case, cached by its log density and the settings of the sampler."""
    sampling = sampling or SAMPLING.get(case.name, Sampling())
    with jax.enable_x64(True):
        file = cache_folder("fit-references") / f"{case.name}-{fingerprint(case, sampling)}.npz"
        if file.exists():
            with np.load(file, allow_pickle=False) as saved:
                return FitReference(
                    **{name: saved[name] for name in ("draws", "r_hat", "effective_size")},
                    divergences=int(saved["divergences"]),
                    seconds=float(saved["seconds"]),
                )
        made = make(case, sampling)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}.part.npz")
    np.savez(part, **asdict(made))
    part.replace(file)
    return made


def make(case: ModelCase, sampling: Sampling) -> FitReference:
    """Make a reference with the best available sampler, without the cache."""
    sampler = independent if case.exact_unconstrained_draws else SAMPLERS.get(case.name, nuts)
    (draws, divergences), seconds, _ = clocked(lambda: sampler(case, sampling))
    arviz = import_arviz()
    as_dataset = arviz.convert_to_dataset(draws)
    r_hat = arviz.rhat(as_dataset, method="rank")["x"].to_numpy()
    return FitReference(draws, r_hat, arviz.ess(as_dataset, method="bulk")["x"].to_numpy(), divergences, seconds)


def fingerprint(case: ModelCase, sampling: Sampling) -> str:
    """A hash of the settings and of the log density at fixed points, rounded to six digits."""
    target = unconstrained(case, 1, 0)
    points = np.random.default_rng(0).normal(size=(8, target.starts.shape[-1]))
    values = np.asarray(jax.jit(jax.vmap(target.log_density))(points))
    content = json.dumps([case.name, asdict(sampling), points.shape, [f"{value:.6g}" for value in values]])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def main() -> None:
    """Print the table."""
    table = Table("model", "D", "R-hat max", "ESS min", "divergences", "seconds")
    for case in MODELS.values():
        made = reference(case)
        table.add_row(
            case.name,
            str(made.draws.shape[-1]),
            f"{made.r_hat.max():.4f}",
            f"{made.effective_size.min():.0f}",
            str(made.divergences),
            f"{made.seconds:.1f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
