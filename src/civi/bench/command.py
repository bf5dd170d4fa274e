"""`civi bench`: parts by name, a table on screen and JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
from rich.console import Console
from rich.table import Table

from civi.bench import vae_step
from civi.errors import unknown
from civi.report.files import write_json

Part = tuple[Callable[..., dict[str, Any]], Callable[[dict[str, Any]], Table]]


def vae_step_table(found: dict[str, Any]) -> Table:
    """Milliseconds of a step beside the paper's, arithmetic, and the share of the product rate."""
    title = f"one step of the autoencoder, batch {found['batch']}, {found['inner']} inner samples"
    note = f"matrix products of the same shapes: {found['product_rate'] / 1e9:.0f} GFLOP/s"
    table = Table(title=title, caption=note, title_justify="left", caption_justify="left")
    for name in ("solver", "ms", "quartiles", "of civi", "paper's ms", "GFLOP", "of product rate"):
        table.add_column(name, justify="left" if name == "solver" else "right")
    civi = next(row["milliseconds"] for row in found["rows"] if row["solver"] == "civi")
    for row in found["rows"]:
        low, high = row["quartiles"]
        table.add_row(
            row["solver"],
            f"{row['milliseconds']:.1f}",
            f"{low:.1f} to {high:.1f}",
            f"{row['milliseconds'] / civi:.2f}",
            str(row["paper_milliseconds"] or ""),
            f"{row['gigaflop']:.2f}",
            f"{row['share_of_product_rate']:.0%}",
        )
    return table


PARTS: dict[str, Part] = {"vae-step": (vae_step.measure, vae_step_table)}


def bench(part: str, console: Console, *, quick: bool, out: Path | None) -> dict[str, Any]:
    """Run the parts, show their tables, and write all figures with what they were measured on."""
    if part != "all" and part not in PARTS:
        raise unknown("part of the benchmark", part, ["all", *PARTS])
    found: dict[str, Any] = {"machine": _machine()}
    for name in PARTS if part == "all" else [part]:
        measure, table = PARTS[name]
        with console.status(f"{name}: compiling") as status:
            shown = lambda done, name=name, status=status: status.update(f"{name}: {done}")  # noqa: E731
            found[name] = measure(rounds=3 if quick else 9, steps=5 if quick else 10, advance=shown)
        console.print(table(found[name]))
        if out:
            write_json(out, found)
    return found


def _machine() -> dict[str, Any]:
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "jax": jax.__version__,
    }
