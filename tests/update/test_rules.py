"""Update rules: every parameter group has its own constants, and Optax rules do what their formulas say."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.errors import SettingError
from civi.parts import groups, split
from civi.update import CiviAdam, FirstOrder, PerGroup


@pytest.fixture(scope="module")
def params(linear_model):
    return split(linear_model)[0]


def filled(params, value):
    return jax.tree.map(lambda leaf: jnp.full_like(leaf, value), params)


def first_change(rule, params, gradient, steps=10):
    transformation = rule.transformation(groups(params), steps)
    return transformation.update(gradient, transformation.init(params), params)[0]


def changes_by_group(change):
    mixing, scale = change.family.mixing, change.family.conditional
    return tuple(np.abs(np.concatenate([leaf.ravel() for leaf in jax.tree.leaves(part)])) for part in (mixing, scale))


def test_each_parameter_belongs_to_the_group_of_its_place(params):
    named = groups(params)
    assert set(jax.tree.leaves(named.family.mixing)) == {"mixing"}
    assert set(jax.tree.leaves(named.family.conditional)) == {"scale"}


def test_targets_are_not_trained(linear_model, params):
    assert jax.tree.leaves(params.target) == []
    trained = [leaf.shape for leaf in jax.tree.leaves(params)]
    assert trained == [(3, 2), (2,), (2,)]
    whole = eqx.combine(*split(linear_model))
    assert all(map(jnp.array_equal, jax.tree.leaves(whole), jax.tree.leaves(linear_model)))


@pytest.mark.parametrize(
    ("settings", "of_mixing", "of_scale"),
    [
        ({"c_alpha": PerGroup.of(mixing=0.09, scale=0.25)}, 0.3, 0.5),
        ({"c_alpha": 0.09}, 0.3, 0.3),
        ({"c_alpha": PerGroup.of(mixing=0.09, scale=0.09, decoder=0.25)}, 0.3, 0.3),
    ],
)
def test_civi_adams_first_step_has_the_length_of_its_group(params, settings, of_mixing, of_scale):
    gradient = filled(params, 1.0)
    mixing, scale = changes_by_group(first_change(CiviAdam(c_gamma=0.5, **settings), params, gradient))
    np.testing.assert_allclose(mixing, of_mixing, rtol=1e-4)
    np.testing.assert_allclose(scale, of_scale, rtol=1e-4)


def test_civi_adams_momentum_has_the_constant_of_its_group(params):
    rule = CiviAdam(c_alpha=0.1, c_gamma=PerGroup.of(mixing=0.2, scale=0.8), mu=0.5)
    rule = rule.transformation(groups(params), 10)
    state = rule.init(params)
    for sign in (1.0, -1.0):
        change, state = rule.update(filled(params, sign), state, params)
    for got, c_gamma in zip(changes_by_group(change), (0.2, 0.8), strict=True):
        np.testing.assert_allclose(got, second_step_length(0.1, c_gamma, mu=0.5), rtol=1e-4)


def second_step_length(c_alpha, c_gamma, mu):
    """Length of the second step of Algorithm 1, if the first gradient is 1 and the second -1."""
    first, second = 1 - c_gamma * mu, 1 - c_gamma * mu**2
    m = (1 - second) * first - second
    small_first, small_second = c_alpha * first**2, c_alpha / 2**0.4 * second**2
    v = (1 - small_second) * small_first + small_second
    return c_alpha / 2**0.2 * abs(m) / np.sqrt(v)


def lengths_of_sgd(params, steps, **settings):
    """The length of every step of SGD if the gradient is always 1."""
    rule = FirstOrder("sgd", 0.5, **settings).transformation(groups(params), steps)
    state, lengths = rule.init(params), []
    for _ in range(steps):
        change, state = rule.update(filled(params, 1.0), state, params)
        lengths.append(float(changes_by_group(change)[0][0]))
    return lengths


def test_the_learning_rate_follows_its_schedule(params):
    before = np.arange(8)
    expected = {
        "cosine": 0.5 * (1 + np.cos(np.pi * before / 8)) / 2,
        "hold": 0.5 * (1 + np.cos(np.pi * np.maximum(before - 4, 0) / 4)) / 2,
        "power": 0.5 * (before + 1.0) ** -0.75,
        "constant": np.full(8, 0.5),
    }
    for decay, lengths in expected.items():
        np.testing.assert_allclose(lengths_of_sgd(params, 8, decay=decay, power=0.75), lengths, rtol=1e-5)


@pytest.mark.parametrize("decay", ["cosine", "hold", "constant"])
def test_a_warm_up_raises_the_learning_rate_from_0(params, decay):
    without = np.array(lengths_of_sgd(params, 8, decay=decay))
    rising = np.minimum((np.arange(8) + 1) / 4, 1)
    np.testing.assert_allclose(lengths_of_sgd(params, 8, decay=decay, warm_up=4), without * rising, rtol=1e-5)
    np.testing.assert_allclose(lengths_of_sgd(params, 8, decay=decay, warm_up=0), without)


@pytest.mark.parametrize(("rule", "length"), [("sgd", 0.3 * 4), ("adam", 0.3), ("rmsprop", 0.3 / np.sqrt(0.1))])
def test_first_step_of_an_optax_rule(params, rule, length):
    gradient = filled(params, 4.0)
    for got in changes_by_group(first_change(FirstOrder(rule, 0.3, decay="constant"), params, gradient)):
        np.testing.assert_allclose(got, length, rtol=1e-4)


@pytest.mark.parametrize(("clip", "expected"), [(None, 4 * np.sqrt(10)), (3.0, 3.0), (50.0, 4 * np.sqrt(10))])
def test_clipping_limits_the_norm_of_the_whole_gradient(params, clip, expected):
    gradient = filled(params, 4.0)
    change = first_change(FirstOrder("sgd", 1.0, decay="constant", clip=clip), params, gradient)
    assert np.linalg.norm(np.concatenate(changes_by_group(change))) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (CiviAdam, {"c_alpha": 0.0}, r"update.c_alpha must be positive"),
        (CiviAdam, {"c_gamma": 1.1}, r"update.c_gamma must be in \[0, 1\]"),
        (CiviAdam, {"mu": 1.0}, r"update.mu must be in \(0, 1\)"),
        (CiviAdam, {"xi": 0.0}, r"update.xi must be positive"),
        (CiviAdam, {"c_gamma": PerGroup.of(mixing=0.2, scale=1.1)}, r"update.c_gamma must be in \[0, 1\], not 1.1"),
        (CiviAdam, {"clip": -1.0}, r"update.clip must be positive, or none for no clipping, not -1.0"),
        (FirstOrder, {"learning_rate": 0.0}, r"update.learning_rate must be positive"),
        (FirstOrder, {"power": 1e20}, r"update.power must be in \[0, 10\], not 1e\+20"),
        (FirstOrder, {"learning_rate": 1e20}, r"update.learning_rate must be at most 1e6, not 1e\+20"),
        (
            FirstOrder,
            {"clip": 1e20},
            r"update.clip must be at most 1e\+18, or none for no clipping, not 1e\+20",
        ),
        (FirstOrder, {"clip": 0.0}, r"update.clip must be positive, or none for no clipping, not 0.0"),
        (FirstOrder, {"warm_up": -1}, r"update.warm_up must not be negative, not -1"),
        (FirstOrder, {"l2": -1.0}, r"update.l1 and update.l2 must not be negative"),
        (FirstOrder, {"l1": 1e20}, r"update.l1 and update.l2 must be at most 1e\+06, but one is 1e\+20"),
        (FirstOrder, {"l2": PerGroup.of(mixing=0.0, decoder=-0.5)}, r"update.l2 must not be negative, but one is -0.5"),
    ],
)
def test_impossible_rules_are_refused(kind, settings, message):
    with pytest.raises(SettingError, match=message):
        kind(**settings).transformation("mixing", 10)


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [("rule", "newton", ["adam", "rmsprop", "sgd"]), ("decay", "linear", ["cosine", "hold", "power", "constant"])],
)
def test_an_unknown_name_is_refused_with_those_that_are_known(name, value, known):
    """Raised by the run-time type checker of the tests, or by the settings themselves."""
    with pytest.raises((SettingError, TypeError)) as refused:
        FirstOrder(**{name: value})
    assert all(word in str(refused.value) for word in (name, f"'{value}'", *known))


def test_a_group_without_a_value_is_named(params):
    rule = CiviAdam(c_alpha=PerGroup.of(mixing=0.1, decoder=0.2))
    with pytest.raises(
        SettingError, match="no value is given for the parameter group 'scale', only for mixing, decoder"
    ):
        rule.transformation(groups(params), 10)
    with pytest.raises(SettingError, match="a setting per group needs at least one group"):
        PerGroup.of()
