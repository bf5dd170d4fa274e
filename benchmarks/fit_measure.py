"""One measurement of the table of fits: `civi.fit` and a second fit, NUTS, or one of NumPyro's guides, on one model.

All times are wall seconds from a cold start, with the CPU seconds beside them: JAX's caches and those of civi are
cleared, programs saved on disk are not used, and the model is a new function object.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
from numpyro.infer import MCMC, NUTS

import civi
from civi.bench.timing import clocked
from civi.errors import CiviError
from civi.inference.programs import forget_programs
from fit_case import ModelCase, Sites
from fit_guides import guide_draws
from fit_judge import errors, judged
from fit_references import reference

DRAWS, JUDGED_DRAWS = 4000, 20_000
Result = dict[str, Any]
_compiled: list[float] = []


def prepare() -> None:
    """Count compiled programs from now on, leave programs saved on disk alone, and start JAX's backend."""
    jax.config.update("jax_enable_compilation_cache", False)
    jax.monitoring.register_event_duration_secs_listener(_on_event)
    jax.block_until_ready(jax.jit(lambda x: x + 1)(jnp.zeros(2)))


def _on_event(event: str, duration_secs: float, **_: str | int) -> None:
    if "backend_compile" in event:
        _compiled.append(duration_secs)


@contextmanager
def programs() -> Iterator[list[float]]:
    """The compile times of the programs that are compiled within the block, filled in at its end."""
    before = len(_compiled)
    within: list[float] = []
    yield within
    within.extend(_compiled[before:])


def by_civi(case: ModelCase, key: int, second: bool = True) -> Result:
    """`civi.fit` with its defaults, 4,000 draws and `diagnose`; with `second`, the same for other data of these shapes.

    Errors are those of JUDGED_DRAWS further draws, so that their Monte Carlo error is below a quarter of the limits. A
    fit that civi refuses counts as a miss.
    """
    chains, fresh = reference(case).draws, case.fresh()
    jax.clear_caches()
    forget_programs()
    try:
        with programs() as first:
            (posterior, diagnosis), seconds, cpu = clocked(lambda: _fitted(fresh, key))
        later = _second(fresh.with_other_data(), key + 1000) if second else {}
    except CiviError as error:
        failed = {"within": False, "complete": False, "verdict": "refused", "why": str(error)}
        return {"dim": chains.shape[-1], "rule": case.rule, **failed}
    elbo = posterior.elbo(jax.random.key(key + 3))
    found = judged(case, posterior.sample(jax.random.key(key + 2), JUDGED_DRAWS), chains)
    return found | {
        "seconds": seconds,
        "cpu": cpu,
        "programs": len(first),
        "compile_seconds": sum(first),
        **later,
        "verdict": diagnosis.verdict,
        "why": ", ".join(f"{f.name} {f.value:.2g}" for f in diagnosis.findings if f.verdict != "good"),
        "elbo": float(elbo.value),
        "elbo_se": float(elbo.se),
        "kl": -float(elbo.value) if case.normalised else None,
        "steps": len(posterior.history["step"]),
        "converged": posterior.converged,
        "message": posterior.message,
    }


def _second(case: ModelCase, key: int) -> Result:
    with programs() as compiled:
        _, seconds, cpu = clocked(lambda: _fitted(case, key))
    return {"second_seconds": seconds, "second_cpu": cpu, "second_programs": len(compiled)}


def _fitted(case: ModelCase, key: int) -> tuple[Any, Any]:
    posterior = civi.fit(case.model, *case.args, key=jax.random.key(key), progress=False, **case.kwargs)
    jax.block_until_ready(posterior.sample(jax.random.key(key + 1), DRAWS))
    return posterior, posterior.diagnose(jax.random.key(key + 2))


def by_nuts(case: ModelCase, key: int) -> Result:
    """NumPyro's NUTS with its defaults: four vectorised chains of 1,000 + 1,000."""
    chains, fresh = reference(case).draws, case.fresh()
    jax.clear_caches()
    (draws, divergences), seconds, cpu = clocked(lambda: _sampled(fresh, key))
    found = {"seconds": seconds, "cpu": cpu, "divergences": int(divergences)}
    return judged(case, draws, chains) | found


def _sampled(case: ModelCase, key: int) -> tuple[Sites, jax.Array]:
    mcmc = MCMC(
        NUTS(case.model),
        num_warmup=1000,
        num_samples=1000,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    with numpyro.validation_enabled(is_validate=False):
        mcmc.run(jax.random.PRNGKey(key), *case.args, **case.kwargs)
    return mcmc.get_samples(), mcmc.get_extra_fields()["diverging"].sum()


def by_guide(case: ModelCase, name: str, key: int, seconds: float) -> Result:
    """One of NumPyro's automatic guides for a given time."""
    chains = reference(case).draws
    jax.clear_caches()
    (draws, steps), taken, cpu = clocked(lambda: guide_draws(case, name, seconds, key))
    return errors(case, draws, chains) | {"seconds": taken, "cpu": cpu, "steps": steps}
