"""Compiled programs are shared between threads and data of the same shapes, and only the last ones are kept."""

import gc
import threading
import weakref
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from civi.inference import programs
from civi.inference.programs import call, drop_programs, forget_programs, prepare, shapes_of, side_by_side
from civi.update.groups import on_leaves


@pytest.fixture(autouse=True)
def empty(monkeypatch):
    """No program is kept from other tests, and those of these tests are not kept."""
    monkeypatch.setattr(programs, "_programs", OrderedDict())


class Counted:
    """A function of an array and a factor that counts how often it is traced."""

    def __init__(self):
        self.traced = 0

    def __call__(self, x, factor):
        self.traced += 1
        return factor * x["values"].sum()


@pytest.mark.parametrize(("maps", "traced"), [(400, 1), (600, 2)])
def test_programs_are_dropped_when_the_process_has_many_memory_maps(maps, traced, monkeypatch, tmp_path):
    (tmp_path / "maps").write_text("a map\n" * maps)
    (tmp_path / "limit").write_text("1000\n")
    monkeypatch.setattr(programs, "MAPS", tmp_path / "maps")
    monkeypatch.setattr(programs, "MAP_LIMIT", tmp_path / "limit")
    monkeypatch.setattr(jax, "clear_caches", lambda: None)
    function = Counted()
    for _ in range(2):
        drop_programs()
        call(function, {"values": np.ones(3)}, 2.0)
    assert function.traced == traced


def test_without_a_known_limit_programs_are_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(programs, "MAPS", tmp_path / "missing")
    function = Counted()
    for _ in range(2):
        drop_programs()
        call(function, {"values": np.ones(3)}, 2.0)
    assert function.traced == 1


def test_other_values_of_the_same_shapes_use_the_same_program():
    function = Counted()
    prepare(function, {"values": jax.ShapeDtypeStruct((3,), float)}, 2)
    assert function.traced == 1
    for values in (np.arange(3.0), np.ones(3, np.float32), jnp.ones(3), np.full(3, -2.0)):
        assert call(function, {"values": values}, 2) == 2 * values.sum()
    assert function.traced == 1


def test_another_shape_type_or_static_value_is_another_program():
    function = Counted()
    assert call(function, {"values": np.ones(3)}, 2) == 6
    assert call(function, {"values": np.ones(4)}, 2) == 8
    assert call(function, {"values": np.ones(3)}, 3) == 9
    assert call(function, {"values": np.ones(3, np.int32)}, 2).dtype == jnp.int32
    assert function.traced == 4
    assert call(Counted(), {"values": np.ones(3)}, 2) == 6, "another function has its own program"
    assert function.traced == 4


def test_a_number_too_large_for_single_precision_is_infinite():
    assert call(Counted(), {"values": np.array([1e300])}, 1) == np.inf


def test_two_threads_that_ask_for_one_program_compile_it_once():
    together, function = threading.Barrier(4), Counted()

    def task(value):
        together.wait()
        return float(call(function, {"values": np.full(2, value)}, 1))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(task, [1.0, 2.0, 3.0, 4.0])) == [2, 4, 6, 8]
    assert function.traced == 1


def test_only_the_programs_used_last_are_kept(monkeypatch):
    monkeypatch.setattr(programs, "LARGEST", 2)
    function = Counted()

    def ask(size):
        return call(function, {"values": np.ones(size)}, 1)

    for size in (1, 2, 1, 3):
        ask(size)
    assert (function.traced, len(programs._programs)) == (3, 2)
    ask(1)
    assert function.traced == 3, "it was used after the second one and is kept"
    ask(2)
    assert function.traced == 4


def test_an_error_while_compiling_is_raised_to_all_and_not_kept():
    together, broken = threading.Barrier(3), [True]

    def function(x):
        if broken:
            raise ValueError("cannot be traced")
        return x + 1

    def task():
        together.wait()
        with pytest.raises(ValueError, match="cannot be traced"):
            call(function, np.ones(2))
        return True

    with ThreadPoolExecutor(3) as pool:
        assert all(future.result() for future in [pool.submit(task) for _ in range(3)])
    assert not programs._programs
    broken.clear()
    np.testing.assert_array_equal(call(function, np.ones(2)), 2)


def test_tasks_side_by_side_give_their_results_in_order():
    ids = side_by_side([threading.get_ident, threading.get_ident])
    assert threading.get_ident() not in ids
    assert side_by_side([partial(pow, i, 2) for i in range(7)]) == [i**2 for i in range(7)]
    assert side_by_side([threading.get_ident]) == [threading.get_ident()]


def test_an_error_in_one_task_asks_the_others_to_end():
    stop, ended = threading.Event(), []

    def fails():
        raise RuntimeError("one of them")

    def waits():
        ended.append(stop.wait(60))

    with pytest.raises(RuntimeError, match="one of them"):
        side_by_side([fails, waits], stop)
    assert ended == [True]


@pytest.mark.parametrize(("shape", "batched"), [((3, 3), False), ((2, 3, 3), True)])
def test_programs_with_batches_of_factorisations_are_known(shape, batched):
    def log_determinant(x):
        return jnp.log(jnp.diagonal(jnp.linalg.cholesky(x), axis1=-2, axis2=-1)).sum()

    identity = np.broadcast_to(4 * np.eye(3), shape)
    assert call(log_determinant, identity) == pytest.approx(np.log(2) * identity.size / 3)
    (made,) = programs._programs.values()
    assert made.result().batched_lapack is batched


def test_options_that_xla_does_not_have_are_left_out(monkeypatch):
    monkeypatch.setattr(programs, "QUICK", {"an_option_of_another_version": True})
    with pytest.raises(jax.errors.JaxRuntimeError, match="No such compile option"):
        jax.jit(jnp.sin).lower(1.0).compile(compiler_options=programs.QUICK)
    np.testing.assert_allclose(programs.call(lambda x: 2 * x, np.arange(3.0)), [0, 2, 4])


def test_a_program_that_is_not_needed_is_not_compiled_and_not_prepared_again(monkeypatch):
    monkeypatch.setattr(programs, "_cancelled", OrderedDict())
    function, not_needed = Counted(), threading.Event()
    values = {"values": np.ones(3)}
    not_needed.set()
    prepare(function, values, 2, unless=not_needed)
    assert (function.traced, len(programs._programs)) == (1, 0)
    not_needed.clear()
    prepare(function, values, 2, unless=not_needed)
    assert function.traced == 1
    prepare(function, {"values": np.ones(4)}, 2, unless=not_needed)
    assert (function.traced, len(programs._programs)) == (2, 1)
    assert call(function, values, 2) == 6, "it is compiled when it is called"


class Model:
    """Stands for a user's model, which a compiled program knows as a static part."""


class Traced(eqx.Module):
    """A target with an array and a model."""

    values: jax.Array | jax.ShapeDtypeStruct
    model: Model = eqx.field(static=True)


def test_shapes_take_the_place_of_arrays_and_nothing_else_changes():
    model = Model()
    doubled = lambda traced, times, word: (Traced(jnp.tile(traced.values, times), model), word, None)  # noqa: E731
    for values in (jnp.ones(3), jax.ShapeDtypeStruct((3,), jnp.float32)):
        traced, word, nothing = shapes_of(doubled, Traced(values, model), 2, "word")
        assert traced.values == jax.ShapeDtypeStruct((6,), jnp.float32)
        assert (traced.model, word, nothing) == (model, "word", None)


def test_the_shapes_of_a_result_do_not_keep_its_model_alive():
    model = Model()
    alive = weakref.ref(model)
    assert shapes_of(lambda traced: traced, Traced(jnp.ones(3), model)).model is model
    del model
    gc.collect()
    assert alive() is None


def test_a_program_does_not_keep_the_model_of_its_arguments_and_results_alive():
    model = Model()
    alive = weakref.ref(model)
    assert call(lambda traced: traced, Traced(jnp.ones(3), model)).model is model
    del model
    forget_programs()
    gc.collect()
    assert alive() is None


def test_the_state_of_an_optimiser_does_not_keep_a_model_alive():
    model = Model()
    alive = weakref.ref(model)

    def updated(traced: Traced) -> Traced:
        rule = on_leaves(lambda _: optax.adam(0.1), traced)
        return rule.update(traced, rule.init(traced), traced)[0]

    change = call(updated, Traced(jnp.ones(3), model))
    assert np.allclose(change.values, -0.1)
    assert change.model is model
    del model, change
    forget_programs()
    gc.collect()
    assert alive() is None
