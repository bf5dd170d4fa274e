"""Time to a posterior of given quality on waveform: civi compared with NumPyro's guides and NUTS.

Quality is the sliced Wasserstein distance to a long NUTS reference, in units of its floor: the distance between two
halves of the reference. Seconds are wall time including compilation, without the evaluation of the distance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import SVI, Trace_ELBO, autoguide
from rich.table import Table

from civi.bench.timing import Advance, clocked
from civi.bench.workloads import default_settings, source
from civi.experiment.plan import Plan
from civi.experiment.tasks.regression import RegressionTask, published
from civi.inference.diagnose.agreement import agreement
from civi.inference.nuts import Nuts
from civi.problem import make_problem
from civi.problem.target import outward
from civi.solver import train

ENOUGH, DRAWS = 1.3, 2 * RegressionTask.reference_draws
GUIDES = {"AutoMultivariateNormal": 1e-2, "AutoBNAFNormal": 3e-3}
QUICK_GUIDES, QUICK_REFERENCE = ("AutoMultivariateNormal",), 500
BLOCK, PARTICLES = 100, 16
Distance = Callable[[np.ndarray], float]


def measure(quick: bool, advance: Advance) -> dict[str, Any]:
    """Run each method until its distance is ENOUGH times the floor, or until its time limit."""
    advance("NUTS reference, cached")
    task = published("waveform")
    reference = (replace(task, reference_draws=QUICK_REFERENCE) if quick else task).reference()
    if reference is None:
        raise RuntimeError("waveform has a reference")

    def distance(draws: np.ndarray) -> float:
        found = agreement(draws, reference.draws)
        return found["sliced_wasserstein"] / found["sliced_wasserstein_floor"]

    advance("civi")
    rows = [_civi(distance)]
    for guide in QUICK_GUIDES if quick else GUIDES:
        advance(guide)
        rows.append(_guide(guide, 3.0 if quick else 90.0, distance))
    if not quick:
        advance("nuts")
        rows.append(_nuts(distance, 2500))
    return {"enough": ENOUGH, "draws": DRAWS, "rows": rows}


def _row(method: str, seconds: float, ratio: float, note: str) -> dict[str, Any]:
    return {"method": method, "seconds": seconds, "distance_to_floor": ratio, "note": note}


def _civi(distance: Distance) -> dict[str, Any]:
    """The default recipe, from the pilot to the draws; its learning rate decays to 0 at the last step."""

    def fit() -> tuple[np.ndarray, int]:
        settings = default_settings("waveform", "civi")
        family_key, train_key, _, draw_key = Plan.make("waveform", "civi", "default", 0, None, []).keys(0)
        seen = settings.pilot.look(source("waveform"))
        problem = make_problem(settings.family, seen, family_key, settings.problem)
        trained = train(settings.solver, problem, train_key)
        return np.asarray(outward(seen, trained.problem.family.sample(draw_key, DRAWS))), trained.steps

    (draws, steps), seconds, _ = clocked(fit)
    return _row("civi", seconds, distance(draws), f"{steps} steps")


def _guide(name: str, limit: float, distance: Distance) -> dict[str, Any]:
    """NumPyro's SVI with Adam, whose learning rate decays as 1 / sqrt(t); the distance is evaluated periodically."""
    log_density = source("waveform")

    def model() -> None:
        z = numpyro.sample("z", dist.ImproperUniform(dist.constraints.real_vector, (), (log_density.dim,)))
        numpyro.factor("log_p", log_density.log_prob(z))

    guide, rate = getattr(autoguide, name)(model), GUIDES[name]
    adam = numpyro.optim.Adam(lambda t: rate / (1 + t / 1000) ** 0.5)
    svi = SVI(model, guide, adam, Trace_ELBO(num_particles=PARTICLES))
    block = jax.jit(lambda state: jax.lax.fori_loop(0, BLOCK, lambda _, s: svi.update(s)[0], state))
    state, spent, _ = clocked(lambda: svi.init(jax.random.key(0)))
    steps, ratio, next_look = 0, np.inf, 2.0
    while steps == 0 or (spent < limit and ratio > ENOUGH):
        state, seconds, _ = clocked(partial(block, state))
        steps, spent = steps + BLOCK, spent + seconds
        if spent > min(next_look, limit):
            draws = guide.sample_posterior(jax.random.key(1), svi.get_params(state), sample_shape=(DRAWS,))["z"]
            ratio, next_look = distance(np.asarray(draws)), 1.25 * spent
    return _row(f"NumPyro {name}", spent, float(ratio), f"{steps} steps of {PARTICLES} draws")


def _nuts(distance: Distance, draws: int) -> dict[str, Any]:
    """The time for DRAWS effective draws, extrapolated from a run with `draws` draws per chain."""
    warm_up = clocked(lambda: Nuts(draws=4).sample(source("waveform"), jax.random.key(3))).seconds
    sampled, seconds, _ = clocked(lambda: Nuts(draws=draws).sample(source("waveform"), jax.random.key(4)))
    effective = float(sampled.effective_size.min())
    per_draw = max(seconds - warm_up, 0.0) / effective
    pooled = sampled.draws.reshape(-1, sampled.draws.shape[-1])
    note = f"{effective:,.0f} effective draws took {seconds:.1f} s, of which {warm_up:.1f} s warm-up and compilation"
    return _row("NUTS", warm_up + DRAWS * per_draw, distance(pooled), note)


def table(found: dict[str, Any]) -> Table:
    """One row per method."""
    title = f"waveform: seconds to {found['enough']} times the floor (NUTS: to {found['draws']:,} effective draws)"
    made = Table(title=title, title_justify="left")
    for name in ("method", "seconds", "distance / floor", "note"):
        made.add_column(name, justify="right" if name in ("seconds", "distance / floor") else "left")
    for row in found["rows"]:
        late = "" if row["distance_to_floor"] <= found["enough"] or row["method"] == "NUTS" else ", not reached"
        made.add_row(row["method"], f"{row['seconds']:.1f}", f"{row['distance_to_floor']:.2f}{late}", row["note"])
    return made
