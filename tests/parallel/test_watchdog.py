"""A process that C aborts ends with one line and an exit code, and so does one that fails at the same moment."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from civi.parallel.watchdog import PRINT_LAST_LINE

START = """
import os, signal, sys, threading
from civi.parallel.watchdog import Watchdog
watchdog = Watchdog.start()
watchdog.set_message("a process was lost")
os.write(2, b"a stack trace of C++")
"""


def run(script: str, folder: Path) -> tuple[int, str]:
    """The exit code and the errors of a process with a watchdog; its log goes to the folder."""
    command = [sys.executable, "-c", START + script]
    ended = subprocess.run(command, env={"TMPDIR": str(folder)}, capture_output=True, text=True, timeout=60)
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(
    "script", ["os.abort()", "thread = threading.Thread(target=os.abort); thread.start(); thread.join()"]
)
def test_an_abort_is_one_line_and_an_exit_code(script, tmp_path):
    code, errors = run(script, tmp_path)
    (log,) = tmp_path.iterdir()
    assert (code, errors) == (signal.SIGABRT, f"a process was lost (JAX's own messages are in {log})\n")
    assert log.read_text() == "a stack trace of C++"
    assert log.stat().st_mode & 0o077 == 0


def test_an_abort_after_the_watchdog_is_a_signal_again(tmp_path):
    code, errors = run("watchdog.stop(); watchdog.stop(); os.abort()", tmp_path)
    assert (code, errors) == (-signal.SIGABRT, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["civi: error: wrong", "Traceback:\n  a line\nValueError: wrong"])
def test_an_error_is_printed_once(text, tmp_path):
    assert run(f"watchdog.exit_with({text!r}, 3)", tmp_path) == (3, f"{text}\n")
    assert list(tmp_path.iterdir()) == []


def test_an_abort_while_an_error_is_printed_leaves_one_line(tmp_path):
    script = """
def abort_before_the_end(watchdog, last):
    watchdog.shell.stdin.write(f"{last}\\n")
    watchdog.shell.stdin.flush()
    os.abort()
Watchdog._finish = abort_before_the_end
watchdog.exit_with("civi: error: wrong", 2)
"""
    assert run(script, tmp_path) == (signal.SIGABRT, "civi: error: wrong\n")


def test_an_error_is_printed_without_the_shell_too(tmp_path):
    script = "watchdog.shell.kill(); watchdog.shell.wait(); watchdog.exit_with('civi: error: wrong', 2)"
    assert run(script, tmp_path) == (2, "civi: error: wrong\n")


@pytest.mark.parametrize("name", ["INT", "HUP", "TERM"])
def test_a_signal_to_the_whole_group_does_not_end_the_shell(name):
    script = PRINT_LAST_LINE.replace("said=;", f"kill -{name} $$; said=;", 1)
    ended = subprocess.run(["/bin/sh", "-c", script], input="a line\n", capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "a line\n")


def test_a_log_that_is_gone_is_no_error(tmp_path):
    assert run("os.unlink(watchdog.log); watchdog.exit_with('civi: error: wrong', 2)", tmp_path)[0] == 2
