"""Shared fixtures. pytest puts this file's folder on the import path, with `linear_gaussian` and `montecarlo` in it."""

import sys

import jax
import pytest

from civi.cli import main as cli
from civi.problem import PosteriorProblem
from linear_gaussian import gaussian_target, linear_family


@pytest.fixture(scope="session")
def linear_model() -> PosteriorProblem:
    return PosteriorProblem(linear_family(), gaussian_target())


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly(request):
    """XLA without its costly passes, here and in processes started from here: most time of most tests is compilation.

    Modules marked `optimised` train for long: they run what users run.
    """
    if request.node.get_closest_marker("optimised"):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        jax.config.update("jax_disable_most_optimizations", True)
        yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def failing(monkeypatch, capsys):
    """Runs `civi ...`, which must end with code 2 and one line on stderr (the last, if not alone); gives that line."""

    def call(*arguments: str, alone: bool = True) -> str:
        monkeypatch.setattr(sys, "argv", ["civi", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output = capsys.readouterr()
        assert ended.value.code == 2
        *before, line = output.err.splitlines()
        assert not (alone and (before or output.out))
        assert line.startswith("civi: error: ")
        return line.removeprefix("civi: error: ")

    return call
