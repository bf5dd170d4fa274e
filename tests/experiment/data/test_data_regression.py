"""The regressions against published counts, files in the published formats, and the moments of the generator."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from scipy.io import savemat

from civi.errors import DataError, SettingError
from civi.experiment.data import SETS
from civi.experiment.data.regression import RegressionData, draw_waveform, nodal, spam, waveform, waveform_gibbs
from montecarlo import agrees


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty data folder and an empty cache."""
    (tmp_path / "data" / "waveform").mkdir(parents=True)
    monkeypatch.setenv("CIVI_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("CIVI_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "data"


@pytest.fixture
def accept(folder, monkeypatch):
    """Accept the waveform files in the folder, whatever their checksums are."""

    def register() -> None:
        known = SETS["waveform"]
        sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (folder / "waveform").iterdir()}
        changed = tuple(replace(file, sha256=sums.get(file.name, file.sha256)) for file in known.files)
        monkeypatch.setitem(SETS, "waveform", replace(known, files=changed))

    return register


def well_formed(data: RegressionData) -> bool:
    return all(
        x.dtype == y.dtype == np.float32
        and x.shape == (len(y), len(data.columns))
        and (x[:, 0] == 1).all()
        and set(y) <= {0.0, 1.0}
        for x, y in ((data.x_train, data.y_train), (data.x_test, data.y_test))
    )


def test_nodal_has_the_counts_of_the_published_table():
    data = nodal()
    assert well_formed(data)
    assert data.columns == ("intercept", "aged", "stage", "grade", "xray", "acid")
    assert data.x_train.shape == (53, 6)
    assert data.x_test.shape == (0, 6)
    assert data.x_train.sum(axis=0).tolist() == [53, 24, 27, 21, 16, 30]
    assert data.y_train.sum() == 20
    involved = data.y_train == 1
    by_xray = [int((involved & (data.x_train[:, 4] == value)).sum()) for value in (0, 1)]
    assert by_xray == [9, 11]


def test_the_published_split_of_nodal_flips_the_label():
    whole, data = nodal(), nodal("sivi")
    assert well_formed(data)
    assert (len(data.y_train), len(data.y_test)) == (25, 28)
    assert (data.y_train.sum(), data.y_test.sum()) == (16, 17)
    assert np.array_equal(np.concatenate([data.x_train, data.x_test]), whole.x_train)
    assert np.array_equal(np.concatenate([data.y_train, data.y_test]), 1 - whole.y_train)
    with pytest.raises(SettingError, match=r"unknown split of nodal 'sivvi': did you mean 'sivi'\?"):
        nodal("sivvi")


def test_spam_trains_on_two_thousand_rows_of_spambase_and_tests_on_the_others():
    data = spam()
    assert well_formed(data)
    assert data.columns == ("intercept", "word_freq_free", "word_freq_1999")
    assert (len(data.y_train), len(data.y_test)) == (2000, 2601)
    assert (data.y_train.sum(), data.y_test.sum()) == (803, 1813 - 803)
    everything = np.concatenate([data.x_train, data.x_test])
    assert everything.mean(axis=0) == pytest.approx([1, 0.2488, 0.1370], abs=5e-5)
    assert everything.max(axis=0) == pytest.approx([1, 20.0, 6.89])


def small_table(rows: int = 30) -> np.ndarray:
    rng = np.random.default_rng(7)
    return np.column_stack([rng.normal(3.0, 2.0, (rows, 21)).round(2), rng.integers(3, size=rows)])


def write_uci(folder, table) -> None:
    np.savetxt(folder / "waveform" / "waveform.data", table, delimiter=",", fmt=["%.2f"] * 21 + ["%d"])


def test_the_uci_file_is_standardised_over_all_rows(folder, accept):
    table, rows = small_table(), [4, 1, 27, 12]
    write_uci(folder, table)
    np.savetxt(folder / "waveform" / "sivi_train_rows_0based.txt", rows, fmt="%d")
    accept()
    data = waveform()
    assert well_formed(data)
    assert data.source == "UCI waveform.data, the training rows of SIVI"
    for position, row in enumerate(rows):
        for column in range(21):
            values = [float(value) for value in table[:, column]]
            mean = sum(values) / 30
            sd = (sum((value - mean) ** 2 for value in values) / 29) ** 0.5
            assert data.x_train[position, column + 1] == pytest.approx((values[row] - mean) / sd, rel=1e-5, abs=1e-6)
        assert data.y_train[position] == (0 if table[row, 21] == 1 else 1)
    assert data.x_test.shape == (26, 22)
    assert data.y_test.sum() + data.y_train.sum() == (table[:, 21] != 1).sum()


def test_the_uci_file_alone_has_four_hundred_seeded_rows(folder, accept):
    write_uci(folder, small_table(450))
    accept()
    first, second = waveform(), waveform()
    assert first.source == "UCI waveform.data, training rows drawn with seed 0"
    assert (len(first.y_train), len(first.y_test)) == (400, 50)
    assert np.array_equal(first.x_train, second.x_train)
    assert len(np.unique(np.concatenate([first.x_train, first.x_test]), axis=0)) == 450


def test_the_sivi_file_comes_first_and_holds_gibbs_draws(folder, accept):
    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(9), rng.normal(size=(9, 21))])
    y = np.array([[0, 1, 1, 0, 1, 1, 0, 0, 1]], np.uint8)
    draws = rng.normal(size=(22, 250))
    content = {"X_train": x[:5], "y_train": y[:, :5], "X_test": x[5:], "y_test": y[:, 5:], "BetaMCMC": draws}
    savemat(folder / "waveform" / "waveform.mat", content)
    write_uci(folder, small_table(450))
    accept()
    data = waveform()
    assert well_formed(data)
    assert data.source == "waveform.mat of the SIVI authors"
    assert data.columns[:3] == ("intercept", "x1", "x2")
    np.testing.assert_allclose(data.x_train, x[:5], rtol=1e-6)
    np.testing.assert_allclose(data.x_test, x[5:], rtol=1e-6)
    assert data.y_train.tolist() == [0, 1, 1, 0, 1]
    assert data.y_test.tolist() == [1, 0, 0, 1]
    gibbs = waveform_gibbs()
    assert gibbs.shape == (250, 22)
    np.testing.assert_array_equal(gibbs[:, 3], draws[3])


def test_a_damaged_waveform_file_is_an_error_and_not_passed_over(folder):
    (folder / "waveform" / "waveform.mat").write_bytes(b"half a file")
    with pytest.raises(DataError, match="is damaged or a different file"):
        waveform()
    with pytest.raises(DataError, match="is damaged or a different file"):
        waveform_gibbs()


def test_without_files_the_rows_are_drawn():
    first, second = waveform(), waveform()
    assert well_formed(first)
    assert first.source == "Breiman's generator, seed 0"
    assert (first.x_train.shape, first.x_test.shape) == ((400, 22), (4600, 22))
    assert np.array_equal(first.x_train, second.x_train)
    everything = np.concatenate([first.x_train, first.x_test])[:, 1:]
    np.testing.assert_allclose(everything.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(everything.std(axis=0, ddof=1), 1, rtol=1e-6)
    assert waveform_gibbs() is None


def wave(peak: int) -> np.ndarray:
    """A triangle of height 6 at one of the coordinates 1 to 21."""
    return np.array([max(6 - abs(i - peak), 0) for i in range(1, 22)], float)


PEAKS = {0: (7, 15), 1: (7, 11), 2: (11, 15)}


@pytest.mark.parametrize("label", [0, 1, 2])
def test_the_generator_has_the_moments_of_its_class_and_of_no_other(label):
    features, classes = draw_waveform(20_000, np.random.default_rng(3))
    drawn = features[classes == label]
    mean = {one: sum(map(wave, peaks)) / 2 for one, peaks in PEAKS.items()}
    variance = {one: (wave(low) - wave(high)) ** 2 / 12 + 1 for one, (low, high) in PEAKS.items()}
    for other in PEAKS:
        assert agrees(drawn, mean[other]) == (other == label)
        assert agrees((drawn - mean[label]) ** 2, variance[other]) == (other == label)


def test_the_generator_draws_every_class_as_often():
    _, classes = draw_waveform(20_000, np.random.default_rng(4))
    indicators = (classes[:, None] == np.arange(3)).astype(float)
    assert agrees(indicators, np.full(3, 1 / 3))
    assert not agrees(indicators, [0.3, 0.35, 0.35])


def test_the_label_of_the_drawn_rows_marks_class_one():
    data = waveform()
    x, y = np.concatenate([data.x_train, data.x_test]), np.concatenate([data.y_train, data.y_test])
    gap = x[y == 0, 1:].mean(axis=0) - x[y == 1, 1:].mean(axis=0)
    expected = sum(map(wave, PEAKS[1])) / 2 - sum(map(wave, (*PEAKS[0], *PEAKS[2]))) / 4
    assert np.corrcoef(gap, expected)[0, 1] > 0.95
