"""Files are complete or absent; a number that is not finite becomes null or an empty cell."""

import json
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from civi.errors import OutputError
from civi.experiment.run_folder import prepare, write_history
from civi.files import write_json
from civi.progress import measures, result_table

METRICS = {
    "task": "banana",
    "solver": "civi",
    "recipe": "paper",
    "seed": 3,
    "message": "finished 4 steps",
    "neg_elbo": 0.123456,
    "neg_elbo_se": 0.0012345,
    "kl": float("nan"),
    "kl_se": None,
    "far": 123456.789,
    "far_se": 2000.0,
}


def test_json_has_null_where_a_number_is_not_finite(tmp_path):
    inner = {"list": [1.5, float("nan"), (float("inf"), "nan")], "none": None, "yes": True}
    write_json(tmp_path / "a.json", {"kl": float("nan"), "low": float("-inf"), "steps": 4, "inner": inner})
    assert json.loads((tmp_path / "a.json").read_text()) == {
        "kl": None,
        "low": None,
        "steps": 4,
        "inner": {"list": [1.5, None, [None, "nan"]], "none": None, "yes": True},
    }
    assert (tmp_path / "a.json").read_text().endswith("}\n")


def test_json_keeps_every_digit_of_a_float(tmp_path):
    write_json(tmp_path / "a.json", {"value": 0.1 + 0.2, "numpy": np.float64(1 / 3)})
    assert json.loads((tmp_path / "a.json").read_text()) == {"value": 0.1 + 0.2, "numpy": 1 / 3}


def test_history_is_a_table_with_empty_cells_where_a_number_is_not_finite(tmp_path):
    history = {"step": np.arange(1.0, 4.0), "kl": np.array([0.1, np.nan, -np.inf]), "seconds": np.array([0.25, 1, 1e9])}
    write_history(tmp_path / "history.csv", history)
    lines = (tmp_path / "history.csv").read_text().splitlines()
    assert lines == ["step,kl,seconds", "1,0.1,0.25", "2,,1", "3,,1e+09"]


def test_history_can_be_read_back_in_single_precision(tmp_path):
    values = np.random.default_rng(0).normal(size=50).astype(np.float32)
    write_history(tmp_path / "history.csv", {"value": values})
    read = np.array((tmp_path / "history.csv").read_text().split()[1:], np.float32)
    np.testing.assert_array_equal(read, values)


@pytest.mark.parametrize(
    ("write", "error"),
    [
        (lambda path: write_json(path, {"fine": 1, "not JSON": object()}), TypeError),
        (lambda path: write_history(path, {"a": np.arange(3.0), "b": np.arange(2.0)}), ValueError),
    ],
)
def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, write, error):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(error):
        write(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_an_error_with_the_path_and_leaves_the_old_file(tmp_path, monkeypatch):
    def fail(part, target):
        raise OSError(28, "No space left on device")

    path = tmp_path / "metrics.json"
    path.write_text("old")
    monkeypatch.setattr(type(path), "replace", fail)
    with pytest.raises(OutputError, match=r"cannot write .*/metrics.json: No space left on device"):
        write_json(path, {"kl": 1.0})
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_an_error_with_the_path(tmp_path):
    with pytest.raises(OutputError, match=r"cannot write .*/none/a.json: No such file or directory"):
        write_json(tmp_path / "none" / "a.json", {})


def test_prepare_makes_a_folder_and_refuses_one_that_is_in_use(tmp_path):
    folder = tmp_path / "far" / "below"
    prepare(folder, force=False)
    assert list(folder.iterdir()) == []
    (folder / "draws.nc").write_text("old")
    (folder / "figures").mkdir()
    (folder / "figures" / "density.png").write_text("old")
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"already holds a run \(draws.nc, figures\)"):
        prepare(folder, force=False)
    assert sorted(path.name for path in folder.iterdir()) == ["draws.nc", "figures", "mine.txt"]
    prepare(folder, force=True)
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


def test_measures_stand_beside_their_standard_errors():
    rows = dict(measures(METRICS))
    assert rows == {"seed": "3", "neg_elbo": "0.1235 ± 0.0012", "kl": "not finite", "far": "1.235e+05 ± 2000"}


def test_the_table_has_the_measures_under_the_names_of_the_run():
    text = StringIO()
    table = result_table(METRICS)
    Console(file=text, width=100).print(table)
    lines = text.getvalue().splitlines()
    assert lines[0].strip() == "banana with civi, recipe paper"
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if line.startswith("│")]
    assert cells == [[name, value] for name, value in measures(METRICS)]
    assert ["neg_elbo", "0.1235 ± 0.0012"] in cells
