"""The three logistic regressions of the published comparisons: spam, nodal and waveform.

Labels are 0 or 1. If a published file codes them differently, the docstring says how.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat

from civi.errors import unknown
from civi.experiment.data.files import locate, locate_if_present

NODAL_SPLITS = ("all", "sivi")
NODAL_TRAIN = 25
WAVEFORM_ROWS = 5_000
WAVEFORM_TRAIN = 400
SEED = 0


@dataclass(frozen=True)
class RegressionData:
    """The data of a logistic regression.

    Attributes:
        name: name of the data set.
        source: where the rows come from.
        columns: names of the columns, the intercept first.
        x_train: design matrix of the training rows; its first column is one.
        y_train: labels 0 or 1 of the training rows.
        x_test: design matrix of the test rows; it may be empty.
        y_test: labels of the test rows.
    """

    name: str
    source: str
    columns: tuple[str, ...]
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def design(features: np.ndarray) -> np.ndarray:
    """The design matrix: a column of ones, then the features."""
    return np.column_stack([np.ones(len(features)), features]).astype(np.float32)


def _split(
    name: str, source: str, columns: list[str], x: np.ndarray, y: np.ndarray, rows: np.ndarray
) -> RegressionData:
    """Use these rows, in this order, for training and the others for testing."""
    y = y.astype(np.float32)
    others = np.setdiff1d(np.arange(len(x)), rows)
    return RegressionData(name, source, ("intercept", *columns), x[rows], y[rows], x[others], y[others])


def spam() -> RegressionData:
    """Spambase with two unscaled features, the frequencies of 'free' and '1999'; y = 1 is spam.

    The 2,000 training rows are those of the SIVI comparison, up to the choice among identical rows. The other 2,601
    rows are for testing.
    """
    table = np.loadtxt(locate("spam", "spambase_free_1999.csv"), delimiter=",", skiprows=1)
    rows = np.loadtxt(locate("spam", "sivi_train_rows_0based.txt"), dtype=np.int64)
    source = "UCI spambase, the training rows of SIVI"
    return _split("spam", source, ["word_freq_free", "word_freq_1999"], design(table[:, :2]), table[:, 2], rows)


def nodal(split: str = "all") -> RegressionData:
    """Nodal involvement of 53 patients, with five unscaled features.

    Args:
        split: `all` trains on all rows, with y = r: 1 if the nodes are involved. `sivi` is the published split, with
            y = 1 - r: the first 25 rows are for training and the other 28 for testing.
    """
    if split not in NODAL_SPLITS:
        raise unknown("split of nodal", split, NODAL_SPLITS)
    table = np.loadtxt(locate("nodal", "nodal.csv"), delimiter=",", skiprows=1)
    columns, x, r = ["aged", "stage", "grade", "xray", "acid"], design(table[:, 2:]), table[:, 1]
    if split == "all":
        return _split("nodal", "R package boot, all 53 rows", columns, x, r, np.arange(len(x)))
    return _split("nodal", "R package boot, split and labels of SIVI", columns, x, 1 - r, np.arange(NODAL_TRAIN))


def waveform() -> RegressionData:
    """One of three waveforms against the other two, with 21 standardised features; y = 0 for class 1.

    The rows come from the SIVI authors' waveform.mat if available, otherwise from the UCI file, otherwise from the
    published generator. 400 rows are for training. Features are standardised by the mean and sd (ddof 1) of all 5,000
    rows.
    """
    mat = locate_if_present("waveform", "waveform.mat")
    if mat is not None:
        return _waveform_of_sivi(mat)
    data = locate_if_present("waveform", "waveform.data")
    if data is not None:
        return _waveform_of_uci(data)
    features, classes = draw_waveform(WAVEFORM_ROWS, np.random.default_rng(SEED))
    return _prepared(f"Breiman's generator, seed {SEED}", features, classes, _seeded_rows(len(features)))


def waveform_gibbs() -> np.ndarray | None:
    """The SIVI authors' Gibbs draws of the waveform posterior, (250, 22); None if waveform.mat is not available."""
    mat = locate_if_present("waveform", "waveform.mat")
    return None if mat is None else _read_mat(mat)["BetaMCMC"].T


def _read_mat(path: Path) -> dict[str, Any]:
    return loadmat(path)


def _waveform_of_sivi(path: Path) -> RegressionData:
    content = _read_mat(path)
    x_train, y_train, x_test, y_test = (
        content[name].astype(np.float32) for name in ("X_train", "y_train", "X_test", "y_test")
    )
    columns = _waveform_columns(x_train.shape[1] - 1)
    source = "waveform.mat of the SIVI authors"
    return RegressionData("waveform", source, ("intercept", *columns), x_train, y_train.ravel(), x_test, y_test.ravel())


def _waveform_of_uci(path: Path) -> RegressionData:
    table = np.loadtxt(path, delimiter=",")
    listed = locate_if_present("waveform", "sivi_train_rows_0based.txt")
    if listed is not None:
        rows, chosen = np.loadtxt(listed, dtype=np.int64), "the training rows of SIVI"
    else:
        rows, chosen = _seeded_rows(len(table)), f"training rows drawn with seed {SEED}"
    return _prepared(f"UCI waveform.data, {chosen}", table[:, :-1], table[:, -1], rows)


def _prepared(source: str, features: np.ndarray, classes: np.ndarray, rows: np.ndarray) -> RegressionData:
    standardised = (features - features.mean(axis=0)) / features.std(axis=0, ddof=1)
    columns = _waveform_columns(features.shape[1])
    return _split("waveform", source, columns, design(standardised), classes != 1, rows)


def _waveform_columns(number: int) -> list[str]:
    return [f"x{i}" for i in range(1, number + 1)]


def _seeded_rows(number: int) -> np.ndarray:
    return np.sort(np.random.default_rng([SEED, 1]).choice(number, WAVEFORM_TRAIN, replace=False))


def draw_waveform(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw features (rows, 21) and classes 0, 1, 2 of the waveform problem (Breiman et al., 1984, section 2.6.2).

    h1(i) = max(6 - |i - 11|, 0), h2(i) = h1(i - 4), h3(i) = h1(i + 4) for i = 1, ..., 21. A row is u a + (1 - u) b with
    u uniform, plus N(0, 1) noise in each coordinate; (a, b) is (h2, h3) for class 0, (h1, h3) for class 1 and (h1, h2)
    for class 2, as the UCI file numbers them.
    """
    i = np.arange(1, 22)
    h1, h2, h3 = (np.maximum(6 - np.abs(i - peak), 0) for peak in (11, 15, 7))
    first, second = np.stack([h2, h1, h1]), np.stack([h3, h3, h2])
    classes = rng.integers(3, size=rows)
    u = rng.uniform(size=(rows, 1))
    return u * first[classes] + (1 - u) * second[classes] + rng.normal(size=(rows, len(i))), classes
