"""Mixing noise against SciPy's normal distribution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from civi.errors import SettingError
from civi.family import GaussianNoise
from montecarlo import agrees


def test_draws_have_the_scale_asked_for():
    squares = np.asarray(GaussianNoise(3, 10.0).sample(jax.random.key(0), 4000), np.float64) ** 2
    assert squares.shape == (4000, 3)
    assert agrees(squares, 100.0)
    assert not agrees(squares, 10.0)


def test_log_prob_is_scipys():
    eps = np.array([0.4, -12.0, 3.0])
    expected = stats.norm(scale=10.0).logpdf(eps).sum()
    np.testing.assert_allclose(GaussianNoise(3, 10.0).log_prob(jnp.asarray(eps)), expected, rtol=1e-6)


@pytest.mark.parametrize(("dim", "scale"), [(0, 1.0), (3, 0.0), (3, -1.0)])
def test_impossible_noise_is_refused(dim, scale):
    with pytest.raises(SettingError, match="noise"):
        GaussianNoise(dim, scale)
