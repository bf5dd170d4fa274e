"""`civi.fit_many`: fits of one model to many data sets of the same shapes, which share their compiled programs."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from rich.table import Table

from civi.errors import SettingError, require
from civi.inference.arguments import as_words, check_count
from civi.inference.diagnose.diagnosis import Diagnosis
from civi.inference.fit import RUNS, fit
from civi.inference.programs import one_blas_thread
from civi.inference.seeds import derived, threefry
from civi.progress import TrainingBar, screen_of

FITTING, CHECKING = range(2)
OPTIONS = frozenset(inspect.signature(fit).parameters) - {"args", "kwargs"}
ROWS = 40
ORDER = ("error", "bad", "doubtful", "good", "not checked")


class Fitted(NamedTuple):
    """The fit of one data set: a posterior and its diagnosis, or an error."""

    posterior: Any
    diagnosis: Diagnosis | None
    error: Exception | None

    @property
    def verdict(self) -> str:
        """good, doubtful, bad, error or not checked."""
        if self.error is not None:
            return "error"
        return self.diagnosis.verdict if self.diagnosis else "not checked"


@dataclass(frozen=True)
class Fits(Sequence[Any]):
    """Posteriors in the order of the data sets; None where a fit failed. Rich prints a table of verdicts.

    Attributes:
        fitted: posterior, diagnosis and error of each data set.
        keys: the random key of each fit: `civi.fit(model, **datasets[i], key=fits.keys[i])` repeats it.
        seconds: wall time of all fits.
    """

    fitted: list[Fitted]
    keys: list[PRNGKeyArray]
    seconds: float

    def __len__(self) -> int:
        return len(self.fitted)

    def __getitem__(self, index: Any) -> Any:
        chosen = self.fitted[index]
        return [one.posterior for one in chosen] if isinstance(index, slice) else chosen.posterior

    def __iter__(self) -> Iterator[Any]:
        return iter([one.posterior for one in self.fitted])

    @property
    def verdicts(self) -> list[str]:
        """good, doubtful, bad, error or not checked, for each data set."""
        return [one.verdict for one in self.fitted]

    @property
    def errors(self) -> dict[int, Exception]:
        """The errors, by the number of the data set."""
        return {i: one.error for i, one in enumerate(self.fitted) if one.error is not None}

    def __str__(self) -> str:
        counts = [f"{self.verdicts.count(name)} {name}" for name in ORDER if name in self.verdicts]
        return f"{len(self)} fits in {self.seconds:.1f} s: {', '.join(counts)}"

    def __rich__(self) -> Table:
        caption = f"the worst {ROWS} of {len(self)}" if len(self) > ROWS else None
        table = Table("data set", "verdict", "why", title=str(self), caption=caption)
        order = sorted(range(len(self)), key=lambda i: ORDER.index(self.verdicts[i]))[:ROWS]
        for i in order:
            table.add_row(str(i), self.verdicts[i], _why(self.fitted[i]))
        return table


def fit_many(
    model: Callable[..., Any],
    datasets: Any,
    *args: Any,
    key: Any,
    diagnose: bool = True,
    workers: int | None = None,
    progress: bool = True,
    runs: int = RUNS,
    **kwargs: Any,
) -> Fits:
    """Fit one model to many data sets of the same shapes.

    The programs are compiled for the first data set and serve all others. The fit of a data set depends on its number
    and the key only, not on the other data sets or the number of workers. A data set whose fit fails does not end the
    others; its error is kept.

    Args:
        model: a NumPyro model or a log density, as `civi.fit` takes it.
        datasets: for each fit, the arguments of the model that differ, by name. All have the same names and shapes.
        *args: positional arguments of the model that are the same for all.
        key: random key, or a whole number as its seed.
        diagnose: whether to diagnose every fit, for the table of verdicts.
        workers: number of fits at a time; by default the number of cores divided by the number of runs of a fit, which
            use a core each.
        progress: whether to show a progress bar.
        runs: number of independent runs of each fit.
        **kwargs: arguments of the model by name that are the same for all, and options of `civi.fit`.

    Returns:
        The posteriors as a sequence, with `verdicts`, `errors` and `keys`.

    Example:
        >>> import civi
        >>> fits = civi.fit_many(
        ...     lambda z, centre: -0.5 * ((z - centre) ** 2).sum(),
        ...     [{"centre": 0.0}, {"centre": 5.0}],
        ...     key=0, dim=2, runs=1, progress=False,
        ... )
        >>> fits.verdicts
        ['good', 'good']
        >>> [round(float(one.sample(1).mean())) for one in fits]
        [0, 5]
    """
    begun, words = time.perf_counter(), as_words(key)
    sets = _checked(datasets)
    check_count("runs", runs)
    workers = max(1, (os.cpu_count() or 1) // runs) if workers is None else workers
    check_count("workers", workers)
    keys = [threefry(derived(words, FITTING, i)) for i in range(len(sets))]

    def one(i: int) -> Fitted:
        return _fitted(
            lambda: fit(model, *args, key=keys[i], runs=runs, progress=False, **kwargs, **sets[i]),
            threefry(derived(words, CHECKING, i)) if diagnose else None,
        )

    bar = TrainingBar(screen_of(progress), "fit_many", len(sets), counted="fitting")
    with one_blas_thread(), bar:
        bar.phase("the first fit, with compilation")
        fitted = _each(one, len(sets), workers, bar.update)
    fits = Fits(fitted, keys, time.perf_counter() - begun)
    if len(fits.errors) == len(sets):
        raise fits.errors[0]
    return fits


def _each(one: Callable[[int], Fitted], count: int, workers: int, show: Callable[[int], None]) -> list[Fitted]:
    """All fits. The first one is alone, because the others wait for its programs."""
    found = {0: one(0)}
    show(1)
    with ThreadPoolExecutor(workers) as pool:
        futures = {pool.submit(one, i): i for i in range(1, count)}
        try:
            for future in as_completed(futures):
                found[futures[future]] = future.result()
                show(len(found))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [found[i] for i in range(count)]


def _fitted(make: Callable[[], Any], key: PRNGKeyArray | None) -> Fitted:
    try:
        posterior = make()
        return Fitted(posterior, None if key is None else posterior.diagnose(key, progress=False), None)
    except Exception as error:
        return Fitted(None, None, error)


def _checked(datasets: Any) -> list[Mapping[str, Any]]:
    """The data sets; raises SettingError unless all are dictionaries with the same names and shapes."""
    listed = isinstance(datasets, Sequence) and not isinstance(datasets, str | bytes)
    form = "datasets must be a list of dictionaries, each with arguments of the model by name, such as [{'y': y0}, ...]"
    require(listed and all(isinstance(one, Mapping) for one in datasets), form)
    require(len(datasets) >= 1, "datasets is empty: give at least one")
    require(bool(datasets[0]), "the data sets have no arguments: give those of the model that differ, by name")
    reserved = sorted(OPTIONS & set(map(str, datasets[0])))
    require(not reserved, f"{', '.join(reserved)} is an option of civi.fit: rename this argument of the model")
    first = {name: _shape(value) for name, value in datasets[0].items()}
    for i, one in enumerate(datasets):
        shapes = {name: _shape(value) for name, value in one.items()}
        if set(shapes) != set(first):
            raise SettingError(f"data set {i} has the arguments {sorted(shapes)}, but data set 0 has {sorted(first)}")
        other = [name for name in first if shapes[name] != first[name]]
        if other:
            raise SettingError(
                f"{other[0]} of data set {i} differs in shape or type from that of data set 0: give data sets of one "
                "shape to fit_many, and use civi.fit for others"
            )
    return list(datasets)


def _shape(value: Any) -> Any:
    """The structure of an argument with the shape and the type of every array."""
    leaves, structure = jax.tree.flatten(value)
    return structure, [(np.shape(leaf), getattr(leaf, "dtype", type(leaf))) for leaf in leaves]


def _why(one: Fitted) -> str:
    """What is wrong with a fit, in one line."""
    if one.error is not None:
        return f"{type(one.error).__name__}: {one.error}"
    found = one.diagnosis.findings if one.diagnosis else []
    return "; ".join(f"{finding.name} {finding.value:.3g}" for finding in found if finding.verdict != "good")
