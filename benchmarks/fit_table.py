"""`civi.fit` with its defaults on twenty models beside NUTS: seconds, errors, verdicts and compiled programs.

    python benchmarks/fit_table.py [MODEL ...] [--keys 0,1,2] [--no-nuts] [--guides] [--force] [--out FILE]

For each model and key, in one process and from a cold start: the seconds of `civi.fit`, 4,000 draws and `diagnose`
together; and, once per model, those of a second fit with another key and other data of the same shapes, and those of
NUTS (NumPyro, four vectorised chains of 1,000 + 1,000). fit_judge.py has the rules by which draws are within or not;
NUTS is judged by the same. --guides adds NumPyro's automatic guides, trained for as long as civi took. Each result is
saved to a JSON file immediately, and is only computed again with --force.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from civi.folders import cache_folder
from fit_guides import GUIDES
from fit_measure import Result, by_civi, by_guide, by_nuts, prepare
from fit_models import MODELS
from fit_summary import summary

Results = dict[str, Result]
HEADER = (
    "model",
    "D",
    "method",
    "seconds",
    "/ NUTS",
    "second fit",
    "/ NUTS",
    "CPU s",
    "programs",
    "mean error",
    "sd ratio",
    "quantiles",
    "within",
    "verdict",
    "ELBO",
    "steps",
)


def main() -> None:
    """Measure what is missing, then print the table and the summary."""
    asked, console = _arguments(), Console(width=220)
    file = asked.out or cache_folder("fit-table") / "results.json"
    results: Results = json.loads(file.read_text()) if file.exists() else {}
    labels = [label for name in asked.models for label in _labels(name, asked)]
    prepare()
    for i, label in enumerate(labels):
        if label not in results or asked.force:
            console.print(f"[{i + 1}/{len(labels)}] {label} ...")
            results[label] = _measured(label, results)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(results, indent=1))
        console.print("  ".join(_row(label, results)), highlight=False)
    table = Table(*HEADER)
    for i, label in enumerate(labels):
        last = i + 1 == len(labels) or labels[i + 1].split()[0] != label.split()[0]
        table.add_row(*_row(label, results), end_section=last)
    console.print(table)
    print(*summary({label: results[label] for label in labels}), sep="\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--keys", type=lambda text: [int(key) for key in text.split(",")], default=[0, 1, 2])
    parser.add_argument("--no-nuts", action="store_true")
    parser.add_argument("--guides", action="store_true")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    asked.models = asked.models or list(MODELS)
    wrong = [name for name in asked.models if name not in MODELS]
    if wrong:
        parser.error(f"unknown model {wrong[0]}: known are {', '.join(MODELS)}")
    return asked


def _labels(name: str, asked: argparse.Namespace) -> list[str]:
    """The measurements of a model, as "model method key"."""
    methods = ["civi", *(GUIDES if asked.guides else ())]
    sampled = [] if asked.no_nuts else [f"{name} NUTS 0"]
    return sampled + [f"{name} {method} {key}" for key in asked.keys for method in methods]


def _measured(label: str, results: Results) -> Result:
    name, method, key = label.split()
    if method == "civi":
        first = not any(f"{name} civi" in other for other in results)
        return by_civi(MODELS[name], int(key), second=first)
    if method == "NUTS":
        return by_nuts(MODELS[name], int(key))
    return by_guide(MODELS[name], method, int(key), results[f"{name} civi {key}"]["seconds"])


def _row(label: str, results: Results) -> tuple[str, ...]:
    name, method, key = label.split()
    found, nuts = results[label], results.get(f"{name} NUTS 0", {}).get("seconds")

    def shown(field: str, form: str) -> str:
        return "-" if found.get(field) is None else format(found[field], form)

    def ratio(field: str) -> str:
        return f"{found[field] / nuts:.2f}" if nuts and field in found else "-"

    named = f"{method} {key}" if method != "NUTS" else method
    compiled = f"{found['programs']} + {found.get('second_programs', '-')}" if "programs" in found else "-"
    deviations = f"{shown('sd_ratio_min', '.2f')} to {shown('sd_ratio_max', '.2f')}"
    within = ("yes" if found["within"] else "no") + ("" if found.get("complete", True) else ", one mode")
    return (
        *(name, str(found["dim"]), named),
        *(shown("seconds", ".1f"), ratio("seconds"), shown("second_seconds", ".1f"), ratio("second_seconds")),
        *(shown("cpu", ".1f"), compiled, shown("mean_error_max", ".3f"), deviations, shown("quantile_error", ".2f")),
        *(within, f"{found.get('verdict', '-')} {found.get('why', '')}".strip()),
        *(shown("elbo", ".2f"), shown("steps", "d")),
    )


if __name__ == "__main__":
    main()
