"""A headless Chromium, and reports of small runs of every kind. Without a browser these tests are skipped."""

import shutil
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from rich.console import Console

from civi.experiment.compare import compare
from civi.experiment.context import RunContext
from civi.experiment.plan import Plan
from civi.experiment.run import run
from civi.experiment.tasks import find_task
from civi.experiment.tasks.regression import own_table
from fitting import short_fit
from small_tasks import few_images, small_toy

HOW = (
    "no browser: install one (apt install chromium) and the Python packages (pip install playwright "
    "axe-playwright-python), then run `make browser`"
)
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
MOST_MILLISECONDS = 300_000  # a busy machine is slow, but not broken
TINY = ["family.hidden=8", "samples.outer=16", "samples.inner=8"]
TINY_IMAGES = [
    *("samples.outer=4", "problem.batch=4", "samples.inner=3", "family.hidden=5,5", "family.latent_dim=3"),
    *("family.decoder_hidden=5", "family.noise_dim=2"),
]


@pytest.fixture(scope="session")
def chromium():
    """The browser that is installed on this machine, with a fresh profile."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip(HOW)
    playwright = pytest.importorskip("playwright.sync_api", reason=HOW)
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        yield browser
        browser.close()


def schools(sigma, y=None):
    """Eight schools."""
    mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfNormal(5))
    with numpyro.plate("schools", len(sigma)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def context(folder: Path) -> RunContext:
    return RunContext(folder, Console(quiet=True), report=True)


def toy(folder: Path) -> Path:
    run(Plan.make(small_toy("banana"), "civi", "default", 0, 60, TINY), context(folder))
    return folder / "report.html"


def regression(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = (x[:, 0] + rng.logistic(size=60) > 0).astype(int)
    table = folder.with_suffix(".csv")
    table.write_text("a,b,y\n" + "\n".join(f"{a},{b},{c}" for (a, b), c in zip(x, y, strict=True)))
    fewer = {"draws": 800, "outer": 200, "inner": 200, "reference_draws": 300, "reference_shown": 800}
    task = replace(own_table(table, "y", 0.25), **fewer)
    run(Plan.make(task, "civi", "default", 0, 60, TINY), context(folder))
    return folder / "report.html"


def fit(folder: Path) -> Path:
    sigma, y = np.array([15.0, 10, 16, 11, 9, 11, 10, 18]), np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    posterior = short_fit(schools, sigma, y=y, key=jax.random.key(0), steps=600)
    posterior.report(folder.with_suffix(".html"), title="</script> Fit of <schools>")
    return folder.with_suffix(".html")


def autoencoder(folder: Path) -> Path:
    fewer = {"test_draws": 10, "shown_draws": 50, "quick_images": 8, "curve_images": 8}
    task = replace(find_task("mnist"), load=few_images, **fewer)
    run(Plan.make(task, "civi", "default", 0, 7, TINY_IMAGES), context(folder))
    return folder / "report.html"


def comparison(folder: Path) -> Path:
    task = small_toy("star")
    plans = [Plan.make(task, solver, "default", 0, 60, TINY) for solver in ("sivi", "nmc-sgd", "mfvb")]
    plans[1] = replace(plans[1], settings=plans[1].settings.changed(60, ["update.learning_rate=1e6"]))
    compare(plans, 2, folder, Console(quiet=True), force=True, report=True)
    return folder / "report.html"


MAKERS = {one.__name__: one for one in (toy, regression, fit, autoencoder, comparison)}


@pytest.fixture(scope="session")
def reports(chromium, tmp_path_factory):
    """The report of each kind, made when it is first asked for."""
    folder, made = tmp_path_factory.mktemp("reports"), {}

    def report(kind: str) -> Path:
        if kind not in made:
            made[kind] = MAKERS[kind](folder / kind)
        return made[kind]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CIVI_CACHE_DIR", str(folder / "cache"))
        yield report


class Seen:
    """What a page did: errors in the console and addresses that it asked for."""

    def __init__(self, page) -> None:
        self.errors: list[str] = []
        self.addresses: list[str] = []
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.addresses.append(request.url))


@pytest.fixture
def opened(chromium):
    """Open a file at a width; returns the page and what it did."""
    contexts = []

    def show(path: Path, width: int, scheme: str = "light"):
        made = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        made.set_default_timeout(MOST_MILLISECONDS)
        contexts.append(made)
        page = made.new_page()
        seen = Seen(page)
        page.goto(path.as_uri())
        return page, seen

    yield show
    for made in contexts:
        made.close()
