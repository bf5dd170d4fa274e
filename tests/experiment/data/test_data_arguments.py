"""Numbers of the user's data file that do not fit into 32 bits are refused by name and row, never changed."""

import json

import numpy as np
import pytest

from civi.errors import DataError
from civi.experiment.data.arguments import read_arguments

LARGEST = 2**31 - 1


def write(path, values):
    if path.suffix == ".json":
        path.write_text(json.dumps({"y": values}))
    else:
        path.write_text("\n".join(["y", *map(str, values)]))
    return path


@pytest.mark.parametrize("name", ["data.json", "data.csv"])
def test_the_largest_numbers_that_fit_are_kept(tmp_path, name):
    whole = read_arguments(write(tmp_path / name, [1, LARGEST, -LARGEST]))["y"]
    assert whole.dtype == np.int32
    assert whole.tolist() == [1, LARGEST, -LARGEST]
    real = read_arguments(write(tmp_path / name, [0.5, 3e38]))["y"]
    assert real.dtype == np.float32
    np.testing.assert_array_equal(real, np.array([0.5, 3e38], np.float32))


@pytest.mark.parametrize("name", ["data.json", "data.csv"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [1, 3_000_000_000],
            r"y has 3000000000 in row 2, .*: rescale it, or write it with a decimal",
        ),
        ([-3_000_000_000, 1], r"y has -3000000000 in row 1, which does not fit into 32 bits"),
        ([0.5, 1.0, 1e39], r"y has 1e\+39 in row 3, which does not fit into 32 bits .*: rescale it$"),
    ],
)
def test_numbers_beyond_32_bits_are_refused_with_name_and_row(tmp_path, name, values, message):
    with pytest.raises(DataError, match=message):
        read_arguments(write(tmp_path / name, values))


def test_a_single_number_beyond_32_bits_is_refused(tmp_path):
    (tmp_path / "data.json").write_text('{"n": 3000000000}')
    with pytest.raises(DataError, match="n has 3000000000, which does not fit into 32 bits"):
        read_arguments(tmp_path / "data.json")
