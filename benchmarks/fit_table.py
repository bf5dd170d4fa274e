"""`civi.fit` with its defaults on ten models, and NumPyro's guides with the same time, compared with NUTS.

    python benchmarks/fit_table.py [MODEL ...] [--key 0] [--seconds 60] [--no-guides] [--force] [--out FILE]

Errors are the largest over all unconstrained parameters: the error of the mean in posterior sd, and the ratio of
standard deviations. Each result is saved to a JSON file immediately, and is only recomputed with --force. Seconds are
wall time including compilation; CPU seconds show how busy the machine was with other work.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

import civi
from civi.bench.timing import clocked
from civi.folders import cache_folder
from civi.inference.diagnose.agreement import moment_errors
from fit_guides import GUIDES, guide_draws
from fit_models import MODELS, ModelCase
from fit_references import reference

HEADER = ("model", "D", "method", "mean error", "sd ratio", "within", "verdict", "seconds", "CPU seconds", "steps")
Result = dict[str, Any]


def main() -> None:
    """Print the table."""
    asked = _arguments()
    file = asked.out or cache_folder("fit-table") / f"key-{asked.key}.json"
    results: dict[str, Result] = json.loads(file.read_text()) if file.exists() else {}
    console, names = Console(width=140), asked.models or list(MODELS)
    methods = ["civi"] + ([] if asked.no_guides else list(GUIDES))
    for i, name in enumerate(names):
        for method in methods:
            label = f"{name} {method}"
            if label not in results or asked.force:
                console.print(f"[{i + 1}/{len(names)}] {label} ...")
                seconds = asked.seconds if method == "civi" else results[f"{name} civi"]["seconds"]
                results[label] = _measured(MODELS[name], method, asked.key, seconds)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(results, indent=1))
                jax.clear_caches()
            console.print("  ".join(_row(name, method, results[label])))
    console.print(_table(names, methods, results))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--key", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--no-guides", action="store_true")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    wrong = [name for name in asked.models if name not in MODELS]
    if wrong:
        parser.error(f"unknown model {wrong[0]}: known are {', '.join(MODELS)}")
    return asked


def _measured(case: ModelCase, method: str, key: int, seconds: float) -> Result:
    """Run a method, and compare the moments of its draws with the reference."""
    chains = reference(case).draws
    if method == "civi":
        draws, found = _by_civi(case, key, seconds)
    else:
        (draws, steps), taken, cpu = clocked(lambda: guide_draws(case, method, seconds, key))
        found = {"seconds": taken, "cpu": cpu, "steps": steps}
    errors = moment_errors(draws, chains.reshape(-1, chains.shape[-1])) if np.isfinite(draws).all() else {}
    return {"dim": draws.shape[1], **errors, **found}


def _by_civi(case: ModelCase, key: int, seconds: float) -> tuple[np.ndarray, Result]:
    options = {"key": jax.random.key(key), "seconds": seconds, "progress": False}
    posterior, _, cpu = clocked(lambda: civi.fit(case.model, *case.args, **options, **case.kwargs))
    diagnosis = posterior.diagnose(jax.random.key(key + 1))
    why = ", ".join(f"{f.name} {f.value:.2g}" for f in diagnosis.findings if f.verdict != "good")
    return posterior.sample_unconstrained(jax.random.key(key + 2), 20_000).astype(np.float64), {
        "verdict": f"{diagnosis.verdict} ({why})" if why else diagnosis.verdict,
        "seconds": posterior.seconds,
        "cpu": cpu,
        "steps": len(posterior.history["step"]),
        "message": posterior.message,
    }


def _row(name: str, method: str, result: Result) -> tuple[str, ...]:
    shown = (name, str(result["dim"]), method)
    ended = (result.get("verdict", "-"), f"{result['seconds']:.0f}", f"{result['cpu']:.0f}", str(result["steps"]))
    if "sd_ratio_min" not in result:
        return (*shown, "not finite", "not finite", "no", *ended)
    low, high, mean = (result[part] for part in ("sd_ratio_min", "sd_ratio_max", "mean_error_max"))
    within = "yes" if mean <= 0.1 and low >= 0.9 and high <= 1.1 else "no"
    return (*shown, f"{mean:.3f}", f"{low:.3f} to {high:.3f}", within, *ended)


def _table(names: list[str], methods: list[str], results: dict[str, Result]) -> Table:
    table = Table(*HEADER)
    for name in names:
        for method in methods:
            table.add_row(*_row(name, method, results[f"{name} {method}"]), end_section=method == methods[-1])
    return table


if __name__ == "__main__":
    main()
