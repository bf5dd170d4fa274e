"""Numbers of the report's table: moments and Monte Carlo errors against closed forms."""

import numpy as np

from civi.inference.diagnose.trust import reference_findings
from civi.inference.report.content import Content
from civi.inference.report.parameters import density, edges_of
from civi.inference.report.summary import misfit, moments, weights_of

RNG = np.random.default_rng(0)


def test_errors_of_normal_draws_are_those_of_theory():
    """The error of the mean is sigma / sqrt(n), and that of the standard deviation sigma / sqrt(2 n)."""
    n = 40_000
    found = moments(RNG.normal(1.0, 2.0, (n, 3)))
    np.testing.assert_allclose(found.mean_error, 2 / np.sqrt(n), rtol=0.02)
    np.testing.assert_allclose(found.sd_error, 2 / np.sqrt(2 * n), rtol=0.03)
    assert (np.abs(found.mean - 1) < 5 * found.mean_error).all()
    assert (np.abs(found.sd - 2) < 5 * found.sd_error).all()


def test_an_effective_size_enlarges_the_errors():
    draws = RNG.normal(size=(400, 2))
    plain, correlated = moments(draws), moments(draws, sizes=np.array([400.0, 100.0]))
    np.testing.assert_allclose(correlated.mean_error, plain.mean_error * [1, 2])


def test_weights_move_the_moments_of_a_wrong_fit_to_the_truth():
    """q = N(0, 1), p = N(0.3, 0.9^2): weighted moments agree with p, plain ones do not."""
    z = RNG.normal(size=(20_000, 1))
    ratios = -0.5 * ((z[:, 0] - 0.3) / 0.9) ** 2 - np.log(0.9) + 0.5 * z[:, 0] ** 2
    content = Content(title="", names=["z"], draws=z, log_ratios=ratios)
    weights = weights_of(content)
    found = moments(z, weights)
    assert abs(found.mean[0] - 0.3) < 4 * found.mean_error[0]
    assert abs(found.sd[0] - 0.9) < 4 * found.sd_error[0]
    assert abs(moments(z).mean[0] - 0.3) > 4 * found.mean_error[0]
    np.testing.assert_allclose(misfit(content, weights)[0], 0.3 / 0.9, atol=0.05)


def test_the_reference_decides_about_the_misfit_if_there_is_one():
    draws = RNG.normal(size=(5000, 2))
    reference = RNG.normal(size=(5000, 2)) * [1.0, 2.0]
    content = Content(title="", names=["a", "b"], draws=draws, reference=reference)
    np.testing.assert_allclose(misfit(content, None), [0, np.log(2)], atol=0.06)
    mean, sd = reference_findings(draws, reference, content.names)
    assert (mean.verdict, sd.verdict) == ("good", "bad")
    assert "standard deviation of b differs" in sd.sentence


def test_a_density_has_mass_1_and_keeps_the_edge_of_an_exponential():
    draws = RNG.exponential(size=50_000)
    edges = edges_of([draws])
    height = density(draws, edges)
    assert abs((height * np.diff(edges)).sum() - 1) < 1e-6
    assert edges[0] >= 0
    assert height[0] > 0.85
