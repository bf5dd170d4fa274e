"""What is shown while something takes long: in a terminal, in a notebook and in a pipe."""

import io
import sys
import threading
from types import SimpleNamespace

import pytest
from rich.console import Console

from civi import progress
from civi.progress import TrainingBar, counted, phases, showing, time_left


class Notebook(Console):
    """A console in a notebook, whose output is a list of the drawn lines."""

    def __init__(self, monkeypatch):
        super().__init__(file=io.StringIO(), force_jupyter=True)
        self.drawn, self.appeared = [], threading.Event()
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
        self.appeared.set()
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


def test_a_quiet_notebook_draws_nothing_and_does_not_ask_for_widgets(monkeypatch):
    """Rich's own line of status warns that ipywidgets are missing, in a notebook that is to stay quiet too."""
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    console = Notebook(monkeypatch)
    console.quiet = True
    fit(console)
    with showing(console, "fit: reading the model") as say:
        say("fit: drawing")
    assert console.drawn == []
    with pytest.warns(UserWarning, match="ipywidgets"), console.status("as before") as status:
        status._live.refresh()


def test_a_pipe_stays_silent_where_colours_are_forced(monkeypatch, capsys):
    """Rich takes such a pipe for a terminal, as the second half shows."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    fit(progress.console())
    fit(progress.console(stderr=True))
    assert capsys.readouterr() == ("", "")
    fit(Console())
    assert "20/100" in capsys.readouterr().out


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


def test_work_that_takes_long_in_a_notebook_is_shown_until_it_ends(monkeypatch):
    monkeypatch.setattr("civi.notebook.DELAY", 0.0)
    console = Notebook(monkeypatch)
    with showing(console, "reading") as say:
        assert console.appeared.wait(60)
        say("writing")
    assert [bundle["text/plain"] for bundle in console.drawn] == ["reading", "writing", ""]


def test_short_work_leaves_nothing_in_a_notebook(monkeypatch):
    monkeypatch.setattr("civi.notebook.DELAY", 3600.0)
    console = Notebook(monkeypatch)
    with showing(console, "reading") as say:
        say("writing")
    assert console.drawn == []


@pytest.mark.parametrize(("shown", "quiet"), [(True, False), (False, True)])
def test_phases_go_to_the_standard_error_unless_they_are_switched_off(monkeypatch, shown, quiet):
    made = []
    monkeypatch.setattr(progress, "showing", lambda console, phase: made.append(console) or showing(console, phase))
    with phases("loo", shown) as say:
        say("smoothing")
    assert [(console.stderr, console.quiet) for console in made] == [(True, quiet)]


def test_counted_items_show_how_many_are_done_and_the_time_left(monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    times, said = iter([0.0, 0.0, 10.0, 20.0]), []
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
    assert list(counted("abc", "smoothing", said.append)) == ["a", "b", "c"]
    assert said == ["smoothing, 1/3, 0:00:20 left", "smoothing, 2/3, 0:00:10 left"]
