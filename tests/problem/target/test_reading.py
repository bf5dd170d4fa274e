"""Reading a target compiles nothing, and its data are arguments of the compiled programs."""

import gc
from contextlib import contextmanager

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

from civi.errors import TargetError
from civi.problem.target.not_finite import why_not_finite
from civi.problem.target.program import KEPT
from civi.problem.target.user import user_target

SIGMA = np.array([1.5, 1.0, 0.5], np.float32)
FIRST, SECOND = np.array([0.3, -1.0, 2.0], np.float32), np.array([1.3, 0.4, -0.7], np.float32)


def hierarchical(sigma, y):
    """A model with plates, a deterministic site and a covariance matrix."""
    mu, tau = numpyro.sample("mu", dist.Normal(0, 2)), numpyro.sample("tau", dist.HalfNormal(1))
    with numpyro.plate("rows", len(y)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
    numpyro.deterministic("scaled", theta / sigma)
    numpyro.sample("y", dist.MultivariateNormal(theta, jnp.diag(sigma**2) + tau**2 * jnp.eye(len(y))), obs=y)


def of_data(z, y):
    return -0.5 * ((z - y) ** 2).sum()


@contextmanager
def compilations():
    """The number of programs that XLA compiles inside of this context, as the length of a list."""
    found: list[str] = []
    listener = lambda event, _, **__: found.append(event) if "backend_compile" in event else None  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(listener)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(listener)


@eqx.filter_jit
def values(target, space, z):
    return target.log_prob(z), space(z)


def test_reading_compiles_nothing_and_other_data_use_the_same_programs():
    with compilations() as compiled:
        first = user_target(hierarchical, (SIGMA, FIRST), {}, None, None)
        second = user_target(hierarchical, (2 * SIGMA, SECOND), {}, None, None)
    assert compiled == []
    assert jax.tree.structure(first) == jax.tree.structure(second)
    z = jnp.zeros(5)
    with compilations() as compiled:
        log_p, sites = values(*first, z)
    assert len(compiled) >= 1
    with compilations() as compiled:
        other, other_sites = values(*second, z)
    assert compiled == []
    prior = stats.norm.logpdf(0, 0, 2) + stats.halfnorm.logpdf(1) + 3 * stats.norm.logpdf(0)
    for result, sigma, y in ((log_p, SIGMA, FIRST), (other, 2 * SIGMA, SECOND)):
        np.testing.assert_allclose(result, prior + stats.norm.logpdf(y, 0, np.sqrt(sigma**2 + 1)).sum(), rtol=1e-5)
    assert sites.keys() == other_sites.keys() == {"mu", "tau", "theta", "scaled"}


def test_evaluation_outside_of_jit_compiles_one_program_for_all_data():
    z = jnp.asarray(np.ones((4, 3), np.float32))
    first, _ = user_target(of_data, (FIRST,), {}, 3, None)
    jax.vmap(first.log_prob)(z)
    second, _ = user_target(of_data, (SECOND,), {}, 3, None)
    with compilations() as compiled:
        found = jax.vmap(second.log_prob)(z)
    assert compiled == []
    np.testing.assert_allclose(found, np.full(4, -0.5 * ((1 - SECOND) ** 2).sum()), rtol=1e-6)


def test_changed_data_are_never_stale():
    """Arrays of the closure, scalars, and arrays of a nested jitted function; the function is the same each time."""
    data = {"array": FIRST, "scalar": 2.0, "nested": FIRST.copy()}

    def log_density(z):
        nested = data["nested"]
        inner = jax.jit(lambda z: (z * nested).sum())
        return -0.5 * data["scalar"] * ((z - data["array"]) ** 2).sum() + inner(z)

    z = np.array([0.5, -0.5, 1.0])
    expected = lambda: -0.5 * data["scalar"] * ((z - data["array"]) ** 2).sum() + (z * data["nested"]).sum()  # noqa: E731
    structures = []
    for change in ({}, {"array": SECOND}, {"nested": SECOND.copy()}, {"scalar": 3.0}):
        data |= change
        target, space = user_target(log_density, (), {}, 3, None)
        np.testing.assert_allclose(values(target, space, jnp.asarray(z, float))[0], expected(), rtol=1e-5)
        structures.append(jax.tree.structure(target))
    assert structures[0] == structures[1] == structures[2] != structures[3]


def test_a_space_passed_through_a_compiled_function_does_not_carry_the_data():
    _, space = user_target(hierarchical, (SIGMA, FIRST), {}, None, None)
    assert space.origin.args[1] is FIRST
    assert jax.tree.map(lambda leaf: leaf, space).origin is None


def outside(y):
    top = numpyro.sample("top", dist.HalfNormal(1))
    numpyro.sample("y", dist.Uniform(0, top), obs=y)


def test_the_sites_that_are_not_finite_are_named():
    _, space = user_target(outside, (np.array([-1.0, 0.01, -0.2]),), {}, None, None)
    message = "no initial point with a finite log density was found for the model: not finite at y (2 of 3 values)"
    assert why_not_finite(space) == message
    _, plain = user_target(of_data, (FIRST,), {}, 3, None)
    assert why_not_finite(plain).startswith("the log density is not finite at any point tried near 0")


def test_a_point_of_another_length_is_refused():
    target, _ = user_target(of_data, (FIRST,), {}, 3, None)
    with pytest.raises(TargetError, match=r"z must be a vector of length 3, not an array of shape \(1,\)"):
        target.log_prob(jnp.zeros(1))


def test_programs_with_python_callbacks_are_never_shared():
    """The text of a callback does not show the data that it captures."""

    def log_density(z, y):
        return jax.pure_callback(lambda z: np.float32(of_data(z, y)), jax.ShapeDtypeStruct((), z.dtype), z)

    targets = [user_target(log_density, (y,), {}, 3, None)[0] for y in (FIRST, SECOND)]
    assert jax.tree.structure(targets[0]) != jax.tree.structure(targets[1])
    for target, y in zip(targets, (FIRST, SECOND), strict=True):
        np.testing.assert_allclose(target.log_prob(jnp.zeros(3)), -0.5 * (y**2).sum(), rtol=1e-5)


def test_the_traces_of_the_last_programs_are_kept_and_no_others():
    """JAX would keep them all under a function that programs share."""

    def trace(number):
        target = user_target(lambda z: -0.5 * (jnp.sin(z) ** 2 / number).sum(), (), {}, 3, None)[0]
        jax.make_jaxpr(jax.grad(target.log_prob))(jnp.ones(3))

    def traces():
        gc.collect()
        return sum(isinstance(item, jax.extend.core.Jaxpr) for item in gc.get_objects())

    found = []
    for number in range(1, 2 * KEPT + 1):
        trace(number)
        found.append(traces() if number % 8 == 0 else 0)
    assert found[KEPT - 1] == found[KEPT + 7] == found[2 * KEPT - 1]
    assert found[7] < found[KEPT - 1]
