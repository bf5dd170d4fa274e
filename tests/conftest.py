"""Shared fixtures. pytest adds this folder to the import path, so tests can import helpers such as `montecarlo`."""

import mmap
import os
import sys
from pathlib import Path

import jax
import jaxlib
import pytest

from civi.cli import main as cli
from civi.problem import PosteriorProblem

OLD_FUSIONS = "xla_cpu_use_fusion_emitters"


def pytest_configure():
    """Use XLA's older code generator for fusions, which compiles in two thirds of the time, also in child processes.

    XLA reads its flags when it starts, so nothing above may create an array. It aborts on an unknown flag, so first
    check that this version knows it.
    """
    for library in Path(jaxlib.__file__).parent.glob("libjax*"):
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if content.find(OLD_FUSIONS.encode()) >= 0 and OLD_FUSIONS not in os.environ.get("XLA_FLAGS", ""):
                os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --{OLD_FUSIONS}=false".strip()


@pytest.fixture(scope="session")
def linear_model() -> PosteriorProblem:
    from linear_gaussian import gaussian_target, linear_family  # its arrays would start XLA before pytest_configure

    return PosteriorProblem(linear_family(), gaussian_target())


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly(request):
    """Disable XLA's costly passes, also in child processes, because most of a test's time is compilation.

    Modules marked `optimised` train for long, and are compiled with all passes.
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
    """A function that runs `civi ...` and returns its error; checks for exit code 2, and no other output if `alone`."""

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
