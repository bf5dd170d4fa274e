"""The summary of the table of fits: what is asked of `civi.fit`, and what was measured."""

from __future__ import annotations

from typing import Any

import numpy as np

Results = dict[str, dict[str, Any]]
SMALL = 20


def summary(results: Results) -> list[str]:
    """Lines of the summary, from results labelled "model method key"."""
    fits = {label: found for label, found in results.items() if label.split()[1] == "civi"}
    return _times(fits, results) + _accuracy(fits) + _verdicts(fits)


def _times(fits: Results, results: Results) -> list[str]:
    """Ratios to NUTS: the median over keys of each model, and for small models the largest."""
    fits = {label: found for label, found in fits.items() if "seconds" in found}
    nuts = {label.split()[0]: found for label, found in results.items() if label.split()[1] == "NUTS"}
    first, second, small, cpu = {}, {}, {}, {}
    for name in nuts:
        mine = [found for label, found in fits.items() if label.split()[0] == name]
        if mine:
            first[name] = float(np.median([found["seconds"] for found in mine])) / nuts[name]["seconds"]
            later = [found["second_seconds"] for found in mine if "second_seconds" in found]
            second[name] = float(np.median(later)) / nuts[name]["seconds"]
            cpu[name] = float(np.median([found["cpu"] for found in mine])) / nuts[name]["cpu"]
            if mine[0]["dim"] <= SMALL:
                small[name] = max(found["seconds"] for found in mine) / nuts[name]["seconds"]
    programs = {label: found["programs"] for label, found in fits.items()}
    again = {label: found["second_programs"] for label, found in fits.items() if "second_programs" in found}
    lines = []
    if first:
        lines.append(
            f"seconds of fit + 4,000 draws + diagnose over seconds of NUTS: median {_median(first)} (at most 1.0)"
        )
        lines.append(f"largest ratio with D <= {SMALL}: {_largest(small)} (at most 2.0)")
        lines.append(
            f"second fit of the same shapes over NUTS: median {_median(second)} (at most 0.3),"
            f" largest {_largest(second)}"
        )
        lines.append(f"CPU seconds over those of NUTS, which other work on the machine changes less: {_median(cpu)}")
    lines.append(f"XLA programs of a fit, draws and diagnose: at most {_largest(programs)} (at most 15)")
    lines.append(f"XLA programs of a second fit: at most {_largest(again)} (none)")
    return lines


def _accuracy(fits: Results) -> list[str]:
    within: dict[str, bool] = {}
    for label, found in fits.items():
        name = label.split()[0]
        within[name] = within.get(name, True) and found["within"]
    outside = ", ".join(name for name, good in within.items() if not good)
    kl = {label: found["kl"] for label, found in fits.items() if found.get("kl") is not None}
    lines = [
        f"models within on all keys: {sum(within.values())} of {len(within)}" + (f" (not {outside})" * bool(outside))
    ]
    return lines + ([f"KL(q || p) where log p is normalised: {_largest(kl)} (funnel at most 0.03)"] if kl else [])


def _verdicts(fits: Results) -> list[str]:
    """Verdicts are right if fits that are within and complete are good, and all others are not."""
    right = {label: found for label, found in fits.items() if found["within"] and found["complete"]}
    called_good = {label for label, found in fits.items() if found["verdict"] == "good"}
    missed = [label for label in fits if label not in right]
    models = {label.split()[0] for label in right}
    doubted = {label.split()[0] for label in right if label not in called_good}
    silent = [label for label in missed if label in called_good]
    return [
        f"misses called doubtful or bad: {len(missed) - len(silent)} of {len(missed)}"
        + (f" (not {', '.join(silent)})" * bool(silent)),
        f"fits within called good: {len(right) - len(set(right) - called_good)} of {len(right)}; "
        f"models on which every fit within is called good: {len(models - doubted)} of {len(models)}",
    ]


def _median(values: dict[str, float]) -> str:
    return f"{np.median(list(values.values())):.2f}"


def _largest(values: dict[str, Any]) -> str:
    if not values:
        return "-"
    label = max(values, key=lambda name: values[name])
    return f"{values[label]:.3g} ({label})"
