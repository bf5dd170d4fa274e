"""`keep_programs`: a loaded program gives the bits of one that is compiled in place; the folder is private."""

import os
import subprocess
import sys

import pytest

from civi.errors import OutputError
from civi.inference import program_files
from civi.inference.program_files import keep_programs

SCRIPT = """
import sys
import jax
import civi
civi.keep_programs(sys.argv[1])
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
fitted = civi.fit(lambda z: -0.5 * (z**2).sum() - (z**4).sum(), dim=2, key=0, steps=40, runs=1, progress=False)
loaded = sum(event.endswith("cache_hits") for event in events)
print(loaded, fitted.history["neg_elbo"].tobytes().hex(), fitted.sample(1, 50).tobytes().hex())
"""


@pytest.fixture
def settings():
    """The settings of the process, which are restored."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    names = ("compilation_cache_dir", "persistent_cache_min_compile_time_secs", "persistent_cache_min_entry_size_bytes")
    before = {f"jax_{name}": getattr(jax.config, f"jax_{name}") for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def test_loaded_programs_give_the_same_bits(tmp_path):
    def run(folder):
        command = [sys.executable, "-c", SCRIPT, str(folder)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    compiled, loaded = run(tmp_path / "programs"), run(tmp_path / "programs")
    assert compiled[0] == "0"
    assert int(loaded[0]) >= 4
    assert compiled[1:] == loaded[1:]


def test_the_folder_is_for_its_owner_alone(settings, tmp_path, monkeypatch):
    monkeypatch.setenv("CIVI_CACHE_DIR", str(tmp_path))
    folder = keep_programs()
    assert folder.parent == tmp_path / "programs"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert keep_programs() == folder
    folder.chmod(0o720)
    with pytest.raises(OutputError, match="others can write to"):
        keep_programs()
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot keep programs in"):
        keep_programs(tmp_path / "file")


def test_another_processor_has_another_folder(monkeypatch, tmp_path):
    (tmp_path / "cpuinfo").write_text("model name : x\nflags : avx\n")
    first = program_files._machine()
    monkeypatch.setattr(program_files, "CPU_FILE", tmp_path / "cpuinfo")
    assert program_files._machine() != first
    monkeypatch.setattr(program_files, "CPU_FILE", tmp_path / "missing")
    assert program_files._machine()


def test_the_oldest_files_are_deleted(settings, monkeypatch, tmp_path):
    monkeypatch.setattr(program_files, "LARGEST", 25)
    for age, name in enumerate(["new", "old", "oldest"]):
        file = tmp_path / name
        file.write_bytes(bytes(10))
        os.utime(file, (1000 - age, 1000 - age))
    tmp_path.chmod(0o700)
    keep_programs(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["new", "old"]
