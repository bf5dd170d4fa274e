"""`posterior.report`: the page shows the posterior's own draws, weights and data."""

import jax
import numpy as np

from civi.page.data import unpacked
from exact_posterior import X, Y, exact, line
from page_reader import PageReader, rows_of


def test_the_report_of_a_posterior_has_its_draws_checks_and_data(tmp_path):
    posterior = exact(line, X, Y)
    content = posterior.content(3)
    groups = posterior.groups(jax.random.key(3), 50)
    assert sorted(content.names) == sorted(groups["posterior"])
    np.testing.assert_array_equal(content.observed["y"], Y.astype(np.float32).reshape(-1))
    assert [finding.name for finding in content.findings] == [f.name for f in posterior.diagnose(3).findings]
    posterior.report(tmp_path / "fit.html", key=3)
    page = (tmp_path / "fit.html").read_text(encoding="utf-8")
    figures = PageReader(page).figures
    drawn = unpacked(figures["joint-chart"]["arrays"][0][content.names.index("a")])
    some = np.linspace(0, len(content.draws) - 1, len(drawn)).astype(int)
    np.testing.assert_allclose(drawn, content.draws[some, content.names.index("a")], atol=1e-4)
    assert rows_of(page, "parameters-table")[0][1] == f"{np.mean(content.draws[:, 0], dtype=np.float64):.4g}"
    assert "Fit of line" in PageReader(page).all("h1")[0][1]
