"""`refine` and `warm_start`: NUTS from draws of a posterior that is known to be off, against exact moments."""

from dataclasses import replace

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.flatten_util import ravel_pytree
from numpyro.infer import MCMC, NUTS

import civi
from civi.errors import SettingError, TargetError
from civi.family import Architecture
from civi.inference import programs
from civi.inference.nuts import Reference
from civi.inference.posterior import SampledPosterior, SemiImplicitPosterior
from civi.problem.target import Frame, Framed
from civi.problem.target.user import user_target
from exact_posterior import DESIGN, NOISE, PRIOR, X, Y, exact, line, moments

SHIFT = 1.5


def line_on_batches(x, y=None):
    """The model `line`, with a plate that subsamples five rows."""
    a, b = (numpyro.sample(name, dist.Normal(0, PRIOR)) for name in ("a", "b"))
    numpyro.deterministic("end", a + b)
    with numpyro.plate("row", len(x), subsample_size=5) as rows:
        numpyro.sample("y", dist.Normal(a + b * x[rows], NOISE), obs=y[rows])


def shifted(y=Y) -> SemiImplicitPosterior:
    """The exact posterior on all rows, moved by SHIFT standard deviations in each coordinate of its frame and wider."""
    posterior = exact(line_on_batches, X, y)
    frame = posterior.target.frame
    wrong = Frame(frame.location + SHIFT * frame.factor.sum(1), 1.3 * frame.factor)
    return replace(posterior, target=Framed.at(posterior.target.target, wrong))


def errors_of_means(posterior: SampledPosterior, mean: np.ndarray) -> np.ndarray:
    """Errors of the means of the chains, in Monte Carlo standard errors."""
    reference = posterior.reference
    pooled = reference.draws.reshape(-1, posterior.dim).astype(np.float64)
    return np.abs(pooled.mean(0) - mean) / (pooled.std(0) / np.sqrt(reference.effective_size))


@pytest.fixture(scope="module")
def refined() -> SampledPosterior:
    return shifted().refine(0, draws=500)


def test_refined_draws_have_the_exact_moments_and_those_of_q_do_not(refined):
    mean, covariance = moments(DESIGN)
    assert (errors_of_means(refined, mean) < 4).all()
    ratio = refined.reference.draws.reshape(-1, 2).std(0) / np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(ratio, 1, atol=4 / np.sqrt(2 * refined.reference.effective_size.min()))
    q = shifted().sample_unconstrained(0, 2000)
    as_chains = SampledPosterior(reference=Reference(q[None], np.ones(2), np.full(2, 2000.0), 0))
    assert (errors_of_means(as_chains, mean) > 4).all()


def test_chains_are_judged_and_have_the_names_of_the_model(refined):
    assert refined.reference.draws.shape == (4, 500, 2)
    assert refined.reference.r_hat.max() < 1.01
    assert refined.reference.effective_size.min() > 600
    assert refined.diagnose(0).verdict == "good"
    draws = refined.sample(0, 10)
    assert set(draws) == {"a", "b", "end"}
    np.testing.assert_allclose(draws["a"] + draws["b"], draws["end"], rtol=1e-5)


def test_other_data_of_the_same_shape_use_the_same_program(refined):
    before = set(programs._programs)
    other = shifted(Y + 1).refine(1, draws=500)
    assert set(programs._programs) == before
    assert np.abs(other.reference.draws.mean((0, 1)) - refined.reference.draws.mean((0, 1)))[0] > 0.5
    again = shifted().refine(0, draws=500)
    np.testing.assert_array_equal(again.reference.draws, refined.reference.draws)


def test_wrong_numbers_and_kinds_are_refused(refined):
    with pytest.raises(SettingError, match="chains must be from 2"):
        shifted().refine(0, chains=1)
    with pytest.raises(SettingError, match="accept must be in"):
        shifted().refine(0, accept=1.0)
    with pytest.raises(TargetError, match="refine starts from a fitted density"):
        refined.refine(0)
    with pytest.raises(TargetError, match="warm_start takes draws of a fitted density"):
        refined.warm_start(0)


def schools(sd, y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(5))
    with numpyro.plate("school", len(sd)):
        numpyro.sample("obs", dist.Normal(numpyro.sample("effect", dist.Normal(mu, tau)), sd), obs=y)


@pytest.fixture(scope="module")
def non_centred() -> SemiImplicitPosterior:
    """A standard normal q for schools, in the coordinates in which the effects are non-centred."""
    sd, y = np.array([15.0, 10.0, 16.0], np.float32), np.array([28.0, 8.0, -3.0], np.float32)
    target, space = user_target(schools, (sd, y), {}, None, None)
    family = Architecture(mixing="constant", conditional="cholesky", scale=1.0).init(5, jax.random.key(0))
    frame = Frame(jnp.zeros(5), jnp.eye(5))
    framed = Framed.at(target.with_degrees([0.0]), frame)
    return SemiImplicitPosterior(family=family, target=framed, constrain=space.with_degrees([0.0]))


def test_a_file_keeps_the_parameterisation_of_the_fit(non_centred, tmp_path):
    saved = replace(non_centred, centring={"effect": 0.0})
    saved.save(tmp_path / "fit.civi")
    origin = non_centred.constrain.origin
    loaded = civi.load(tmp_path / "fit.civi", schools, *origin.args)
    assert loaded.centring == {"effect": 0.0}
    np.testing.assert_array_equal(loaded.sample(0, 50)["effect"], saved.sample(0, 50)["effect"])


class TestWarmStart:
    def test_start_points_are_those_of_the_model_as_it_is_written(self, non_centred):
        start = non_centred.warm_start(3, chains=4)
        draws = non_centred.sample(3, 4000)
        np.testing.assert_allclose(start.init_params["effect"], draws["effect"][:4], rtol=1e-4)
        np.testing.assert_allclose(start.init_params["tau"], np.log(draws["tau"][:4]), atol=1e-4)
        flat = np.column_stack([draws["effect"], draws["mu"], np.log(draws["tau"])])
        np.testing.assert_allclose(start.inverse_mass_matrix, np.cov(flat, rowvar=False), rtol=1e-2, atol=1e-2)
        assert np.abs(start.inverse_mass_matrix - np.eye(5)).max() > 0.5

    def test_one_chain_has_no_leading_axis_and_a_diagonal_metric_is_a_vector(self, non_centred):
        start = non_centred.warm_start(3, chains=1, dense=False)
        assert start.init_params["effect"].shape == (3,)
        full = non_centred.warm_start(3).inverse_mass_matrix
        np.testing.assert_allclose(start.inverse_mass_matrix, np.diag(full), rtol=1e-4)

    def test_numpyro_starts_from_it(self):
        start = shifted().warm_start(0)
        kernel = NUTS(line, inverse_mass_matrix=start.inverse_mass_matrix, dense_mass=True, adapt_mass_matrix=False)
        mcmc = MCMC(
            kernel, num_warmup=100, num_samples=400, num_chains=4, chain_method="vectorized", progress_bar=False
        )
        mcmc.run(jax.random.key(1), X, Y, init_params=start.init_params)
        mean, covariance = moments(DESIGN)
        draws = mcmc.get_samples()
        found = np.array([draws["a"].mean(), draws["b"].mean()])
        assert (np.abs(found - mean) / np.sqrt(np.diag(covariance)) < 0.15).all()

    def test_blackjax_starts_from_it(self):
        def log_density(z):
            return -0.5 * jnp.sum((jnp.asarray(Y) - z["a"] - z["b"] * X) ** 2) / 0.25

        target = exact(log_density, example={"a": 0.0, "b": 0.0})
        start = target.warm_start(0, chains=1)
        nuts = blackjax.nuts(log_density, step_size=0.8, inverse_mass_matrix=jnp.asarray(start.inverse_mass_matrix))
        assert set(start.init_params) == {"a", "b"}
        assert ravel_pytree(start.init_params)[0].shape == (2,)

        def step(state, key):
            state, info = nuts.step(key, state)
            return state, (state.position["b"], info.acceptance_rate)

        keys = jax.random.split(jax.random.key(1), 500)
        _, (slopes, accepted) = jax.jit(lambda keys: jax.lax.scan(step, nuts.init(start.init_params), keys))(keys)
        mean, covariance = moments(DESIGN)
        assert abs(slopes.mean() - mean[1]) < 0.3 * np.sqrt(covariance[1, 1])
        assert accepted.mean() > 0.7
