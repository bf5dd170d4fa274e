"""`fit_many`: posteriors in order, errors kept, and the same bits with any number of workers."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import civi
from civi.errors import SettingError, TargetError
from civi.inference import many
from civi.inference.diagnose.diagnosis import Diagnosis
from civi.inference.diagnose.trust import Finding
from civi.inference.many import Fits, Fitted, fit_many

DATA = [{"y": np.full(3, float(i), np.float32)} for i in range(4)]


def level(scale, y=None):
    with numpyro.plate("row", 3):
        numpyro.sample("y", dist.Normal(numpyro.sample("mu", dist.Normal(0, 2)), scale), obs=y)


class Stub:
    """What a fit of `level` returns: the data, and a verdict by their size."""

    def __init__(self, y, key):
        self.y, self.key = y, key

    def diagnose(self, key, progress):
        return Diagnosis([Finding("k_hat", float(self.y[0]), "bad" if self.y[0] > 2 else "good", "A sentence.")])


def stub_fit(model, scale, *, key, runs, progress, y):
    if y[0] == 1:
        raise TargetError("the data are one")
    return Stub(y, key)


@pytest.fixture
def stubbed(monkeypatch):
    monkeypatch.setattr(many, "fit", stub_fit)


def test_one_failure_does_not_lose_the_others(stubbed):
    fits = fit_many(level, DATA, 1.0, key=0, progress=False)
    assert isinstance(fits, Fits)
    assert len(fits) == 4
    assert fits.verdicts == ["good", "error", "good", "bad"]
    assert [None if one is None else one.y[0] for one in fits] == [0, None, 2, 3]
    assert fits[1:3][0] is None
    assert fits[-1].y[0] == 3
    assert list(fits.errors) == [1]
    table = fits.__rich__()
    assert list(table.columns[0].cells) == ["1", "3", "0", "2"]
    assert list(table.columns[2].cells) == ["TargetError: the data are one", "k_hat 3", "", ""]
    assert ": 1 error, 1 bad, 2 good" in str(fits)


def test_every_data_set_has_its_own_key_whatever_the_others_are(stubbed):
    fits = fit_many(level, DATA, 1.0, key=0, diagnose=False, progress=False)
    words = [tuple(np.asarray(jax.random.key_data(key)).tolist()) for key in fits.keys]
    assert len(set(words)) == 4
    fewer = fit_many(level, DATA[:3], 1.0, key=jax.random.key(0), progress=False, workers=3)
    assert words[:3] == [tuple(np.asarray(jax.random.key_data(key)).tolist()) for key in fewer.keys]
    assert fits.verdicts == ["not checked", "error", "not checked", "not checked"]


def test_if_all_fail_the_first_error_is_raised(stubbed):
    with pytest.raises(TargetError, match="the data are one"):
        fit_many(level, DATA[1:2], 1.0, key=0, progress=False)


@pytest.mark.parametrize(
    ("datasets", "message"),
    [
        ([], "datasets is empty"),
        ([(np.zeros(3),)], "must be a list of dictionaries"),
        ({"y": np.zeros((2, 3))}, "must be a list of dictionaries"),
        ([{}], "the data sets have no arguments"),
        ([{"y": np.zeros(3)}, {"x": np.zeros(3)}], "data set 1 has the arguments"),
        ([{"y": np.zeros(3)}, {"y": np.zeros(4)}], "y of data set 1 differs in shape or type"),
        ([{"steps": np.zeros(3)}], "steps is an option of civi.fit"),
    ],
)
def test_data_sets_in_another_form_are_refused(datasets, message):
    with pytest.raises(SettingError, match=message):
        fit_many(level, datasets, 1.0, key=0)


@pytest.mark.filterwarnings("ignore:the fit has not converged")
def test_fits_are_the_same_one_after_another_side_by_side_and_alone():
    options = {"steps": 60, "runs": 1, "diagnose": False, "progress": False}
    one, two = (fit_many(level, DATA[:3], 1.0, key=5, workers=workers, **options) for workers in (1, 2))
    alone = civi.fit(level, 1.0, key=one.keys[2], steps=60, runs=1, progress=False, **DATA[2])
    draws = [fit.sample_unconstrained(0, 100) for fit in (one[2], two[2], alone)]
    np.testing.assert_array_equal(draws[0], draws[1])
    np.testing.assert_array_equal(draws[0], draws[2])
    exact_means = [i / (1 + 1 / 4) for i in range(3)]
    found = [fit.sample(0, 2000)["mu"].mean() for fit in one]
    np.testing.assert_allclose(found, exact_means, atol=0.1)
    assert Fitted(one[0], None, None).verdict == "not checked"
