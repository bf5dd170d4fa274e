"""What `civi.fit` accepts (pytrees and masked data), and the targets and options that it rejects."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy import stats

import civi
from civi.errors import SettingError, TargetError
from civi.problem.target.user import user_target
from fitting import short_fit


def unit_normal(z):
    return -0.5 * ((z - np.arange(3)) ** 2).sum()


def level(scale, y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    numpyro.sample("y", dist.Normal(mu, scale).expand([5]).to_event(1), obs=y)


def test_an_example_pytree_gives_draws_of_its_structure():
    """Five steps are enough, because only the structure is tested."""

    def of_tree(parameters):
        return -0.5 * (parameters["a"] ** 2).sum() - 0.5 * parameters["b"] ** 2

    example = {"a": np.zeros(2), "b": 0.0}
    fitted = short_fit(of_tree, example=example, key=jax.random.key(0), steps=5, runs=1)
    draws, flat = fitted.sample(jax.random.key(1), 7), fitted.sample_unconstrained(jax.random.key(1), 7)
    assert {name: value.shape for name, value in draws.items()} == {"a": (7, 2), "b": (7,)}
    np.testing.assert_array_equal(np.column_stack([draws["a"], draws["b"]]), flat)
    assert "5 steps" in fitted.message
    assert not fitted.converged
    assert fitted.r_hat is None


def no_latent(y):
    numpyro.sample("y", dist.Normal(0, 1), obs=y)


def discrete():
    numpyro.sample("k", dist.Bernoulli(0.5))


def beside(y):
    numpyro.sample("y", dist.Uniform(0, numpyro.sample("top", dist.HalfNormal(1))), obs=y)


def branching(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mu if mu > 0 else 0.0, 1), obs=y)


def unbounded(y):
    numpyro.sample(
        "y", dist.Normal(numpyro.sample("a", dist.Normal()) + numpyro.sample("k", dist.Poisson(2.0)), 1), obs=y
    )


KEPT: list[jax.Array] = []


def keeping(z):
    KEPT.append(z)
    return -0.5 * z @ z


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        (no_latent, {"y": 1.0}, "no latent sites"),
        (discrete, {}, "only discrete latent sites (k)"),
        (unbounded, {"y": 1.0}, "discrete latent sites that cannot be summed out (k)"),
        (unit_normal, {"dim": 4}, "fails on a vector of length 4"),
        (lambda z: jnp.nan * z.sum(), {"dim": 2}, "not finite at any point"),
        (lambda z: -jnp.inf * (1 + z @ z), {"dim": 2}, "not finite at any point"),
        (
            level,
            {"scale": 0.5, "y": np.array([1.0, np.nan, 2.0, 0.0, np.nan])},
            "the data contain NaN, in y (2 of 5 values)",
        ),
        (lambda z, x: z @ x, {"dim": 2, "x": np.array([np.nan, 1.0])}, "the data contain NaN, in x (1 of 2 values)"),
        (level, {"y": np.ones(5)}, "cannot be called with the arguments given: missing a required argument: 'scale'"),
        (branching, {"y": 1.0}, "use jnp.where or jax.lax.cond instead"),
        (lambda z: np.linalg.norm(z), {"dim": 2}, "use jax.numpy and jax.scipy instead"),
        (lambda z: jnp.zeros(int(z[0])).sum(), {"dim": 2}, "converted to a Python number"),
        (lambda z: z[z > 0].sum(), {"dim": 2}, "indexed by a traced mask"),
        (keeping, {"dim": 2}, "stores a traced value in a global, an attribute or an outer list"),
        (lambda z: -z @ z + np.random.normal(), {"dim": 2}, "the log density is not deterministic"),
        (lambda z: -0.5 * (z[0] + z[1] - 1) ** 2, {"dim": 2}, "looks improper along z"),
        (lambda z: z[1] - 0.5 * z[0] ** 2, {"dim": 2}, "looks improper along z[1]"),
        (lambda z: 0.0 * z.sum(), {"dim": 2}, "looks improper along z"),
    ],
)
def test_a_target_that_cannot_be_fitted_is_refused(target, options, message):
    with pytest.raises(TargetError, match=re.escape(message)):
        civi.fit(target, key=jax.random.key(0), progress=False, **options)


def by_group(group, y):
    mu = numpyro.sample("mu", dist.Normal(0, 2).expand([2]))
    numpyro.sample("y", dist.Normal(mu[group], 1.0), obs=y)


@pytest.mark.parametrize(
    ("target", "args", "options", "message"),
    [
        (lambda z: -z @ z, (), {}, "missing a required argument: 'z'; for a log density of z, give dim"),
        (
            lambda z: -z @ z,
            (np.ones(2),),
            {},
            "no latent sites: there is nothing to infer; for a log density of z, give dim",
        ),
        (lambda z: 3.0, (), {"dim": 2}, "the log density is constant: its value does not depend on z"),
        (by_group, (np.array(["0", "1"]), np.ones(2)), {}, "the data contain text, in group: code it as whole numbers"),
        (level, (0.5, ["a", "b"]), {}, "the data contain text, in y: code it as whole numbers"),
        (by_group, (pd.Series([0, 1]), np.ones(2)), {}, "group is a table: give group.to_numpy()"),
        (by_group, (np.zeros(0, int), np.zeros(0)), {}, "the data group are empty (an array of shape (0,))"),
        (by_group, (np.array([0, 1]), np.array([1, 3_000_000_000])), {}, "contain 3000000000 (row 2), which"),
        (by_group, (np.array([0, 1]), np.array([2**63, 1], np.uint64)), {}, "row 1), which does not fit in uint32"),
        (by_group, (np.array([0, 1]), np.array([1.0, -1e39])), {}, "-1e+39 (row 2), which does not fit in float32"),
        (by_group, (np.array([0, 1]), np.ones(2) * 1j), {}, "the log density is complex: use real data"),
        (lambda z: -z["a"], (), {"example": {"a": "x"}}, "the example must contain numbers only, not 'x' at a"),
        (lambda z: z.sum().astype(int), (), {"dim": 2}, "must return a floating-point number, not one of type int32"),
        (lambda z: (z[0], z[1]), (), {"dim": 2}, "must return one number for one z, not 2 arrays"),
        (level, (-1.0, np.ones(5)), {}, "Normal distribution got invalid scale parameter"),
    ],
)
def test_a_target_that_cannot_be_read_is_refused_in_one_line(target, args, options, message):
    with pytest.raises(TargetError, match=re.escape(message)) as refused:
        user_target(target, args, {}, options.get("dim"), options.get("example"))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("dim", [True, 0])
def test_a_dimension_that_is_no_count_is_refused(dim):
    with pytest.raises(SettingError, match="dim must be a whole number from 1"):
        user_target(unit_normal, (), {}, dim, None)


def test_data_inside_of_jit_are_refused():
    with pytest.raises(SettingError, match="call it outside of jit, vmap and grad"):
        jax.jit(lambda y: user_target(level, (0.5, y), {}, None, None)[0].log_prob(jnp.zeros(1)))(jnp.ones(5))


def test_missing_values_that_the_model_masks_are_no_reason_to_refuse():
    def masked(y):
        mu = numpyro.sample("mu", dist.Normal(0, 2))
        with numpyro.handlers.mask(mask=~np.isnan(y)):
            numpyro.sample("y", dist.Normal(mu, 1), obs=np.nan_to_num(y))

    target, _ = user_target(masked, (np.array([0.5, np.nan]),), {}, None, None)
    expected = stats.norm.logpdf(0.3, 0, 2) + stats.norm.logpdf(0.5, 0.3, 1)
    np.testing.assert_allclose(target.log_prob(jnp.array([0.3])), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 3, "solver": "civ"}, "did you mean 'civi'"),
        ({"dim": 3, "steps": 0}, "steps must be from 1 to"),
        ({"dim": 3, "runs": 0}, "runs must be from 1 to"),
        ({"dim": 3, "seconds": 0}, "seconds must be positive"),
        ({"dim": 3, "example": [0.0]}, "not both"),
    ],
)
def test_a_wrong_option_is_refused(options, message):
    with pytest.raises(SettingError, match=message):
        civi.fit(unit_normal, key=jax.random.key(0), progress=False, **options)


def test_a_full_rank_gaussian_stays_gaussian_in_the_frame():
    """The map that bends the frame is trained for semi-implicit families only."""
    curve = short_fit(bent, dim=2, key=0, solver="fullrank", steps=20, runs=1).target.frame.curve
    assert not np.any(curve.outer)
    assert not np.any(curve.skew)
    assert not np.any(curve.linear)


def bent(z):
    return -0.5 * (z[0] ** 2 + (z[1] + z[0] ** 2) ** 2 / 0.2)
