"""A user's CSV file: the numbers against a calculation by hand, and every kind of invalid file."""

import statistics
import sys

import numpy as np
import pandas as pd
import pytest

from civi.errors import CiviError, DataError
from civi.experiment.data.table import read_table

ROWS = """age,income,smoker
30,1.5,no
40,2.5,yes
55,1.0,yes
61,4.0,no
"""


@pytest.fixture
def write(tmp_path):
    def to(content: str | bytes):
        path = tmp_path / "patients.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return to


@pytest.fixture
def refused(write):
    """The error message for this content; it is one line and names the file."""

    def message(content: str | bytes, target: str = "y", **options) -> str:
        path = write(content)
        with pytest.raises(DataError) as error:
            read_table(path, target, **options)
        text = str(error.value)
        assert "\n" not in text
        assert str(path) in text
        return text.replace(str(path), "FILE")

    return message


def test_columns_are_standardised_and_the_last_label_is_one(write):
    data = read_table(write(ROWS), "smoker")
    assert data.name == "patients"
    assert data.source == "patients.csv, 4 rows; smoker = yes is 1, smoker = no is 0"
    assert data.columns == ("intercept", "age", "income")
    assert data.x_train.dtype == data.y_train.dtype == np.float32
    assert data.y_train.tolist() == [0, 1, 1, 0]
    for column, values in ((1, [30, 40, 55, 61]), (2, [1.5, 2.5, 1.0, 4.0])):
        mean, sd = statistics.mean(values), statistics.stdev(values)
        assert data.x_train[:, column] == pytest.approx([(value - mean) / sd for value in values], rel=1e-6)
    assert data.x_train[:, 0].tolist() == [1, 1, 1, 1]
    assert data.x_test.shape == (0, 3)
    assert data.y_test.shape == (0,)


@pytest.mark.parametrize(
    ("labels", "ones"),
    [
        ("0 1 1 0", [0, 1, 1, 0]),
        ("-1 1 1 -1", [0, 1, 1, 0]),
        ("10 9 9 10", [1, 0, 0, 1]),
        ("2.5 1.0 1.0 2.5", [1, 0, 0, 1]),
        ("True False False True", [1, 0, 0, 1]),
        ("b a a b", [1, 0, 0, 1]),
    ],
)
def test_any_two_labels_will_do(write, labels, ones):
    lines = [f"{label},{i}" for i, label in enumerate(labels.split())]
    assert read_table(write("\n".join(["y,a", *lines])), "y").y_train.tolist() == ones


def test_held_out_rows_are_standardised_with_the_training_rows(write):
    rng = np.random.default_rng(0)
    values = rng.normal(5.0, 3.0, 40)
    path = write("y,a\n" + "\n".join(f"{i % 2},{value!r}" for i, value in enumerate(values.tolist())))
    data = read_table(path, "y", hold_out=0.25, seed=3)
    assert (len(data.y_train), len(data.y_test)) == (30, 10)
    scores = np.concatenate([data.x_train[:, 1], data.x_test[:, 1]])
    order = np.argsort(scores)
    assert np.array_equal(np.concatenate([data.y_train, data.y_test])[order], (np.arange(40) % 2)[np.argsort(values)])
    assert statistics.mean(data.x_train[:, 1].tolist()) == pytest.approx(0, abs=1e-6)
    assert statistics.stdev(data.x_train[:, 1].tolist()) == pytest.approx(1, rel=1e-6)
    assert abs(statistics.mean(data.x_test[:, 1].tolist())) > 1e-3
    slope, shift = np.polyfit(np.sort(values), scores[order], 1)
    np.testing.assert_allclose(scores[order], slope * np.sort(values) + shift, atol=1e-5)
    again, other = read_table(path, "y", hold_out=0.25, seed=3), read_table(path, "y", hold_out=0.25, seed=4)
    assert np.array_equal(data.x_train, again.x_train)
    assert not np.array_equal(data.x_train, other.x_train)


def test_numbers_of_any_size_are_standardised(write):
    data = read_table(write("y,large,small,whole\n0,1e300,1e-300,9007199254740993\n1,3e300,3e-300,0\n"), "y")
    expected = [-(0.5**0.5), 0.5**0.5]
    assert data.x_train[:, 1] == pytest.approx(expected)
    assert data.x_train[:, 2] == pytest.approx(expected)
    assert data.x_train[:, 3] == pytest.approx(expected[::-1])


def test_spaces_after_commas_and_a_byte_order_mark_are_no_matter(write):
    data = read_table(write("\ufeffage, smoker\n30, no\n40, yes\n"), "smoker")
    assert data.columns == ("intercept", "age")
    assert data.y_train.tolist() == [0, 1]
    assert read_table(write("\ufeffy,a\n0,1\n1,2\n"), "y").y_train.tolist() == [0, 1]


def test_a_missing_file_and_a_folder_are_errors(tmp_path):
    with pytest.raises(DataError, match=r"there is no file .*absent\.csv: check the path"):
        read_table(tmp_path / "absent.csv", "y")
    with pytest.raises(DataError, match="cannot read"):
        read_table(tmp_path, "y")
    assert issubclass(DataError, CiviError)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "FILE is empty: a CSV file with a header is needed"),
        ("\n\n", "FILE is empty: a CSV file with a header is needed"),
        (b"\x89PNG\r\n\x1a\n\x00\xff\xfe", "FILE is not a CSV file that can be read ("),
        ("y,a\n0,1\n1,2,3,4\n", "FILE is not a CSV file that can be read ("),
        ("y,a\n0,1,5\n1,2,6\n", "FILE is not a CSV file that can be read ("),
        ("y;a\n0;1\n1;2\n", "; the file has one column: are the values separated by commas?"),
        ("yy,a\n0,1\n1,2\n", "FILE: unknown target column 'y': did you mean 'yy'? known: a, yy"),
        ("y\n0\n1\n", "FILE has no column except the target y: at least one feature is needed"),
        ("y,a\n", "FILE has 0 rows below the header: at least 2 are needed"),
        ("y,a\n0,1\n", "FILE has 1 rows below the header: at least 2 are needed"),
        (",y,a\n1,0,3\n2,1,4\n", "FILE: column 1 has no name: name it in the header or drop it"),
        ("y,a,a\n1,0,3\n0,1,4\n", "FILE: more than one column is called a: rename one"),
        (
            "y,a,b\n0,1,2\n1,,3\n0,,\n1,4,5\n",
            "FILE: missing values: a (2, first in row 2), b (1, first in row 3): fill them in, or drop the rows",
        ),
        ("y,a\n0,1\n,2\n1,3\n", "FILE: missing values: y (1, first in row 2)"),
        ("y,a,b\n0,1,\n1,2,\n", "FILE: missing values: b (2, first in row 1)"),
        (
            "y,a,b,c\n0,1,red,2\n1,?,blue,3\n",
            "FILE: not numbers: a ('?' in row 2), b ('red' in row 1): encode or drop these columns",
        ),
        ("y,a,b,c\n0,1,2,0\n1,1,2,1\n", "FILE: the same value in every training row: a, b: drop these columns"),
        ("y,a\n0,0\n1,0\n", "FILE: the same value in every training row: a: drop these columns"),
        ("y,a\nno,0\nno,1\n", "FILE: the target y has 1 label(s) (no): exactly 2 are needed"),
        ("y,a\n0,0\n1,1\n2,2\n", "FILE: the target y has 3 label(s) (0, 1, 2): exactly 2 are needed"),
        (
            "y,a\n" + "\n".join(f"{i},{i}" for i in range(9)),
            "FILE: the target y has 9 label(s) (0, 1, 2, 3, 4, ...): exactly 2 are needed",
        ),
        ("y,a,b\n0,1,2\n1,inf,3\n0,2,-inf\n", "FILE: infinite values: a (1, first in row 2), b (1, first in row 3)"),
        ("y,a\n0,1\n1,1e999\n", "FILE: infinite values: a (1, first in row 2)"),
        ("y,a\n0,1\ninf,2\n", "FILE: infinite values: y (1, first in row 2)"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(refused, content, message):
    assert message in refused(content)


def test_of_many_columns_the_first_are_named(refused):
    names = [f"c{i}" for i in range(8)]
    message = refused(f"y,{','.join(names)}\n" + "0,a,a,a,a,a,a,a,a\n" + "1,b,b,b,b,b,b,b,b\n")
    assert "c4 ('a' in row 1) and 3 more columns: encode or drop" in message
    assert "c5" not in message


@pytest.mark.parametrize("hold_out", [1.0, -0.1, 7.0, float("nan"), float("inf")])
def test_a_share_outside_its_range_is_an_error(write, hold_out):
    with pytest.raises(DataError, match=r"hold_out must be in \[0, 1\), not "):
        read_table(write(ROWS), "smoker", hold_out=hold_out)
    with pytest.raises(DataError, match="seed must not be negative, not -1"):
        read_table(write(ROWS), "smoker", seed=-1)


def test_too_few_training_rows_are_an_error(refused):
    assert "hold_out 0.9 leaves only 0 row(s) to train on" in refused(ROWS, "smoker", hold_out=0.9)
    single = "y,a\n1,0\n" + "\n".join(f"0,{i}" for i in range(1, 9))
    messages = [
        refused(single, hold_out=0.75, seed=seed)
        for seed in range(3)
        if 0 in np.random.default_rng(seed).permutation(9)[:7]
    ]
    assert messages
    assert all("hold_out 0.75 leaves one label only to train on: hold out less or change the s" in m for m in messages)


def test_memory_stays_near_that_of_the_result(write):
    import tracemalloc

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(20_000, 20)).round(3)).add_prefix("c").assign(y=rng.integers(2, size=20_000))
    path = write(frame.to_csv(index=False))
    tracemalloc.start()
    data = read_table(path, "y")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sys.getsizeof(data.x_train) > 20_000 * 21 * 4
    assert peak < 8 * data.x_train.nbytes
