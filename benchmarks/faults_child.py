"""`civi ARGUMENTS` on small tasks, with a fault at a given moment; started by faults.py. --no-report: also no figures.

FAULTS_SIGNAL=SIGTERM FAULTS_AT=compile_and_load   sends this signal to itself once the main thread is in this function
FAULTS_FULL=5                                      the fifth and all later writes below FAULTS_FOLDER find the disk full
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from dataclasses import replace
from typing import Any

import numpy as np

from civi.cli.__main__ import main
from civi.experiment import compare, run, tasks
from civi.experiment.data.images import ImageData
from civi.experiment.tasks import regression
from civi.experiment.tasks.images import ImageTask
from civi.experiment.tasks.posterior import PosteriorTask

PIXELS, ROWS = 784, 40


def small_tasks() -> None:
    """Replace banana, mnist, waveform and regression by tasks with fewer samples and synthetic images."""
    found = tasks.Entry.make
    pixels = (np.random.default_rng(0).random((2, ROWS, PIXELS)) < 0.3).astype(np.uint8)
    images = ImageData(pixels[0], pixels[1], grey=False, source="random dots")

    def make(entry: Any, name: str) -> Any:
        task: Any = found(entry, name)
        if name == "mnist":
            return replace(task, load=lambda: images, test_draws=2, quick_draws=2, shown_images=4, walks=1)
        if name == "banana":
            return replace(task, draws=200, outer=200, inner=200, quick_outer=50, quick_inner=50)
        if name == "waveform":
            return replace(task, draws=500, outer=2000, inner=2000, reference_rows=1000)
        return task

    tasks.Entry.make = make  # type: ignore[method-assign, assignment]
    own_table = regression.own_table
    regression.own_table = lambda *data: replace(own_table(*data), draws=200, outer=200, inner=200)


def without_figures() -> None:
    """Draw no figures, which take a third of the time of a small run."""
    for task in (PosteriorTask, ImageTask):
        task.draw = lambda *_: None  # type: ignore[method-assign]
    run.draw_history = lambda history, path: path
    compare._draw = lambda *_: None


def send_signal_in(function: str, number: int) -> None:
    """Send a signal to this process as soon as the main thread has entered a function of this name.

    A shell lets processes in the background ignore some signals, and civi would go on ignoring them.
    """
    signal.signal(number, signal.SIG_DFL)
    entered = threading.Event()

    def profile(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == function:
            sys.setprofile(None)
            entered.set()

    def watch() -> None:
        entered.wait()
        os.kill(os.getpid(), number)

    threading.Thread(target=watch, daemon=True).start()
    sys.setprofile(profile)


def fill_disk_at(which: int, folder: str) -> None:
    """Let the given write below a folder, and all later ones, fail as on a full disk."""
    writes = [0]

    def hook(event: str, details: tuple[Any, ...]) -> None:
        if event not in ("open", "os.mkdir", "os.rename") or not str(details[0]).startswith(folder):
            return
        if event == "open" and not (details[1] and set(str(details[1])) & set("wxa+")) and not _creates(details[2]):
            return
        writes[0] += 1
        if writes[0] >= which:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(details[0]))

    sys.addaudithook(hook)


def _creates(flags: Any) -> bool:
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


if __name__ == "__main__":
    small_tasks()
    if "--no-report" in sys.argv:
        without_figures()
    if "FAULTS_AT" in os.environ:
        send_signal_in(os.environ["FAULTS_AT"], getattr(signal, os.environ["FAULTS_SIGNAL"]))
    if "FAULTS_FULL" in os.environ:
        fill_disk_at(int(os.environ["FAULTS_FULL"]), os.environ["FAULTS_FOLDER"])
    main()
