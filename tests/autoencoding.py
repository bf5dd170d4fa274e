"""Autoencoders small enough to be reimplemented in NumPy, and one whose evidence and posterior are known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from civi.family import Amortised, DiagonalGaussian, Encoder, GaussianNoise, MixingNetwork
from civi.problem import AutoencoderProblem, ImageArchitecture
from civi.problem.autoencoder import Decoder
from civi.problem.images import Images

PIXELS, LATENTS, NOISE, ROWS = 6, 2, 3, 5
BITS = np.array([[0, 0, 0, 0, 1, 1], [1, 0, 0, 1, 0, 1], [0, 1, 0, 1, 1, 0], [1, 1, 1, 0, 0, 0], [0, 1, 1, 1, 1, 1]])
SMALL = {"hidden": (4, 3), "decoder_hidden": (4,), "latent_dim": LATENTS, "noise_dim": NOISE, "scale": 0.7}


def image_problem(batch: int = 4, warm_up: int | None = None, **changes) -> AutoencoderProblem:
    """An encoder and a decoder for 6 pixels, with random values for all parameters, including biases."""
    shape = ImageArchitecture(**{**SMALL, "activation": "tanh", **changes})
    family, decoder = filled(shape, data := Images(jnp.asarray(BITS, jnp.uint8)))
    return AutoencoderProblem(family, decoder, data, LATENTS, batch, warm_up)


def filled(shape, data) -> tuple[Amortised, Decoder]:
    """The architecture's networks with parameters from N(0, 0.6^2); the real initialisation is slow to compile."""
    networks = eqx.filter_eval_shape(shape.networks, data, jax.random.key(0))
    rng = np.random.default_rng(1)

    def fill(leaf):
        is_parameter = isinstance(leaf, jax.ShapeDtypeStruct)
        return jnp.asarray(0.6 * rng.normal(size=leaf.shape), leaf.dtype) if is_parameter else leaf

    return jax.tree.map(fill, networks)


def as64(values) -> np.ndarray:
    return np.asarray(values, np.float64)


def network64(network: MixingNetwork, x, np=np, cast=as64):
    """A network's output for rows of x, by default in float64."""
    activation = {"tanh": np.tanh, "relu": lambda values: np.maximum(values, 0)}[network.activation]
    for i, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        x = (activation(x) if i else x) @ cast(weight) + cast(bias)
    return x


def unsplit64(encoder: Encoder, x, eps, np=np, cast=as64):
    """The encoder on rows of x and of eps, as one network that concatenates them where the noise enters."""
    reader, rest = encoder.reader, encoder.rest
    activation = {"tanh": np.tanh, "relu": lambda values: np.maximum(values, 0)}[rest.activation]
    *before, last = zip(reader.weights, reader.biases, strict=True)
    for weight, bias in before:
        x = activation(x @ cast(weight) + cast(bias))
    joined = np.concatenate([cast(last[0]), cast(encoder.noise_weight)])
    hidden = np.concatenate([x, eps], -1) @ joined + cast(last[1])
    return network64(rest, activation(hidden), np, cast)


class LinearDecoder(eqx.Module):
    """x | z ~ N(A z + b, s^2 I)."""

    weight: jax.Array
    bias: jax.Array
    scale: float = eqx.field(static=True, default=0.8)

    def log_prob_each(self, x_J, z_J):
        return jax.scipy.stats.norm.logpdf(x_J, z_J @ self.weight.T + self.bias, self.scale).sum(-1)


class Vectors(eqx.Module):
    """Rows of real numbers."""

    x: jax.Array

    @property
    def rows(self) -> int:
        return len(self.x)

    def batch(self, key, count):
        return self.x[jax.random.randint(key, (count,), 0, self.rows)]


# The columns of A are orthogonal, so the posterior of z has a diagonal covariance.
A = np.array([[1.0, 0.5], [-0.5, 1.0], [0.6, 0.0], [0.0, -0.9]])
B = np.array([0.3, -0.2, 0.1, 0.5])
SD = 0.8
X = np.random.default_rng(3).normal(size=(7, 4))
PRECISION = 1 + (A**2).sum(0) / SD**2


def exact_theta(mixing_share: float = 0.0) -> dict[str, jax.Array]:
    """Parameters of the exact posterior N(H x + c, diag(w^2 + s^2)), where w^2 is `mixing_share` of the variance."""
    gain = A.T / SD**2 / PRECISION[:, None]
    variance = 1 / PRECISION
    theta = {
        "gain": gain,
        "offset": -gain @ B,
        "noise": np.sqrt(mixing_share * variance),
        "log_scale": 0.5 * np.log((1 - mixing_share) * variance),
        "weight": A,
        "bias": B,
    }
    return {name: jnp.asarray(value, jnp.float32) for name, value in theta.items()}


def linear_autoencoder(theta, x=X, *, mixing: bool = True, batch: int = 6) -> AutoencoderProblem:
    """z = H x + c + w eps + s u. The identity a = relu(a) - relu(-a) makes the encoder linear."""
    both = jnp.array([1.0, -1.0])
    gain = jnp.concatenate([sign * theta["gain"].T for sign in both], axis=1)
    offset = jnp.concatenate([sign * theta["offset"] for sign in both])
    noise = jnp.concatenate([sign * jnp.diag(theta["noise"]) for sign in both], axis=1)
    rest = jnp.concatenate([sign * jnp.eye(2) for sign in both])
    encoder = Encoder(
        MixingNetwork((gain,), (offset,), "relu"),
        noise if mixing else None,
        MixingNetwork((rest,), (jnp.zeros(2),), "relu"),
    )
    family = Amortised(GaussianNoise(2), encoder, DiagonalGaussian(theta["log_scale"]))
    decoder = LinearDecoder(theta["weight"], theta["bias"], SD)
    return AutoencoderProblem(family, decoder, Vectors(jnp.asarray(x, jnp.float32)), 2, batch)


def log_evidence(x=X) -> np.ndarray:
    """log p(x) = log N(x; b, A A^T + s^2 I)."""
    return stats.multivariate_normal(B, A @ A.T + SD**2 * np.eye(4)).logpdf(x)


def linear_neg_elbo(theta, x=X):
    """Exact E_q[log q(z | x) - log p(x, z)] of every datum."""
    mean_N = x @ theta["gain"].T + theta["offset"]
    variance = theta["noise"] ** 2 + jnp.exp(2 * theta["log_scale"])
    neg_entropy = -0.5 * jnp.log(2 * jnp.pi * jnp.e * variance).sum()
    log_prior_N = -0.5 * (mean_N**2 + variance + jnp.log(2 * jnp.pi)).sum(-1)
    apart_N = ((x - mean_N @ theta["weight"].T - theta["bias"]) ** 2).sum(-1)
    spread = (variance * (theta["weight"] ** 2).sum(0)).sum()
    log_lik_N = -0.5 * x.shape[1] * jnp.log(2 * jnp.pi * SD**2) - 0.5 * (apart_N + spread) / SD**2
    return neg_entropy - log_prior_N - log_lik_N
