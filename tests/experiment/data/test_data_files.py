"""Data files: search order, checksums, downloads from a local server, and errors in one line."""

import hashlib
import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from civi.cli import main as cli
from civi.errors import DataError, SettingError
from civi.experiment.data import SETS, DataFile, FileSet, fetch, files, find_set, locate
from civi.folders import cache_folder

CONTENT = b"a tiny file of data\n" * 5_000


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    """No data folder, and an empty cache."""
    monkeypatch.delenv("CIVI_DATA_DIR", raising=False)
    monkeypatch.setenv("CIVI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def served(tmp_path):
    """The URL of a local server, and the folder that it serves."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "tiny.txt").write_bytes(CONTENT)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()
        thread.join()


@pytest.fixture
def tiny(monkeypatch):
    """Register a data set of one file with these URLs."""

    def register(*urls: str, **options) -> DataFile:
        file = DataFile("tiny", "tiny/tiny.txt", len(CONTENT), sha256(CONTENT), urls, **options)
        monkeypatch.setitem(SETS, "tiny", FileSet("tiny", "a tiny set", "none", (file,)))
        return file

    return register


def put(folder: Path, content: bytes = CONTENT) -> Path:
    path = folder / "tiny" / "tiny.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


def here(name: str) -> str:
    """The last column of `civi data list` for a set."""
    result = CliRunner().invoke(cli.app, ["data", "list"], env={"COLUMNS": "250"})
    assert result.exit_code == 0
    (line,) = [line for line in result.stdout.splitlines() if f"│ {name} " in line]
    return line.strip("│ ").split("│")[-1].strip()


def test_the_registry_names_every_set_and_its_files():
    images = ["mnist", "fashion-mnist", "binarized-mnist-static"]
    assert list(SETS) == ["spam", "nodal", "waveform", "diffusion", "uci", *images, "ptb"]
    for name, file_set in SETS.items():
        assert file_set.name == name
        assert file_set.licence
        assert file_set.size > 0
        for file in file_set.files:
            assert file.set_name == name
            assert file.path == f"{name}/{file.name}"
            assert re.fullmatch("[0-9a-f]{64}", file.sha256)
            assert all(url.startswith(("https://", "http://")) and url.endswith(f"/{file.name}") for url in file.urls)
            assert file.urls or file.origin or (files.SHIPPED / file.path).is_file()


def test_shipped_files_are_whole_and_need_no_folder():
    for name in ("spam", "nodal", "diffusion"):
        for file in find_set(name).files:
            path = locate(name, file.name)
            assert path == files.SHIPPED / file.path
            assert path.stat().st_size == file.size
    attribution = (files.SHIPPED / "ATTRIBUTION.md").read_text()
    shipped = {path.relative_to(files.SHIPPED).as_posix() for path in files.SHIPPED.rglob("*.*")}
    assert all(f"`{path}`" in attribution for path in shipped - {"ATTRIBUTION.md"})


def test_the_cache_folder_follows_the_environment(monkeypatch):
    assert cache_folder("data").parts[-2:] == ("cache", "data")
    monkeypatch.delenv("CIVI_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder("data") == Path("/somewhere/civi/data")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder("nuts") == Path.home() / ".cache" / "civi" / "nuts"


def test_the_data_folder_comes_before_shipped_files_and_these_before_the_cache(tiny, tmp_path, monkeypatch):
    tiny()
    monkeypatch.setattr(files, "SHIPPED", tmp_path / "shipped")
    assert here("tiny") == "no"
    for place, folder in (
        ("cache", cache_folder("data")),
        ("shipped", tmp_path / "shipped"),
        ("CIVI_DATA_DIR", tmp_path / "mine"),
    ):
        path = put(folder)
        if place == "CIVI_DATA_DIR":
            monkeypatch.setenv("CIVI_DATA_DIR", str(folder))
        assert locate("tiny", "tiny.txt") == path
        assert here("tiny") == place


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT[:-1] + b"x", b""], ids=["truncated", "altered", "empty"])
@pytest.mark.parametrize(
    ("place", "repair"),
    [
        ("cache", "fetch it again with `civi data fetch tiny`"),
        ("mine", "replace it with the correct file, or unset CIVI_DATA_DIR"),
        ("shipped", "reinstall civi"),
    ],
)
def test_a_damaged_file_is_an_error_with_both_checksums(tiny, tmp_path, monkeypatch, content, place, repair):
    tiny("http://127.0.0.1/tiny.txt")
    monkeypatch.setattr(files, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setenv("CIVI_DATA_DIR", str(tmp_path / "mine"))
    path = put(cache_folder("data") if place == "cache" else tmp_path / place, content)
    with pytest.raises(DataError) as error:
        locate("tiny", "tiny.txt")
    assert str(error.value) == (
        f"{path} is damaged or a different file: its sha256 is {sha256(content)} and should be {sha256(CONTENT)}; "
        f"{repair}"
    )
    assert here("tiny") == "damaged"


def test_a_missing_file_says_how_to_get_it(failing, monkeypatch):
    with pytest.raises(DataError) as error:
        locate("mnist", "t10k-labels-idx1-ubyte.gz")
    assert str(error.value) == (
        "mnist/t10k-labels-idx1-ubyte.gz was not found: fetch it with `civi data fetch mnist`, "
        "or set CIVI_DATA_DIR to a folder that contains it"
    )
    monkeypatch.setenv("CIVI_DATA_DIR", "/not/there")
    assert "(CIVI_DATA_DIR is /not/there, which is not a folder)" in failing("data", "path", "mnist")


def test_an_unknown_set_or_file_is_an_error_with_the_nearest_name(failing):
    assert "unknown data set 'mnits': did you mean 'mnist'? known: " in failing("data", "fetch", "mnits")
    with pytest.raises(SettingError, match=r"unknown file of ptb 'ptb.trian.txt': did you mean 'ptb.train.txt'\?"):
        locate("ptb", "ptb.trian.txt")


def test_fetch_puts_the_file_into_the_cache_and_keeps_it(tiny, served):
    address, folder = served
    tiny(f"{address}/tiny.txt")
    (path,) = fetch("tiny")
    assert path == cache_folder("data") / "tiny" / "tiny.txt" == locate("tiny", "tiny.txt")
    assert path.read_bytes() == CONTENT
    assert [entry.name for entry in path.parent.iterdir()] == ["tiny.txt"]
    (folder / "tiny.txt").unlink()
    assert fetch("tiny") == [path]


def test_fetch_replaces_a_damaged_file_of_the_cache(tiny, served):
    address, _ = served
    tiny(f"{address}/tiny.txt")
    path = put(cache_folder("data"), b"half")
    assert fetch("tiny") == [path]
    assert path.read_bytes() == CONTENT


def test_fetch_leaves_a_file_of_the_data_folder_alone(tiny, tmp_path, monkeypatch):
    tiny("http://127.0.0.1:9/tiny.txt")
    path = put(tmp_path / "mine")
    monkeypatch.setenv("CIVI_DATA_DIR", str(tmp_path / "mine"))
    assert fetch("tiny") == [path]
    assert not cache_folder("data").exists()


def test_the_next_address_is_tried(tiny, served):
    address, _ = served
    tiny(f"{address}/gone.txt", f"{address}/tiny.txt")
    assert fetch("tiny")[0].read_bytes() == CONTENT


def test_another_file_at_the_address_is_an_error_with_both_checksums_and_nothing_is_kept(tiny, served, failing):
    address, folder = served
    (folder / "tiny.txt").write_bytes(b"a login page")
    tiny(f"{address}/tiny.txt")
    message = failing("data", "fetch", "tiny")
    assert f"has sha256 {sha256(b'a login page')} and should have {sha256(CONTENT)}" in message
    assert [path for path in cache_folder("data").rglob("*") if path.is_file()] == []


def test_no_connection_and_a_refusal_are_one_line(tiny, served, failing):
    address, _ = served
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as closed:
        port = closed.server_port
    tiny(f"http://127.0.0.1:{port}/tiny.txt", f"{address}/gone.txt")
    assert failing("data", "fetch", "tiny") == (
        f"cannot fetch tiny/tiny.txt (http://127.0.0.1:{port}/tiny.txt: no connection; "
        f"{address}/gone.txt: the server answered 404): try again later, "
        "or set CIVI_DATA_DIR to a folder that contains tiny/tiny.txt"
    )


def test_a_download_that_breaks_off_is_one_line_and_keeps_nothing(tiny, served, failing, monkeypatch):
    address, _ = served
    tiny(f"{address}/tiny.txt")
    monkeypatch.setattr(SimpleHTTPRequestHandler, "copyfile", lambda _, source, out: out.write(source.read(500)))
    assert "/tiny.txt: the download failed (" in failing("data", "fetch", "tiny")
    assert [path for path in cache_folder("data").rglob("*") if path.is_file()] == []


def test_a_cache_that_cannot_be_written_is_one_line(tiny, served, failing, tmp_path):
    address, _ = served
    tiny(f"{address}/tiny.txt")
    (tmp_path / "cache").write_text("a regular file")
    assert failing("data", "fetch", "tiny").startswith(f"cannot write to {tmp_path}/cache/data: ")


def test_a_file_without_an_address_says_where_it_comes_from_and_where_it_goes(failing):
    message = failing("data", "fetch", "binarized-mnist-static")
    assert "larocheh/public/datasets/binarized_mnist" in message
    assert f"put it at {cache_folder('data')}/binarized-mnist-static/binarized_mnist_bits.npz, or set" in message


def test_an_optional_file_is_not_needed(tiny):
    tiny(origin="made by hand", optional=True)
    result = CliRunner().invoke(cli.app, ["data", "fetch", "tiny"])
    assert result.exit_code == 0
    assert result.stderr == "tiny/tiny.txt is optional and was not fetched: made by hand\n"
    assert CliRunner().invoke(cli.app, ["data", "path", "tiny"]).stdout == ""


def test_the_progress_bar_counts_the_bytes(tiny, served):
    address, _ = served
    tiny(f"{address}/tiny.txt")

    class Bar:
        total = done = most = closed = 0

        def update(self, size):
            self.done += size
            self.most = max(self.most, self.done)

        def reset(self):
            self.done = 0

        def close(self):
            self.closed += 1

    bars = []
    fetch("tiny", lambda file: bars.append(Bar()) or bars[-1])
    (bar,) = bars
    assert bar.total == bar.done == len(CONTENT)
    assert bar.most >= len(CONTENT)
    assert bar.closed == 1


def test_the_rich_bar_is_full_at_the_end(tiny, served):
    from rich.console import Console
    from rich.progress import Progress

    from civi.cli.data import FileBar

    address, _ = served
    tiny(f"{address}/tiny.txt")
    with Console(quiet=True) as console, Progress(console=console) as progress:
        fetch("tiny", lambda file: FileBar(progress, file))
        (task,) = progress.tasks
        assert task.description == "tiny/tiny.txt"
        assert task.completed == task.total == len(CONTENT)


def test_path_prints_the_cache_folder_or_the_files_of_a_set():
    run = CliRunner().invoke
    assert run(cli.app, ["data", "path"]).stdout == f"{cache_folder('data')}\n"
    assert run(cli.app, ["data", "path", "nodal"]).stdout == f"{files.SHIPPED}/nodal/nodal.csv\n"


def test_list_shows_size_licence_and_place():
    result = CliRunner().invoke(cli.app, ["data", "list"], env={"COLUMNS": "250"})
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines() if "│" in line]
    assert [row[0] for row in rows] == list(SETS)
    shown = {row[0]: (row[2], row[3], row[4]) for row in rows}
    assert shown["nodal"] == ("0.8 kB", "unlimited distribution", "shipped")
    assert shown["ptb"] == ("6.0 MB", "LDC; load it, do not redistribute", "no")


def test_list_says_when_a_part_is_here(monkeypatch, tmp_path):
    monkeypatch.setenv("CIVI_DATA_DIR", str(tmp_path))
    first, *others = find_set("ptb").files
    present = DataFile("ptb", first.path, len(CONTENT), sha256(CONTENT))
    monkeypatch.setitem(SETS, "ptb", FileSet("ptb", "text", "none", (present, *others)))
    (tmp_path / "ptb").mkdir()
    (tmp_path / first.path).write_bytes(CONTENT)
    assert here("ptb") == "1 of 3 files (CIVI_DATA_DIR)"
