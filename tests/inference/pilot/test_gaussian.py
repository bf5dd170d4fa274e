"""The Gaussian pilot: modes that its first starts do not lead to, and degrees of centring by what the data say."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from civi.errors import TargetError
from civi.inference.pilot import Gaussian, gaussian
from civi.inference.seeds import derived
from civi.problem.target import LogDensity
from civi.problem.target.numpyro_model import numpyro_target

WORDS = derived(np.zeros(2, np.uint32), 5)
GROUPS, ROWS = 8, 200
SPREAD = np.linspace(-3, 3, GROUPS)


def three_modes(z):
    """N(-9, 1), N(0, 1) and N(9, 1) with equal weights: every start in (-2, 2) leads to 0."""
    return jax.nn.logsumexp(jnp.stack([-0.5 * (z - place) @ (z - place) for place in (-9, 0, 9)]))


TARGET = LogDensity(three_modes, 1)


def distances():
    """Distances from 0 of the locations found from the eight first starts, from the eight wider ones and by scouts."""
    found = Gaussian(starts=8).find(TARGET, WORDS).guesses
    return np.split(np.abs([guess.location[0] for guess in found]), [8, 16])


def test_wider_starts_find_a_mode_outside_of_the_first_starts():
    first, wider, _ = distances()
    assert first.max() < 2
    assert wider.max() == pytest.approx(9, abs=0.5)


def test_starts_that_are_not_wide_miss_it_but_scouts_do_not(monkeypatch):
    monkeypatch.setattr(gaussian, "WIDER", 0.1)
    _, narrow, scouted = distances()
    assert narrow.max() < 2
    np.testing.assert_allclose(scouted, [9, 9], atol=0.5)
    monkeypatch.setattr(gaussian, "SCOUTED", 0)
    assert len(distances()[2]) == 0


def test_separate_modes_are_found_with_equal_shares():
    modes = Gaussian(starts=8).find(TARGET, WORDS).modes
    np.testing.assert_allclose(modes.share, 1 / 3, atol=0.02)


def test_the_frame_is_that_of_the_best_gaussian():
    found = Gaussian(starts=2).find(TARGET, WORDS)
    best = max(found.guesses, key=lambda guess: guess.elbo)
    framed = found.framed.with_trained(found.framed.frame)
    np.testing.assert_allclose(framed.frame.location, best.location, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(framed.frame.factor, np.abs(best.factor), rtol=1e-5)
    log_p, slope = jax.value_and_grad(three_modes)(framed.frame.location)
    np.testing.assert_allclose(framed.log_p, log_p, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(framed.slope, slope, atol=1e-4)


def test_the_template_has_the_shapes_of_what_is_found():
    found, template = Gaussian(starts=2).find(TARGET, WORDS).framed, Gaussian().template(TARGET)
    assert jax.tree.structure(found) == jax.tree.structure(template)
    shapes = [[(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)] for tree in (found, template)]
    assert shapes[0] == shapes[1]


CENTRES = 4 * np.stack([np.cos(np.arange(8) * np.pi / 4), np.sin(np.arange(8) * np.pi / 4)], axis=1)


def ring(z):
    """Eight Gaussians N(., I / 4) on a circle, six standard deviations apart."""
    return jax.nn.logsumexp(-2 * ((z - CENTRES) ** 2).sum(1))


def mixture(y):
    """A normal mixture with three exchangeable components: six orders of the labels."""
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.full(3, 3.0)))
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([3]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2).expand([3]).to_event(1))
    numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(probs=weights), dist.Normal(mu, sigma)), obs=y)


def test_all_modes_of_a_ring_are_found():
    found = Gaussian().find(LogDensity(ring, 2), WORDS)
    frame = found.framed.frame.frame
    places = np.asarray(frame.location) + found.modes.location @ np.asarray(frame.factor).T
    nearest = ((places[:, None] - CENTRES) ** 2).sum(-1)
    assert sorted(nearest.argmin(1)) == list(range(8))
    assert nearest.min(1).max() < 0.01
    np.testing.assert_allclose(found.modes.share, 1 / 8, atol=0.005)


def test_all_orders_of_the_labels_of_a_mixture_are_found():
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(-4, 1, 80), rng.normal(0, 0.7, 60), rng.normal(4, 1, 60)]).astype(np.float32)
    target, _ = numpyro_target(mixture, (y,), {})
    found = Gaussian().find(target, WORDS)
    frame = found.framed.frame.frame
    places = np.asarray(frame.location) + found.modes.location @ np.asarray(frame.factor).T
    orders = {tuple(np.argsort(place[:3])) for place in places}
    assert len(orders) == len(places) == 6


def test_a_density_that_is_nowhere_finite_is_refused():
    with pytest.raises(TargetError, match="not finite around any"):
        Gaussian(starts=2).find(LogDensity(lambda z: jnp.nan * z.sum(), 1), WORDS)


def two_levels(many, few, scale):
    """Groups with ROWS rows each, which say what each group is, and groups with one vague row each."""
    means = {}
    for name in ("many", "few"):
        mu = numpyro.sample(f"mu_{name}", dist.Normal(0, 5))
        tau = numpyro.sample(f"tau_{name}", dist.HalfNormal(5))
        with numpyro.plate(f"groups_{name}", GROUPS):
            means[name] = numpyro.sample(name, dist.Normal(mu, tau))
    numpyro.sample("x", dist.Normal(means["many"][:, None], 1), obs=many)
    numpyro.sample("y", dist.Normal(means["few"], scale), obs=few)


@pytest.mark.parametrize("swapped", [False, True], ids=["as named", "swapped"])
def test_each_site_is_centred_by_how_much_its_data_say(swapped):
    """With much data per group the centred form is the better one, with little the non-centred."""
    rng = np.random.default_rng(0)
    many = (SPREAD[:, None] + rng.normal(size=(GROUPS, ROWS))).astype(np.float32)
    few, scale = (3 * rng.normal(size=GROUPS)).astype(np.float32), np.float32(20.0)
    if swapped:
        many, few, scale = many[:, :1] * np.float32(0.1), SPREAD.astype(np.float32), np.float32(0.05)
    target, _ = numpyro_target(two_levels, (many, few, scale), {})
    assert target.centred_sites == ("many", "few")
    np.testing.assert_array_equal(Gaussian().find(target, WORDS).degrees, [0, 1] if swapped else [1, 0])
