"""Interrupts in real processes: one line, exit code 130, and files that are whole."""

import signal
import subprocess
import sys

import pytest

# Each program prints "ready" and waits in a phase; then it is interrupted.
START = """
import sys, time
from pathlib import Path
from civi import interrupts
from civi.files import atomically

def ready():
    print("ready", flush=True)
    sys.stdin.readline()

def work():
    interrupts.advise("nothing is lost")
{}

with interrupts.handled():
    try:
        interrupts.begin()
        work()
    except interrupts.Interrupted:
        interrupts.leave(interrupts.acknowledge())
print("went on", flush=True)
"""
WAITING = "    ready()"
# The first exception is lost, as in a callback of the garbage collector.
SWALLOWED = """
    try:
        ready()
    except BaseException:
        pass
    while True:
        time.sleep(0.01)
"""
# The write goes on until the whole file is there.
WRITING = """
    def write(part):
        part.write_text("half ")
        ready()
        while not interrupts._state.received:
            time.sleep(0.01)
        part.write_text("whole")
    atomically(Path(sys.argv[1]), write)
    print("written", flush=True)
"""


# A background job of a shell inherits signals that are ignored.
DEFAULT_SIGNALS = """
import signal
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
"""


def interrupted(program: str, number: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Start the program, send it a signal once it is ready, and let it end."""
    command = [sys.executable, "-c", DEFAULT_SIGNALS + START.format(program), *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        if program is WRITING:
            child.stdin.write("\n")
        out, errors = child.communicate(timeout=60)
    return subprocess.CompletedProcess(command, child.returncode, out, errors)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_signal_ends_with_one_line_and_code_130(number):
    ended = interrupted(WAITING, number)
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr == "civi: interrupted; nothing is lost\n"


def test_what_comes_last_is_done_before_the_line():
    program = f"    interrupts.at_leave(lambda: print('last', file=sys.stderr))\n{WAITING}"
    ended = interrupted(program, signal.SIGINT)
    assert (ended.returncode, ended.stderr) == (130, "last\ncivi: interrupted; nothing is lost\n")


def test_an_interrupt_before_the_program_begins_is_one_line():
    """The thread that repeats signals is just being started."""
    early = """
import os, signal, threading
start = threading.Thread.start
threading.Thread.start = lambda self: (os.kill(os.getpid(), signal.SIGINT), start(self))
"""
    command = [sys.executable, "-c", DEFAULT_SIGNALS + early + START.format("    pass")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "civi: interrupted\n")


def test_an_interrupt_whose_exception_is_lost_is_repeated():
    ended = interrupted(SWALLOWED, signal.SIGINT)
    assert (ended.returncode, ended.stderr) == (130, "civi: interrupted; nothing is lost\n")


def test_an_interrupt_waits_until_a_file_is_written(tmp_path):
    ended = interrupted(WRITING, signal.SIGTERM, str(tmp_path / "file"))
    assert (ended.returncode, ended.stdout) == (130, "")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "whole")]


def test_a_signal_that_is_ignored_stays_ignored():
    """As under nohup."""
    program = "    import os, signal\n    os.kill(os.getpid(), signal.SIGHUP)"
    start = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{START.format(program)}"
    ended = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "went on\n", "")
