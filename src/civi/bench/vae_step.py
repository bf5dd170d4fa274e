"""The paper's table of milliseconds per iteration on the autoencoder, ours in one run on this machine."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from rich.table import Table

from civi.bench.machine import product_rate, products
from civi.bench.timing import Advance, Timed, in_turns
from civi.bench.workloads import Workload, block, image_products, target, workload
from civi.family import Amortised
from civi.family.amortised import Encoder
from civi.family.mixing import MixingNetwork
from civi.problem.architecture import ImageArchitecture
from civi.solver import Model

PAPER = {"sivi": 155, "uivi": 69, "asc-pg": 157, "scgd": 152, "civi": 56}
SOLVERS = ("sivi", "uivi", "asc-pg", "scgd", "civi", "nmc-adam", "mfvb")
BATCH, INNER = 300, 30
JOINED = "civi, first layer not split"


class AsItIs(eqx.Module):
    """A reader that does nothing."""

    def __call__(self, x_J: Float[Array, "J X"]) -> Float[Array, "J X"]:
        """The data."""
        return x_J


class JoinedEncoder(Encoder):
    """A network on the joined vector [x, eps] for every pair: what the split first layer saves."""

    def __call__(self, feature: Float[Array, "*N X"], eps: Float[Array, "*M E"]) -> Float[Array, "*NM P"]:
        """Parameters of the conditional for every pair."""
        shape = jnp.broadcast_shapes(feature.shape[:-1], eps.shape[:-1])
        joined = [jnp.broadcast_to(part, (*shape, part.shape[-1])) for part in (feature, eps)]
        return self.rest(jnp.concatenate(joined, axis=-1))


def joined(family: Amortised) -> Amortised:
    """The same family with its first layer on the joined vector."""
    reader, encoder = family.mixing.reader, family.mixing
    first = jnp.concatenate([reader.weights[0], encoder.noise_weight])  # type: ignore[attr-defined, list-item]
    weights = (first, *encoder.rest.weights)
    biases = (reader.biases[0], *encoder.rest.biases)  # type: ignore[attr-defined]
    network = MixingNetwork(weights, biases, encoder.rest.activation)
    return Amortised(family.noise, JoinedEncoder(AsItIs(), None, network), family.conditional)


def measure(quick: bool, advance: Advance) -> dict[str, Any]:
    """Every solver with the paper's encoder and the same batch and inner samples, and the same without its split."""
    rounds, steps = (3, 5) if quick else (9, 10)
    works = {name: workload("mnist", name, outer=BATCH, batch=BATCH, inner=INNER) for name in SOLVERS}
    paper = Model.make(ImageArchitecture(), target("mnist"), jax.random.key(1))
    works |= {name: Workload(work.solver, paper) for name, work in works.items() if name != "mfvb"}
    works[JOINED] = Workload(works["civi"].solver, Model(joined(paper.family), paper.target))
    blocks = {}
    for name, work in works.items():
        advance(f"compiling {name}")
        blocks[name] = block(work, steps)
    shapes = image_products(BATCH, INNER)
    programs = {name: one.run for name, one in blocks.items()} | {"products": products(shapes, steps)}
    timed = {name: value.scaled(1 / steps) for name, value in in_turns(programs, rounds, advance).items()}
    rate = product_rate(shapes, timed.pop("products"))
    rows = [_row(name, value, blocks[name].flops, rate) for name, value in timed.items()]
    return {"batch": BATCH, "inner": INNER, "steps": steps, "rounds": rounds, "product_rate": rate, "rows": rows}


def _row(name: str, seconds: Timed, flops: float, rate: float) -> dict[str, Any]:
    return {
        "solver": name,
        "milliseconds": 1e3 * seconds.median,
        "quartiles": [1e3 * seconds.low, 1e3 * seconds.high],
        "paper_milliseconds": PAPER.get(name),
        "gigaflop": flops / 1e9,
        "share_of_product_rate": flops / seconds.median / rate,
    }


def table(found: dict[str, Any]) -> Table:
    """Milliseconds of a step beside the paper's, arithmetic, and the share of the product rate."""
    title = f"one step of the autoencoder, batch {found['batch']}, {found['inner']} inner samples"
    note = f"matrix products of the same shapes: {found['product_rate'] / 1e9:.0f} GFLOP/s"
    made = Table(title=title, caption=note, title_justify="left", caption_justify="left")
    for name in ("solver", "ms", "quartiles", "of civi", "paper's ms", "GFLOP", "of product rate"):
        made.add_column(name, justify="left" if name == "solver" else "right")
    civi = next(row["milliseconds"] for row in found["rows"] if row["solver"] == "civi")
    for row in found["rows"]:
        low, high = row["quartiles"]
        made.add_row(
            row["solver"],
            f"{row['milliseconds']:.1f}",
            f"{low:.1f} to {high:.1f}",
            f"{row['milliseconds'] / civi:.2f}",
            str(row["paper_milliseconds"] or ""),
            f"{row['gigaflop']:.2f}",
            f"{row['share_of_product_rate']:.0%}",
        )
    return made
