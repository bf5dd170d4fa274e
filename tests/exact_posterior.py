"""A conjugate regression, and its exact posterior as a `Posterior` without training: a Gaussian in its own frame."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from civi.family import Architecture
from civi.inference.pilot.base import Guesses
from civi.inference.posterior import SemiImplicitPosterior
from civi.problem.target import Frame, Framed
from civi.problem.target.user import user_target

ROWS, NOISE, PRIOR = 30, 0.5, 2.0
X = np.linspace(-1, 1, ROWS, dtype=np.float32)
Y = (0.3 + 1.2 * X + NOISE * np.random.default_rng(3).normal(size=ROWS)).astype(np.float32)
DESIGN = np.stack([np.ones(ROWS), X], axis=1)


def line(x, y=None):
    """y ~ N(a + b x, NOISE)."""
    a, b = (numpyro.sample(name, dist.Normal(0, PRIOR)) for name in ("a", "b"))
    numpyro.deterministic("end", a + b)
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(a + b * x, NOISE), obs=y)


def level(x, y=None):
    """y ~ N(a, NOISE): no slope."""
    a = numpyro.sample("a", dist.Normal(0, PRIOR))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(a, NOISE), obs=y)


def moments(design: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the coefficients given Y."""
    covariance = np.linalg.inv(design.T @ design / NOISE**2 + np.eye(design.shape[1]) / PRIOR**2)
    return covariance @ design.T @ Y / NOISE**2, covariance


def exact(target, *args, dim=None, example=None, columns=2) -> SemiImplicitPosterior:
    """The exact posterior of a regression of Y on the first columns of DESIGN."""
    log_p, space = user_target(target, args, {}, dim, example)
    mean, covariance = moments(DESIGN[:, :columns])
    frame = Frame(jnp.asarray(mean, float), jnp.asarray(np.linalg.cholesky(covariance), float))
    family = Architecture(mixing="constant", conditional="cholesky", scale=1.0).init(columns, jax.random.key(0))
    guesses = Guesses(np.zeros((1, 5, columns), np.float32), np.zeros(1))
    history = {"step": np.arange(3), "neg_elbo": np.array([2.0, 1.5, np.nan])}
    return SemiImplicitPosterior(
        family=family,
        target=Framed.at(log_p, frame),
        constrain=space,
        guesses=guesses,
        history=history,
        converged=True,
        message="exact",
        seconds=0.1,
    )
