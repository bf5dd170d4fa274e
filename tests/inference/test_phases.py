"""What the calls of a posterior say while they work."""

from contextlib import contextmanager

import pytest

from civi import progress
from exact_posterior import X, Y, exact, line


@pytest.fixture(scope="module")
def posterior():
    return exact(line, X, Y)


@pytest.fixture
def said(monkeypatch):
    """Everything that is shown on a console that is not quiet."""
    texts = []

    @contextmanager
    def recorded(console, phase):
        yield (lambda text: None) if console.quiet else texts.append

    monkeypatch.setattr(progress, "showing", recorded)
    return texts


CALLS = {
    "elbo": (lambda one, **how: one.elbo(0, inner=1000, **how), ["weighing 4,000 draws"]),
    "diagnose": (
        lambda one, **how: one.diagnose(0, **how),
        [
            *("weighing 4,000 draws", "weighing 16,000 draws"),
            "checking the modes of the pilot and the tail of the weights",
        ],
    ),
    "loo": (
        lambda one, **how: one.loo(0, 100, **how),
        [
            *("weighing 100 draws", "evaluating the likelihood of each observation"),
            "smoothing the weights of each observation",
        ],
    ),
    "refine": (
        lambda one, **how: one.refine(0, draws=4, chains=2, warmup=1, **how),
        [
            *("drawing the metric and the starts", "compiling NUTS", "running 2 chains of 5 transitions"),
            "measuring R-hat and effective sample sizes",
        ],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_phase_is_named_unless_progress_is_switched_off(posterior, said, name):
    run, phases = CALLS[name]
    run(posterior, progress=False)
    assert said == []
    run(posterior)
    assert said == [f"{name}: {phase}" for phase in phases]


def test_a_report_names_its_phases(posterior, said, tmp_path):
    posterior.report(tmp_path / "fit.html", progress=False)
    assert said == []
    posterior.report(tmp_path / "fit.html")
    assert said[0] == "report: weighing 4,000 draws"
    assert said[-2:] == ["report: predicting the data", "report: writing the page"]
