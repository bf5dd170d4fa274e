"""Degrees of centring: other coordinates of the same posterior, and draws under the model's own names."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.control_flow import scan
from numpyro.infer.reparam import LocScaleReparam
from scipy import stats

from civi.errors import SettingError
from civi.problem.target.numpyro_model import numpyro_target

Y = np.array([0.3, -1.2, 0.8], np.float32)
KINDS = (
    "cauchy",
    "expanded",
    "gumbel",
    "laplace",
    "logistic",
    "lognormal",
    "multivariate",
    "normal",
    "student",
    "walk",
)


def every_kind(y):
    """One latent site of each kind with a latent location and scale; `fixed` has neither."""
    mu = numpyro.sample("mu", dist.Normal(0.5, 2))
    tau = numpyro.sample("tau", dist.HalfNormal(2))
    numpyro.sample("fixed", dist.Normal(jnp.zeros(2), 3.0).to_event(1))
    numpyro.sample("cauchy", dist.Cauchy(mu, tau))
    numpyro.sample("expanded", dist.Normal(mu, tau).expand([2, 3]).to_event(1))
    numpyro.sample("gumbel", dist.Gumbel(mu, 1.5))
    numpyro.sample("laplace", dist.Laplace(0.3, tau).expand([2]))
    numpyro.sample("logistic", dist.Logistic(mu, tau))
    factor = tau * jnp.array([[1.0, 0.0], [0.4, 0.7]])
    numpyro.sample("multivariate", dist.MultivariateNormal(mu, scale_tril=factor).expand([2]))
    numpyro.sample("walk", dist.GaussianRandomWalk(tau * jnp.arange(1, 3), 3).to_event(1))
    with numpyro.plate("rows", len(y)):
        normal = numpyro.sample("normal", dist.Normal(mu, tau))
        scale = numpyro.sample("lognormal", dist.LogNormal(mu, tau))
        numpyro.sample("student", dist.StudentT(4.0, mu, tau * jnp.arange(1, len(y) + 1)))
        numpyro.sample("y", dist.Normal(normal, scale), obs=y)
    numpyro.deterministic("sum", normal.sum())


@pytest.fixture(scope="module")
def read():
    target, space = numpyro_target(every_kind, (Y,), {})
    as_written, _ = numpyro_target(every_kind, (Y,), {}, reparam=False)
    return target, space, as_written


def model_coordinates(sites):
    """The unconstrained coordinates of the model as written."""
    logs = {name: jnp.log(sites[name]) for name in ("tau", "lognormal")}
    values = {name: value for name, value in (sites | logs).items() if name != "sum"}
    return jnp.concatenate([jnp.ravel(values[name]) for name in sorted(values)])


@eqx.filter_jit
def compared(target, space, as_written, coordinates):
    """log p(z~; c), log p(z) as written, and the log determinant of the map from z~ to z."""
    outward = lambda z: model_coordinates(space(z))  # noqa: E731
    _, log_volume = jnp.linalg.slogdet(jax.jacfwd(outward)(coordinates))
    return target.log_prob(coordinates), as_written.log_prob(outward(coordinates)), log_volume


@pytest.mark.parametrize("site", [*KINDS, "all"])
def test_the_density_of_the_parameters_is_the_same_at_every_degree(read, site):
    target, space, as_written = read
    assert set(target.centred_sites) == set(KINDS)
    coordinates = jnp.asarray(np.random.default_rng(0).normal(size=target.dim), float)
    chosen = [site in (name, "all") for name in target.centred_sites]
    for degree in (0.0, 0.35, 1.0):
        degrees = np.where(chosen, degree, 1.0)
        changed, written, log_volume = compared(
            target.with_degrees(degrees), space.with_degrees(degrees), as_written, coordinates
        )
        np.testing.assert_allclose(changed, written + log_volume, rtol=2e-5)
        assert degree == 1.0 or abs(changed - written) > 1e-2, "without the Jacobian the densities must differ"


def test_draws_have_the_names_and_shapes_of_the_model(read):
    target, space, _ = read
    draws = space.with_degrees(np.zeros(len(KINDS)))(jnp.zeros(target.dim))
    assert set(draws) == {*KINDS, "mu", "tau", "fixed", "sum"}
    shapes = {name: draws[name].shape for name in ("expanded", "multivariate", "lognormal", "sum")}
    assert shapes == {"expanded": (2, 3), "multivariate": (2, 2), "lognormal": (3,), "sum": ()}


def test_without_centring_the_coordinates_are_standardised():
    def model(y):
        mu, tau = numpyro.sample("mu", dist.Normal(0, 1)), numpyro.sample("tau", dist.HalfNormal(1))
        theta = numpyro.sample("theta", dist.Normal(mu, tau).expand([3]).to_event(1))
        numpyro.sample("y", dist.Normal(theta, 1), obs=y)

    target, space = numpyro_target(model, (Y,), {})
    mu, log_tau, noise = 0.4, -0.6, np.array([0.1, -0.5, 1.2])
    theta, z = mu + np.exp(log_tau) * noise, jnp.asarray([mu, log_tau, *noise])
    prior = stats.norm.logpdf([mu, *noise]).sum() + stats.halfnorm.logpdf(np.exp(log_tau)) + log_tau
    sites = space.with_degrees([0.0])(z)
    np.testing.assert_allclose(sites["theta"], theta, rtol=1e-5)
    log_p = target.with_degrees([0.0]).log_prob(z)
    np.testing.assert_allclose(log_p, prior + stats.norm.logpdf(Y, theta).sum(), rtol=1e-5)


def test_sites_that_must_stay_as_written_have_no_degree():
    def model(y):
        mu, tau = numpyro.sample("mu", dist.Normal(0, 1)), numpyro.sample("tau", dist.HalfNormal(1))
        with numpyro.handlers.reparam(config={"own": LocScaleReparam(0.5)}):
            numpyro.sample("own", dist.Normal(mu, tau))
        with numpyro.handlers.mask(mask=np.array([True, False])):
            numpyro.sample("masked", dist.Normal(mu, tau).expand([2]))
        with numpyro.handlers.scale(scale=0.5):
            numpyro.sample("scaled", dist.Normal(mu, tau))
        scan(lambda last, _: (numpyro.sample("walk", dist.Normal(last, tau)), None), mu, None, length=3)
        numpyro.sample("half", dist.HalfNormal(tau))
        numpyro.sample("y", dist.Normal(mu, tau), obs=y)

    assert numpyro_target(model, (Y,), {})[0].centred_sites == ()


@pytest.mark.parametrize(("values", "message"), [([0.5], "for each of"), (np.full(10, 1.5), "from 0 to 1")])
def test_wrong_degrees_are_refused(read, values, message):
    with pytest.raises(SettingError, match=message):
        read[0].with_degrees(values)
