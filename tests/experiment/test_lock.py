"""The lock of a run's folder: held by a living process, left over from a dead one."""

import json
import os
import socket
import subprocess
import sys

import pytest

from civi.errors import OutputError
from civi.experiment import lock
from civi.experiment.lock import locked

HOLDER = """
import sys
from pathlib import Path
from civi.experiment.lock import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / "run")], **pipes) as child:
        assert child.stdout.readline() == "locked\n"
        yield child
        child.kill()


def test_the_folder_of_a_living_process_is_refused_until_it_is_killed(holder, tmp_path):
    with pytest.raises(OutputError) as refused, locked(tmp_path / "run"):
        pass
    assert str(refused.value).startswith(
        f"{tmp_path / 'run'} is in use by process {holder.pid} on {socket.gethostname()}: wait until it ends or stop it"
    )
    holder.kill()
    holder.wait()
    assert (tmp_path / "run" / ".lock").exists()
    with locked(tmp_path / "run"):
        assert json.loads((tmp_path / "run" / ".lock").read_text())["pid"] == os.getpid()
    assert not (tmp_path / "run" / ".lock").exists()


@pytest.mark.parametrize("option", ["--force", "--resume"])
def test_a_run_that_is_running_is_not_replaced(holder, tmp_path, failing, option):
    from civi.experiment.plan import Plan
    from civi.files import write_json

    write_json(tmp_path / "run" / "config.json", Plan.make("banana", "civi", "default", 0, 6, []).described())
    before = (tmp_path / "run" / "config.json").read_bytes()
    message = failing("run", "banana", "--steps", "6", "--out", str(tmp_path / "run"), option)
    assert f"is in use by process {holder.pid}" in message
    assert (tmp_path / "run" / "config.json").read_bytes() == before


@pytest.mark.parametrize(
    ("content", "held"),
    [
        ({"pid": os.getppid(), "host": socket.gethostname()}, True),
        ({"pid": 2**22 + 1, "host": socket.gethostname()}, False),
        ({"pid": 2**22 + 1, "host": "elsewhere"}, True),
        ({"pid": "x"}, False),
        (None, False),
    ],
)
def test_without_kernel_locks_the_process_in_the_file_decides(tmp_path, monkeypatch, content, held):
    import fcntl

    def unsupported(*_):
        raise OSError(95, "not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    (tmp_path / lock.NAME).write_text("" if content is None else json.dumps(content))
    if held:
        with pytest.raises(OutputError, match="is in use by process"), locked(tmp_path):
            pass
    else:
        with locked(tmp_path):
            assert json.loads((tmp_path / lock.NAME).read_text())["pid"] == os.getpid()


def test_folders_that_stay_empty_are_removed_again(tmp_path):
    with locked(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b" / lock.NAME).exists()
    assert list(tmp_path.iterdir()) == []
    with locked(tmp_path / "a" / "b"):
        (tmp_path / "a" / "b" / "file").touch()
    assert (tmp_path / "a" / "b" / "file").exists()
