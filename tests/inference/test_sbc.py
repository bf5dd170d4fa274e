"""`sbc` with exact posteriors, which pass, and with wrong ones, which do not; the test of uniformity by simulation."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

import civi
from civi.errors import SettingError
from civi.inference import many
from civi.inference.ranks import cut_points, envelope, holm, p_values, pointwise, shape_of

ROWS = 4


def model(x, y=None):
    """b ~ N(0, 1) twice, y ~ N(b0 + b1 x, 1): the posterior is normal."""
    b = numpyro.sample("b", dist.Normal(0, 1).expand([2]).to_event(1))
    numpyro.deterministic("twice", 2 * b[0])
    numpyro.sample("y", dist.Normal(b[0] + b[1] * x, 1).to_event(1), obs=y)


X = np.linspace(-1, 1, ROWS, dtype=np.float32)
DESIGN = np.stack([np.ones(ROWS), X], axis=1)
COVARIANCE = np.linalg.inv(DESIGN.T @ DESIGN + np.eye(2))


class Normal:
    """The exact posterior, with its scale multiplied and its mean shifted by a number of standard deviations."""

    def __init__(self, y, scale, shift):
        self.mean = COVARIANCE @ DESIGN.T @ np.asarray(y) + shift * np.sqrt(np.diag(COVARIANCE))
        self.factor = scale * np.linalg.cholesky(COVARIANCE)

    def sample(self, key, count):
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())
        b = self.mean + rng.normal(size=(count, 2)) @ self.factor.T
        return {"b": b, "twice": 2 * b[:, 0]}


def calibration(monkeypatch, scale=1.0, shift=0.0, failing=(), **options):
    seen = []

    def stub(model, x, *, key, runs, progress, y):
        seen.append(y)
        if len(seen) - 1 in failing:
            raise ValueError("this one fails")
        return Normal(y, scale, shift)

    monkeypatch.setattr(many, "fit", stub)
    made = civi.sbc(model, X, key=3, simulations=200, diagnose=False, progress=False, workers=1, **options)
    return made, seen


def test_exact_posteriors_pass(monkeypatch):
    made, seen = calibration(monkeypatch)
    assert made.names == ["b[0]", "b[1]", "twice"]
    assert made.ranks.shape == (200, 3)
    assert made.verdict == "good"
    assert made.sentence == "The ranks of all 3 parameters are uniform as far as 200 simulations can tell."
    np.testing.assert_array_equal(made.ranks[:, 0], made.ranks[:, 2])
    expected = DESIGN @ DESIGN.T + np.eye(ROWS)
    sd = np.sqrt(np.diag(expected))
    ratio = np.std(seen, axis=0) / sd
    np.testing.assert_allclose(ratio, 1, atol=4 / np.sqrt(2 * 200))


@pytest.mark.parametrize(
    ("scale", "shift", "word"),
    [(0.5, 0, "too narrow"), (2.0, 0, "too wide"), (1, 0.5, "too large"), (1, -0.5, "too small")],
)
def test_wrong_posteriors_fail_and_the_sentence_says_how(monkeypatch, scale, shift, word):
    made, _ = calibration(monkeypatch, scale, shift)
    assert made.verdict == "bad"
    assert (made.adjusted <= 0.05).all()
    assert f"the draws are {word}" in made.sentence
    assert "3 of 3 parameters are not uniform" in made.sentence


def test_failed_fits_are_left_out_and_said(monkeypatch):
    made, _ = calibration(monkeypatch, failing=(2, 5))
    assert made.ranks.shape == (198, 3)
    assert "2 fits failed and are not counted" in made.sentence


def test_the_figure_has_a_panel_for_every_parameter(monkeypatch, tmp_path):
    made, _ = calibration(monkeypatch)
    figure = made.plot()
    assert sorted(panel.get_title() for panel in figure.axes) == ["b[0]", "b[1]", "twice"]
    figure.savefig(tmp_path / "ranks.png")
    assert figure._repr_png_().startswith(b"\x89PNG")  # what a notebook shows
    assert [panel.get_title() for panel in made.plot(["twice"]).axes if panel.get_visible()] == ["twice"]
    with pytest.raises(SettingError, match="unknown parameters: c"):
        made.plot(["c"])
    assert list(made.__rich__().columns[3].cells) == ["good"] * 3


def test_sites_and_arguments_of_other_names(monkeypatch):
    def other(x, data=None):
        numpyro.sample("obs", dist.Normal(numpyro.sample("b", dist.Normal(0, 1)) * x, 1), obs=data)

    def stub(model, x, *, key, runs, progress, data):
        raise ValueError(f"data of shape {data.shape}")

    monkeypatch.setattr(many, "fit", stub)
    with pytest.raises(ValueError, match=r"data of shape \(4,\)"):
        civi.sbc(other, X, key=0, simulations=10, observed={"obs": "data"}, progress=False)
    for observed, message in [
        (None, "no argument of the model has the name of a site"),
        ({"y": "data"}, "no site y"),
        ({"obs": "z"}, "no argument z"),
        ({"obs": "x"}, "the argument x takes simulated data"),
    ]:
        with pytest.raises(SettingError, match=message):
            civi.sbc(other, X, key=0, simulations=10, observed=observed)


class TestUniformity:
    def test_p_values_are_those_of_a_simulation(self):
        rng, count, draws = np.random.default_rng(0), 60, 99
        ranks = rng.integers(0, draws + 1, (count, 4000))
        p = p_values(ranks, draws)
        for level in (0.01, 0.05, 0.2, 0.5):
            se = np.sqrt(level * (1 - level) / 4000)
            assert abs((p <= level).mean() - level) < 4 * se + 0.02 * level
        tilted = np.minimum(ranks, rng.integers(0, draws + 1, ranks.shape))
        assert (p_values(tilted, draws) <= 0.05).mean() > 0.9

    def test_one_cut_point_is_the_binomial_test(self):
        ranks = np.array([0] * 9 + [1] * 1)[:, None]
        assert cut_points(1).tolist() == [1]
        expected = stats.binomtest(9, 10, 0.5).pvalue
        np.testing.assert_allclose(p_values(ranks, 1), [expected], rtol=1e-6)
        np.testing.assert_allclose(pointwise(10, np.array([0.5]))[0, 9], expected, rtol=1e-6)

    def test_uniform_ranks_stay_in_the_envelope_as_often_as_they_should(self):
        rng, count, draws, level = np.random.default_rng(1), 50, 99, 0.1
        lower, upper = envelope(count, draws, level)
        ranks = rng.integers(0, draws + 1, (count, 4000))
        below = np.stack([(ranks < cut).sum(0) for cut in cut_points(draws)])
        outside = ((below < lower[:, None]) | (below > upper[:, None])).any(0).mean()
        assert level - 0.03 < outside < level + 4 * np.sqrt(level / 4000)

    def test_holm(self):
        np.testing.assert_allclose(holm(np.array([0.04, 0.01, 0.03])), [0.06, 0.03, 0.06])

    def test_shapes(self):
        assert shape_of(np.array([0, 0, 99, 99]), 99) == "draws are too narrow"
        assert shape_of(np.array([49, 50, 49, 50]), 99) == "draws are too wide"
