"""Checkpoints of a run, written by Orbax: state and history. Writing is atomic, and only the last few are kept."""

from __future__ import annotations

import hashlib
import logging
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np

from civi.errors import CheckpointError, OutputError
from civi.interrupts import postponed
from civi.solver.loop import RunState, empty_history

CHECKPOINTS_KEPT = 3
DEFAULT_STEPS_BETWEEN = 1000
DEFAULT_SECONDS_BETWEEN = 10.0
History = dict[str, np.ndarray]


class Checkpoints:
    """The checkpoints in one folder, named by step.

    Args:
        folder: where the checkpoints are written.
        every: steps between checkpoints. None: DEFAULT_STEPS_BETWEEN, but at least DEFAULT_SECONDS_BETWEEN of training
            apart, so that saving takes about 1 % of the time of a run with short steps.
        warn: shows a line about a checkpoint that cannot be written, and the run goes on; None: this is an error.
    """

    def __init__(self, folder: Path, every: int | None, warn: Callable[[str], object] | None = None) -> None:
        import orbax.checkpoint as ocp  # noqa: PLC0415 start-up time

        silence_orbax()
        options = ocp.CheckpointManagerOptions(max_to_keep=CHECKPOINTS_KEPT, enable_async_checkpointing=False)
        self.every = DEFAULT_STEPS_BETWEEN if every is None else every
        self._least_seconds = DEFAULT_SECONDS_BETWEEN if every is None else 0.0
        self._saved_at = 0.0
        self._folder = folder.resolve()
        self._warn = warn
        self._args = ocp.args
        self._open = lambda: ocp.CheckpointManager(self._folder, options=options)
        self._damaged: set[int] = set()
        self._failed: int | None = None
        try:
            self._manager = self._open()
        except OSError as error:
            raise OutputError(f"cannot write to {folder}: {reason_of(error)}") from error

    def save_if_due(self, state: RunState, history: History) -> None:
        """Write a checkpoint of this step if one is due; the elapsed time is read from the history."""
        seconds = float(history["seconds"][-1])
        if int(state.done) % self.every == 0 and seconds - self._saved_at >= self._least_seconds:
            self.save(state, history)
            self._saved_at = seconds

    def save(self, state: RunState, history: History) -> None:
        """Write a checkpoint of this step, unless it already exists; an interrupt waits until it is written.

        If it cannot be written, for example because the disk is full, `warn` gets a line and the run goes on. Without
        `warn` this is an OutputError.
        """
        step = int(state.done)
        with postponed():
            try:
                self._write(step, state, history)
            except Exception as error:
                self._remove_unfinished(step)
                line = f"cannot write checkpoint {self._folder / str(step)}: {reason_of(error)}"
                if self._warn is None:
                    raise OutputError(line) from error
                if step != self._failed:
                    self._warn(f"{line}; the checkpoints before it are kept, and training goes on")
                self._failed = step
                with quiet(), suppress(Exception):
                    self._manager = self._open()

    def _write(self, step: int, state: RunState, history: History) -> None:
        if step in self._damaged:
            self._manager.delete(step)
            self._damaged.remove(step)
        if step not in self._manager.all_steps():
            arrays = {"state": _to_arrays(state)} | ({"history": history} if len(history["step"]) else {})
            content = {**arrays, "checksum": _checksum(arrays)}
            with quiet():
                self._manager.save(step, args=self._args.Composite(run=self._args.StandardSave(content)))

    def _remove_unfinished(self, step: int) -> None:
        """Remove what a failed attempt has left; the first process writes, and it removes."""
        if jax.process_index() == 0:
            for path in self._folder.glob(f"{step}.*-tmp*"):
                shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Close the checkpoint manager after the last checkpoint."""
        self._manager.close()

    @property
    def is_empty(self) -> bool:
        """Whether there is no checkpoint yet."""
        return not self._manager.all_steps()

    def restore(self, template: RunState) -> tuple[RunState, History, list[str]]:
        """Restore the newest readable checkpoint.

        Args:
            template: a state with the structure, shapes and types to expect.

        Returns:
            The state, the history, and a warning for every newer checkpoint that is damaged.
        """
        lines: list[str] = []
        for step in sorted(self._manager.all_steps(), reverse=True):
            try:
                return *self._read(step, template), lines
            except Exception as error:
                lines.append(f"checkpoint {self._folder / str(step)} is damaged and was not used: {reason_of(error)}")
                self._damaged.add(step)
        if lines:
            raise CheckpointError("; ".join(lines))
        raise CheckpointError(f"there is no checkpoint in {self._folder} to resume from: run without --resume")

    def _read(self, step: int, template: RunState) -> tuple[RunState, History]:
        with quiet():
            saved = self._manager.restore(step, args=self._args.Composite(run=self._args.StandardRestore()))["run"]
        checksum = saved.pop("checksum")
        if not np.array_equal(checksum, _checksum(saved)):
            raise CheckpointError("its content does not match its checksum")
        state, history = _from_arrays(saved["state"], template), empty_history()
        return state, {name: saved["history"][name] for name in history} if "history" in saved else history


def reason_of(error: BaseException) -> str:
    """What went wrong, in a few words: the operating system's or else Orbax's first line."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    known = [name for name in ("No space left on device", "File too large", "Permission denied") if name in str(error)]
    text = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
    return known[0] if known else text


def silence_orbax() -> None:
    """Turn off the logging of Orbax and asyncio, and the tracebacks of reads that end after another one failed."""
    for logger in ("absl", "asyncio"):
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
    if sys.unraisablehook is not _unless_loop_closed:
        _shown.append(sys.unraisablehook)
        sys.unraisablehook = _unless_loop_closed


_shown: list[Callable[[Any], Any]] = []


def _unless_loop_closed(unraisable: Any) -> None:
    """Show an error as before, unless it comes from a read that ended after its event loop was closed."""
    error = unraisable.exc_value
    if not (isinstance(error, RuntimeError) and str(error) == "Event loop is closed"):
        _shown[-1](unraisable)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the threads of Orbax from printing the tracebacks of errors that are also raised here."""
    hook, threading.excepthook = threading.excepthook, lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        threading.excepthook = hook


def _checksum(arrays: dict[str, dict[str, np.ndarray]]) -> np.ndarray:
    """SHA-256 of all arrays, sorted by name."""
    digest = hashlib.sha256()
    for group in sorted(arrays):
        for name, value in sorted(arrays[group].items()):
            digest.update(name.encode() + np.ascontiguousarray(value).tobytes())
    return np.frombuffer(digest.digest(), np.uint8)


def _to_arrays(state: RunState) -> dict[str, np.ndarray]:
    """All leaves, named by position; random keys are stored as their key data."""
    return {f"{i:04d}": np.asarray(_plain(leaf)) for i, leaf in enumerate(jax.tree.leaves(state))}


def _from_arrays(saved: dict[str, Any], template: RunState) -> RunState:
    leaves, structure = jax.tree.flatten(template)
    if len(saved) != len(leaves):
        raise CheckpointError(f"it holds {len(saved)} arrays, this run has {len(leaves)}")
    restored = []
    for leaf, (name, value) in zip(leaves, sorted(saved.items()), strict=True):
        plain = _plain(leaf)
        if value.shape != plain.shape or value.dtype != plain.dtype:
            raise CheckpointError(f"array {name} is {value.dtype}{value.shape}, expected {plain.dtype}{plain.shape}")
        array = jax.numpy.asarray(value)
        restored.append(jax.random.wrap_key_data(array) if _is_key(leaf) else array)
    return jax.tree.unflatten(structure, restored)


def _is_key(leaf: Any) -> bool:
    return jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf
