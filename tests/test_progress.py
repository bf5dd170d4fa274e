"""What is shown while something takes long: in a terminal, in a notebook and in a pipe."""

import io
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from civi.progress import TrainingBar, showing, time_left


class Notebook(Console):
    """A console in a notebook, whose output is a list of the drawn lines."""

    def __init__(self, monkeypatch):
        super().__init__(file=io.StringIO(), force_jupyter=True)
        self.drawn = []
        handle = SimpleNamespace(update=self.draw)
        monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=self.display))
        monkeypatch.setattr("civi.notebook.INTERVAL", 0.0)
        self.handle = handle

    def draw(self, bundle, raw):
        assert raw
        self.drawn.append(bundle)

    def display(self, bundle, raw, display_id):
        assert display_id
        self.draw(bundle, raw)
        return self.handle


def fit(console: Console) -> None:
    """A fit of at most 100 steps that ends after 20."""
    with showing(console, "fit: reading the model"):
        pass
    with TrainingBar(console, "fit", 100, at_most=True) as bar:
        bar.phase("pilot")
        bar.phase("training")
        bar.update(10, 3.5)
        bar.update(20, 2.25)
        bar.phase("evaluating")


def test_a_pipe_stays_silent():
    console = Console(file=io.StringIO())
    fit(console)
    assert console.file.getvalue() == ""


def test_a_terminal_shows_every_phase_and_ends_at_the_steps_that_were_done():
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    fit(console)
    shown = console.file.getvalue()
    last = shown.splitlines()[-2]
    assert "fit: reading the model" in shown
    assert last.rstrip().endswith("20/100 neg_elbo 2.2500 0:00:00")
    assert "100/100" not in shown


def test_a_notebook_shows_every_phase_in_one_line(monkeypatch):
    console = Notebook(monkeypatch)
    fit(console)
    texts = [bundle["text/plain"] for bundle in console.drawn]
    assert texts == [
        "fit: reading the model",
        "",
        "fit: compiling, 0/100",
        "fit: pilot, 0/100",
        "fit: training, 0/100",
        "fit: training, 10/100 neg_elbo 3.5000, at most 0:00:00 left",
        "fit: training, 20/100 neg_elbo 2.2500, at most 0:00:00 left",
        "fit: evaluating, 20/100 neg_elbo 2.2500",
        "fit, 20/100 neg_elbo 2.2500, 0:00:00",
    ]
    assert '<progress value="20" max="100">' in console.drawn[-1]["text/html"]
    assert console.file.getvalue() == ""


def test_a_failure_leaves_no_bar_behind():
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    with pytest.raises(ZeroDivisionError), TrainingBar(console, "fit", 100):
        _ = 1 / 0
    assert console.file.getvalue().endswith("\x1b[2K")


def test_the_time_left_is_that_of_the_remaining_steps():
    assert time_left(10.0, 5, 1850) == "1:01:40 left"
