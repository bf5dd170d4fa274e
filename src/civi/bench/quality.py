"""Seconds to a posterior of given quality on waveform: civi beside what one would take instead.

Quality is the sliced Wasserstein distance to a long reference of NUTS, in units of its floor (two halves of the
reference). Seconds are those of the clock, compilation included; looking at the distance is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from rich.table import Table

from civi.bench.timing import Advance
from civi.bench.workloads import target
from civi.experiment.plan import Plan
from civi.experiment.tasks.regression import REFERENCE_DRAWS, reference_of
from civi.inference.diagnose.agreement import agreement
from civi.inference.nuts import Nuts
from civi.solver import Model, train

ENOUGH, DRAWS = 1.3, 2 * REFERENCE_DRAWS
GUIDES = {"AutoMultivariateNormal": 1e-2, "AutoBNAFNormal": 3e-3}
BLOCK, PARTICLES = 100, 16


def measure(quick: bool, advance: Advance) -> dict[str, Any]:
    """Each method until its distance is ENOUGH times the floor, or its time is over."""
    limit = 20.0 if quick else 90.0
    advance("reference by NUTS, cached")
    reference = reference_of("waveform", target("waveform"))
    if reference is None:
        raise RuntimeError("waveform has a reference")

    def distance(draws: np.ndarray) -> float:
        found = agreement(draws, reference.draws)
        return found["sliced_wasserstein"] / found["sliced_wasserstein_floor"]

    advance("civi")
    rows = [_civi(distance)]
    for guide in GUIDES:
        advance(guide)
        rows.append(_guide(guide, limit, distance))
    advance("nuts")
    rows.append(_nuts(distance, 250 if quick else 2500))
    return {"enough": ENOUGH, "draws": DRAWS, "rows": rows}


def _row(method: str, seconds: float, ratio: float, note: str) -> dict[str, Any]:
    return {"method": method, "seconds": seconds, "distance_to_floor": ratio, "note": note}


def _civi(distance: Callable[[np.ndarray], float]) -> dict[str, Any]:
    """The default recipe, from the pilot to the draws; its learning rate falls to 0 at the last step."""
    begun = time.perf_counter()
    plan = Plan.make("waveform", "civi", "default", 0, None, [])
    family_key, train_key, _, draw_key = plan.keys(0)
    seen = plan.settings.pilot.look(target("waveform"))
    trained = train(plan.settings.solver, Model.make(plan.settings.family, seen, family_key), train_key)
    draws = np.asarray(trained.model.target.frame.outward(trained.model.family.sample(draw_key, DRAWS)))
    seconds = time.perf_counter() - begun
    return _row("civi", seconds, distance(draws), f"{trained.steps} steps")


def _guide(name: str, limit: float, distance: Callable[[np.ndarray], float]) -> dict[str, Any]:
    """SVI of NumPyro by Adam with a rate that falls as 1 / sqrt(t), looked at every few seconds."""
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import SVI, Trace_ELBO, autoguide

    log_density = target("waveform")

    def model() -> None:
        z = numpyro.sample("z", dist.ImproperUniform(dist.constraints.real_vector, (), (log_density.dim,)))
        numpyro.factor("log_p", log_density.log_prob(z))

    guide, rate = getattr(autoguide, name)(model), GUIDES[name]
    adam = numpyro.optim.Adam(lambda t: rate / (1 + t / 1000) ** 0.5)
    svi = SVI(model, guide, adam, Trace_ELBO(num_particles=PARTICLES))
    spent, steps, ratio, next_look = 0.0, 0, np.inf, 2.0
    begun = time.perf_counter()
    state = svi.init(jax.random.key(0))
    block = jax.jit(lambda state: jax.lax.fori_loop(0, BLOCK, lambda _, s: svi.update(s)[0], state))
    while spent < limit and ratio > ENOUGH:
        state = jax.block_until_ready(block(state))
        steps += BLOCK
        spent += time.perf_counter() - begun
        if spent > min(next_look, limit):
            draws = guide.sample_posterior(jax.random.key(1), svi.get_params(state), sample_shape=(DRAWS,))["z"]
            ratio, next_look = distance(np.asarray(draws)), 1.25 * spent
        begun = time.perf_counter()
    return _row(f"NumPyro {name}", spent, float(ratio), f"{steps} steps of {PARTICLES} draws")


def _nuts(distance: Callable[[np.ndarray], float], draws: int) -> dict[str, Any]:
    """The time for DRAWS effective draws, from the rate of a run of `draws` a chain."""
    nuts = Nuts(draws=draws)
    warm_up = _timed(lambda: Nuts(draws=4).sample(target("waveform"), jax.random.key(3)))[1]
    sampled, seconds = _timed(lambda: nuts.sample(target("waveform"), jax.random.key(4)))
    effective = float(sampled.effective_size.min())
    per_draw = max(seconds - warm_up, 0.0) / effective
    pooled = sampled.draws.reshape(-1, sampled.draws.shape[-1])
    note = f"{effective:,.0f} effective draws took {seconds:.1f} s, of which {warm_up:.1f} s warm-up and compiling"
    return _row("NUTS", warm_up + DRAWS * per_draw, distance(pooled), note)


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.perf_counter()
    result = call()
    return result, time.perf_counter() - begun


def table(found: dict[str, Any]) -> Table:
    """A line for each method."""
    title = f"waveform: seconds to {found['enough']} times the floor (NUTS: to {found['draws']:,} effective draws)"
    made = Table(title=title, title_justify="left")
    for name in ("method", "seconds", "distance / floor", "what it took"):
        made.add_column(name, justify="right" if name in ("seconds", "distance / floor") else "left")
    for row in found["rows"]:
        late = "" if row["distance_to_floor"] <= found["enough"] or row["method"] == "NUTS" else ", not there"
        made.add_row(row["method"], f"{row['seconds']:.1f}", f"{row['distance_to_floor']:.2f}{late}", row["note"])
    return made
