"""The mixing network against a NumPy network, and its initial weights against Xavier's variance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from civi.errors import SettingError
from civi.family import ACTIVATIONS, MixingNetwork
from montecarlo import agrees

SIZES = (60, 80, 40)

NUMPY_ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * special.expit(x),
    "gelu": lambda x: x * special.ndtr(x),
    "tanh": np.tanh,
    "softplus": lambda x: np.log1p(np.exp(x)),
}


def init(gain, activation="relu", sizes=SIZES):
    return MixingNetwork.init(sizes, activation, gain, jax.random.key(0))


@pytest.fixture(scope="module")
def network():
    return init(jnp.ones(SIZES[-1]))


@pytest.mark.parametrize("layer", [0, 1])
def test_first_weights_have_xaviers_variance(network, layer):
    squares = np.asarray(network.weights[layer], np.float64).ravel() ** 2
    fan_in, fan_out = SIZES[layer : layer + 2]
    assert agrees(squares, 2 / (fan_in + fan_out))
    assert not agrees(squares, 2 / fan_in)


@pytest.mark.parametrize("layer", [0, 1])
def test_first_weights_have_mean_zero_and_biases_are_zero(network, layer):
    weights = np.asarray(network.weights[layer], np.float64).ravel()
    assert agrees(weights, 0)
    assert not agrees(weights, 0.1 * weights.std())
    np.testing.assert_array_equal(network.biases[layer], np.zeros(SIZES[layer + 1]))


def test_output_gain_multiplies_the_last_layers_columns_only(network):
    gain = jnp.linspace(0.0, 4.0, SIZES[-1])
    scaled = init(gain)
    np.testing.assert_array_equal(scaled.weights[0], network.weights[0])
    np.testing.assert_allclose(scaled.weights[1], np.asarray(network.weights[1]) * np.asarray(gain), rtol=1e-6)


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_output_is_that_of_a_numpy_network(activation):
    network = init(jnp.ones(2), activation, sizes=(3, 5, 4, 2))
    network = jax.tree.map(lambda leaf: leaf + 0.1, network)
    eps = jax.random.normal(jax.random.key(1), (3,))
    hidden = np.asarray(eps, np.float64)
    for layer in range(3):
        hidden = hidden @ np.asarray(network.weights[layer], np.float64) + np.asarray(network.biases[layer], np.float64)
        hidden = NUMPY_ACTIVATIONS[activation](hidden) if layer < 2 else hidden
    np.testing.assert_allclose(network(eps), hidden, atol=1e-5 if activation != "gelu" else 2e-3)


def test_an_unknown_activation_is_refused_with_the_nearest_name():
    with pytest.raises(SettingError, match=r"unknown activation 'rellu': did you mean 'relu'\?"):
        init(jnp.ones(2), "rellu")


def test_an_empty_layer_is_refused():
    with pytest.raises(SettingError, match="layer sizes must be at least 1"):
        init(jnp.ones(2), sizes=(3, 0, 2))
