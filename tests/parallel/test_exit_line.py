"""The message with which a process of a distributed run ends."""

import jax
import pytest

from civi.parallel.team import PROCESS_LOST, _exit_line

CLOSED = "UNKNOWN: Gloo all-reduce failed: Connection closed by peer"


@pytest.mark.parametrize("kind", [ValueError, jax.errors.JaxRuntimeError])
def test_a_lost_process_is_one_line_whatever_class_of_error_the_runtime_raises(kind):
    line, code = _exit_line(kind(CLOSED))
    assert line == f"{PROCESS_LOST} ({CLOSED})"
    assert code == 1


def test_a_bug_keeps_its_traceback():
    try:
        raise ValueError("shapes differ")
    except ValueError as error:
        line, code = _exit_line(error)
    assert line.startswith("Traceback")
    assert line.endswith("ValueError: shapes differ")
    assert code == 1
