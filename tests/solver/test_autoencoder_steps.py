"""Autoencoder steps: gradients against a separate calculation, mini-batches per chunk, and parameter groups."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from autoencoding import (
    BITS,
    X,
    as64,
    exact_theta,
    image_problem,
    linear_autoencoder,
    linear_neg_elbo,
    network64,
    unsplit64,
)
from civi.errors import SettingError
from civi.estimate import Sketch, log_ratios
from civi.estimate.player import Training
from civi.estimate.proposal import Reverse
from civi.estimate.reverse import Hmc
from civi.family import Architecture, Conditioned
from civi.objective import PathGradient, ReverseBound
from civi.parts import groups, split
from civi.problem import AutoencoderProblem, ProblemSettings, make_problem
from civi.problem.autoencoder import log_joint_each
from civi.problem.target import star
from civi.solver import CompositionalSolver, PathwiseSolver
from civi.tracker import Auxiliary, Bank, Extrapolated, NoTracker, Pool, Ring
from civi.update import CiviAdam, FirstOrder, PerGroup, Samples
from montecarlo import agrees

OUTER, INNER = 4, 3
SGD = FirstOrder("sgd", learning_rate=1.0, decay="constant")
KEY = jax.random.key(0)
PLAIN = CompositionalSolver(samples=Samples(OUTER, INNER), tracker=NoTracker(), update=SGD)


@pytest.fixture(scope="module")
def problem():
    return image_problem(batch=OUTER)


GROUPS = {".family.mixing": "mixing", ".family.conditional": "scale", ".decoder": "decoder"}


def group_of(name):
    """The group of the parameter at this path."""
    return next(group for part, group in GROUPS.items() if name.startswith(part))


def minus(old, new):
    return jax.tree.map(lambda a, b: a - b, old, new)


def assert_same(ours, theirs, **tolerance):
    ours, theirs = jax.tree.leaves(ours), jax.tree.leaves(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, **(tolerance or {"rtol": 2e-3, "atol": 2e-5}))


@eqx.filter_jit
def first_change(solver, problem, t):
    """The gradient (change with learning rate 1) of a first step with number t, the state before it, and its info."""
    state = solver.init(problem, KEY)
    new, info = solver.step(split(problem)[1], state, t, KEY)
    return minus(state.params, new.params), state, info


def by_hand(params, fixed, state, weight, own, data=OUTER):
    """mean_j [log (own q_j + sum_k q_k) / (own + K) - log p(z_j) - weight log p(x_j | z_j)] with an unsplit network."""
    problem = eqx.combine(params, fixed)
    x = problem.data.batch(jax.random.fold_in(state.chunk_key, state.pool.next_block), data)
    x = jnp.repeat(x, OUTER // data, axis=0)
    inner_eps = problem.family.noise.sample(jax.random.split(jax.random.split(KEY)[0], 4)[2], INNER)
    eps, u = state.pool.outer
    scale = jnp.exp(problem.family.conditional.log_scale)

    def encode(eps):
        return unsplit64(problem.family.mixing, x, eps, jnp, lambda values: values)

    def log_normal(z, location):
        return jax.scipy.stats.norm.logpdf(z, location, scale).sum(-1)

    z = encode(eps) + scale * u
    terms = [log_normal(z, encode(jnp.broadcast_to(one, eps.shape))) for one in inner_eps]
    terms += [jnp.log(own) + log_normal(z, encode(eps))]
    log_q = jax.scipy.special.logsumexp(jnp.stack(terms), axis=0) - jnp.log(INNER + own)
    logit = network64(problem.decoder.network, z, jnp, lambda values: values)
    log_lik = jnp.where(x > 0.5, jax.nn.log_sigmoid(logit), jax.nn.log_sigmoid(-logit)).sum(-1)
    log_prior = jax.scipy.stats.norm.logpdf(z).sum(-1)
    return (log_q - log_prior - weight * log_lik).mean()


@eqx.filter_jit
def value_and_gradient_by_hand(problem, state, weight, own, data=OUTER):
    params, fixed = split(problem)
    return jax.value_and_grad(by_hand)(params, fixed, state, weight, own, data)


def test_a_step_follows_the_gradient_of_the_safe_bound(problem):
    change, state, info = first_change(PLAIN, problem, jnp.asarray(1))
    value, gradient = value_and_gradient_by_hand(problem, state, jnp.asarray(1.0), jnp.asarray(1.0))
    assert_same(change, gradient)
    assert float(info.neg_elbo) == pytest.approx(float(value), rel=1e-4)
    trained = jax.tree_util.tree_leaves_with_path(change)
    parts = {jax.tree_util.keystr(path): np.abs(leaf).max() for path, leaf in trained}
    assert all(size > 1e-4 for size in parts.values())
    assert {group_of(name) for name in parts} == set(GROUPS.values())


def test_the_gradient_without_the_own_term_is_another(problem):
    change, state, _ = first_change(PLAIN, problem, jnp.asarray(1))
    _, without = value_and_gradient_by_hand(problem, state, jnp.asarray(1.0), jnp.asarray(0.0))
    assert np.abs(jax.flatten_util.ravel_pytree(minus(change, without))[0]).max() > 0.01


def test_two_draws_of_every_datum_follow_the_gradient_of_their_mean():
    one, data, halved = jnp.asarray(1.0), OUTER // 2, image_problem(batch=OUTER // 2)
    change, state, info = first_change(PLAIN, halved, jnp.asarray(1))
    value, gradient = value_and_gradient_by_hand(halved, state, one, one, data)
    assert_same(change, gradient)
    assert float(info.neg_elbo) == pytest.approx(float(value), rel=1e-4)
    of_single = value_and_gradient_by_hand(halved, state, one, one)[1]
    assert np.abs(jax.flatten_util.ravel_pytree(minus(change, of_single))[0]).max() > 0.01


@pytest.mark.parametrize(("t", "weight"), [(1, 4.0), (2, 2.0), (9, 1.0)])
def test_warm_up_weighs_the_likelihood_until_the_prior_counts_in_full(problem, t, weight):
    """The KL to the prior has weight t / 4, which is a likelihood weight of 4 / t up to a factor of the objective."""
    change, state, _ = first_change(PLAIN, image_problem(batch=OUTER, warm_up=4), jnp.asarray(t))
    gradient = value_and_gradient_by_hand(problem, state, jnp.asarray(weight), jnp.asarray(1.0))[1]
    assert_same(change, jax.tree.map(lambda leaf: leaf / weight, gradient))


def test_warm_up_of_another_target_is_refused():
    with pytest.raises(SettingError, match=r"warm_up is only for autoencoders: leave it at none"):
        make_problem(Architecture(), star(), KEY, ProblemSettings(warm_up=3))
    with pytest.raises(SettingError, match=r"problem.warm_up must be at least 1, or none, not 0"):
        ProblemSettings(warm_up=0)
    with pytest.raises(SettingError, match=r"kl_weight is only for autoencoders: leave it at 1"):
        make_problem(Architecture(), star(), KEY, ProblemSettings(kl_weight=0.5))
    with pytest.raises(SettingError, match=r"problem.kl_weight must be in \(0, 1\], not 0.0"):
        ProblemSettings(kl_weight=0.0)


def test_a_sketch_of_all_data_in_another_order_is_no_sketch(problem):
    """Every picked outer sample is paired with its own datum."""
    change, *_ = first_change(PLAIN, problem, jnp.asarray(1))
    sketched, *_ = first_change(replace(PLAIN, sketch=Sketch("dense", OUTER)), problem, jnp.asarray(1))
    assert_same(sketched, change)


def test_a_bank_cannot_be_sketched(problem):
    solver = replace(PLAIN, tracker=Bank(2), sketch=Sketch("dense", 2))
    with pytest.raises(SettingError, match=r"tracker=bank keeps outputs per datum .* use tracker=ring"):
        eqx.filter_eval_shape(first_change, solver, problem, jnp.asarray(1))


def test_denominators_of_the_bank_are_the_mean_over_outputs_of_the_own_datum(problem):
    bank, x = Bank(2), BITS[:OUTER]
    family = problem.family.given(jnp.asarray(x, jnp.float32))

    def log_prob_each(z_J):
        return log_joint_each(problem.decoder, jnp.asarray(x, jnp.float32), z_J)

    @jax.jit
    def look(step):
        outer_key, inner_key = jax.random.split(jax.random.fold_in(KEY, step))
        outer, inner_eps = family.draw_outer(outer_key, OUTER), family.noise.sample(inner_key, INNER)
        return inner_eps, log_ratios(family, log_prob_each, outer, inner_eps, jnp.asarray(INNER))

    observe = jax.jit(lambda state, ratios: bank.observe(state, ratios, jnp.arange(OUTER)))
    state, noise = bank.init(look(9)[1], INNER), []
    scale = np.exp(as64(family.conditional.log_scale))
    for step, new in enumerate([False, False, False, True, False]):
        inner_eps, ratios = look(step)
        noise.append(as64(inner_eps))
        tracked, state = observe(state, ratios)
        held = np.concatenate(noise[-3:])
        location = np.array([[unsplit64(problem.family.mixing, one, eps) for eps in held] for one in x])
        pairs = stats.norm(location, scale).logpdf(as64(ratios.z_J)[:, None]).sum(-1)
        expected = logsumexp(pairs, axis=1) - np.log(len(held)) - as64(ratios.log_p_J)
        np.testing.assert_allclose(tracked.y_S, expected, rtol=1e-4, atol=1e-4)
        assert float(tracked.effective_S) == len(held) == INNER * [1, 2, 3, 3, 1][step]
        state = bank.refresh(state, Auxiliary(0.0, 0.0, jnp.full(OUTER, new), lambda _: pytest.fail("second look")))
        noise = [] if new else noise


class Numbered(eqx.Module):
    """Five rows of data, where the value of each row is its index."""

    rows: int = eqx.field(static=True, default=5)

    def batch(self, key, count):
        return jax.random.randint(key, (count,), 0, self.rows)[:, None].astype(float)


class Telling(eqx.Module):
    """log p(x | z) = -100 * 10^x, so that the digits of neg_elbo show which rows were in the mini-batch."""

    def log_prob_each(self, x_J, z_J):
        return -100 * 10 ** x_J[:, 0]


def telling_run(tracker):
    """The counts of the rows in the mini-batch (one digit per row), and the tracker, at each of 9 steps."""
    theta = exact_theta(0.5) | {"gain": jnp.full((2, 1), 0.1)}
    problem = AutoencoderProblem(linear_autoencoder(theta).family, Telling(), Numbered(), 2, batch=OUTER)
    update = replace(SGD, learning_rate=1e-6)
    solver = CompositionalSolver(9, Samples(OUTER, INNER), Pool(switch_every=3), tracker, update=update)

    def step(state, t):
        state, info = solver.step(split(problem)[1], state, t, jax.random.fold_in(KEY, t))
        return state, (info.neg_elbo, state.tracker)

    run = jax.jit(lambda: jax.lax.scan(step, solver.init(problem, KEY), jnp.arange(1, 10))[1])
    neg_elbo, trackers = run()
    return [f"{round(OUTER * value / 100):05d}" for value in np.asarray(neg_elbo).tolist()], trackers


@pytest.mark.parametrize("tracker", [Ring(0.3), Extrapolated(0.5), Bank(2)], ids=lambda each: type(each).__name__)
def test_a_batch_is_kept_as_long_as_its_chunk(tracker):
    rows, after = telling_run(tracker)
    assert all(sum(map(int, row)) == OUTER for row in rows)
    assert all(len(set(rows[first : first + 3])) == 1 for first in (0, 3, 6))
    assert len({rows[0], rows[3], rows[6]}) == 3
    if isinstance(tracker, Bank):
        assert after.kept_B.sum(1).tolist() == [INNER, 2 * INNER, 0] * 3


RUNS = 1500


def pulled_back(change, theta):
    """The gradient with respect to theta, given the gradient with respect to the weights that are made from theta."""
    return jax.vjp(lambda theta: split(linear_autoencoder(theta))[0], theta)[1](change)[0]


UIVI = PathGradient(Hmc(8, 1, 5))


def pathwise_gradients(theta, objective=UIVI, inner=2):
    """Gradients of a pathwise objective on many mini-batches, with one column per parameter.

    The chains of UIVI are long enough to forget the noise that made z, on which dz/dtheta depends.
    """
    solver = PathwiseSolver(samples=Samples(6, inner), objective=objective, update=SGD)
    problem = linear_autoencoder(theta, batch=6)

    def one(key):
        state = solver.init(problem, key)
        state = state._replace(player=jnp.log(0.25)) if objective is UIVI else state
        new, _ = solver.step(split(problem)[1], state, jnp.asarray(1), key)
        return jax.flatten_util.ravel_pytree(pulled_back(minus(state.params, new.params), theta))[0]

    keys = jax.random.split(jax.random.key(5), RUNS)
    return np.asarray(jax.jit(lambda keys: jax.lax.map(one, keys))(keys), np.float64)


@pytest.fixture(scope="module")
def off():
    theta = exact_theta(0.6)
    return theta | {"gain": 0.7 * theta["gain"], "bias": theta["bias"] + 0.3, "noise": 1.2 * theta["noise"]}


def test_uivi_has_the_gradient_of_the_exact_bound(off):
    exact = jax.grad(lambda theta: linear_neg_elbo(theta, jnp.asarray(X, jnp.float32)).mean())(off)
    exact = np.asarray(jax.flatten_util.ravel_pytree(exact)[0])
    assert np.abs(exact).max() > 0.1
    assert agrees(pathwise_gradients(off), exact)


@pytest.mark.parametrize("objective", [PathGradient(), ReverseBound(Reverse(1, (3,)), Training(updates=0))])
def test_other_pathwise_objectives_have_it_with_many_inner_samples(off, objective):
    """The reverse model reads z and the features of its datum."""
    exact = jax.grad(lambda theta: linear_neg_elbo(theta, jnp.asarray(X, jnp.float32)).mean())(off)
    exact = np.asarray(jax.flatten_util.ravel_pytree(exact)[0])
    assert agrees(pathwise_gradients(off, objective, inner=300), exact)
    assert not agrees(pathwise_gradients(off, objective, inner=1), exact)


def test_uivi_with_the_context_of_another_datum_has_not(off, monkeypatch):
    exact = jax.grad(lambda theta: linear_neg_elbo(theta, jnp.asarray(X, jnp.float32)).mean())(off)
    monkeypatch.setattr(Conditioned, "context", lambda self, _: jnp.roll(self.feature_N, 1, axis=0))
    assert not agrees(pathwise_gradients(off), np.asarray(jax.flatten_util.ravel_pytree(exact)[0]))


def test_encoder_scale_and_decoder_are_groups_of_their_own(problem):
    params, fixed = split(problem)
    labels = jax.tree_util.tree_leaves_with_path(groups(params))
    for path, label in labels:
        assert label == group_of(jax.tree_util.keystr(path))
    assert sorted({label for _, label in labels}) == ["decoder", "mixing", "scale"]
    assert [leaf.dtype for leaf in jax.tree.leaves(fixed)] == [jnp.uint8]


def test_every_group_has_its_own_constants(problem):
    """Three steps of the paper's update, each group against a loop in float64."""
    constants = {"mixing": (1e-3, 0.2), "scale": (4e-3, 0.5), "decoder": (9e-3, 0.9)}
    c_alpha, c_gamma = (PerGroup.of(**{group: pair[i] for group, pair in constants.items()}) for i in (0, 1))
    update = CiviAdam(c_alpha, c_gamma)
    params = split(problem)[0]
    rule = update.transformation(groups(params), 10)
    rng = np.random.default_rng(0)
    gradients = [jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), float), params) for _ in range(3)]

    @jax.jit
    def path(gradients):
        state, changes = rule.init(params), []
        for gradient in gradients:
            change, state = rule.update(gradient, state, params)
            changes.append(jax.tree.leaves(change))
        return changes

    changes = path(gradients)
    for i, label in enumerate(jax.tree.leaves(groups(params))):
        c_alpha, c_gamma = constants[label]
        m = v = 0.0
        for t, gradient in enumerate(gradients, start=1):
            now, first = as64(jax.tree.leaves(gradient)[i]), c_gamma * 0.999**t
            second = c_alpha / t ** (2 / 5) * (1 - first) ** 2
            m, v = first * m + (1 - first) * now, (1 - second) * v + second * now**2
            expected = -c_alpha / t ** (1 / 5) * m / (np.sqrt(v) + 1e-8)
            np.testing.assert_allclose(changes[t - 1][i], expected, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize(
    ("l2", "of_decoder"),
    [
        (PerGroup.of(mixing=0.2, scale=0.2, decoder=0.0), 0.0),
        (PerGroup.of(mixing=0.2, scale=0.2, decoder=0.8), 0.8),
        (0.2, 0.2),
    ],
)
def test_the_decoder_may_have_its_own_decay(problem, l2, of_decoder):
    """With a zero gradient, a step with learning rate 0.1 gives theta / (1 + 0.1 l2)."""
    params = split(problem)[0]
    rule = FirstOrder("sgd", 0.1, "constant", l2=l2).transformation(groups(params), 10)
    still = jax.tree.map(jnp.zeros_like, params)
    change = jax.jit(lambda params: rule.update(still, rule.init(params), params)[0])(params)
    leaves = zip(*map(jax.tree.leaves, (groups(params), params, change)), strict=True)
    for label, before, moved in leaves:
        factor = 1 + 0.1 * (of_decoder if label == "decoder" else 0.2)
        np.testing.assert_allclose(as64(before) + as64(moved), as64(before) / factor, rtol=1e-5, atol=1e-7)
