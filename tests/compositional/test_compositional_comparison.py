"""The documented example, and the table and figure of `python -m civi.compositional`."""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from civi.compositional import Result, scgd
from civi.compositional.comparison import Benchmark, Entry, benchmarks, draw, table
from civi.compositional.minimise import History
from civi.compositional.problems import portfolio

PAGE = Path(__file__).parents[2] / "docs" / "compositional.md"


def test_the_documented_example_gives_the_documented_answers():
    """E g = theta, so the optimum is 3. Nested Monte Carlo with one sample minimises E(theta (1 + e) - 3)^2, at 3/2."""
    example = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict = {}
    exec(example.group(1), names)
    assert abs(float(names["tracked"].theta[0]) - 3) < 0.3
    assert abs(float(names["nested"].theta[0]) - 1.5) < 0.3


def made_up(thetas) -> tuple[Benchmark, list[tuple[Entry, Result]]]:
    """A made-up result on the portfolio, with three steps and two seeds, that ends at these thetas."""
    assets = portfolio()
    gaps = np.array([[0.9, 0.5, 0.1], [0.8, 0.6, 0.3]])
    history = History(
        jnp.zeros((2, 3)), jnp.ones((2, 3)), jnp.full((2, 3), 1234), jnp.array([[True, False, False]] * 2)
    )
    benchmark = Benchmark("portfolio", assets.problem, jnp.zeros(4), assets.error)
    return benchmark, [(Entry("scgd", scgd(), 3), Result(thetas, history, gaps))]


def test_the_table_has_the_numbers_of_the_runs():
    """Gaps 0.1 and 0.3: mean 20%, sd 14.14%; the mean of 0.8 x* and 1.1 x* is 5% away; one step undone per seed."""
    optimum = portfolio().optimum()
    text = table(*made_up(jnp.stack([0.8 * optimum, 1.1 * optimum])))
    assert text.splitlines()[-1] == "| scgd | 3 | 1,234 | 20.00% (14.14%) | 5.0% | 2 |"


def test_the_figure_is_drawn_and_every_line_of_the_page_is_a_method_of_the_comparison(tmp_path):
    results = [made_up(jnp.ones((2, 4)))] * 2
    assert draw(results, tmp_path / "gaps.png").read_bytes().startswith(b"\x89PNG")
    for benchmark, entries in benchmarks():
        section = PAGE.read_text().split(f"{benchmark.name.capitalize()}, 16 seeds:")[1]
        lines = [line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if line.startswith("| ")]
        assert lines[1 : len(entries) + 1] == [entry.name for entry in entries]
