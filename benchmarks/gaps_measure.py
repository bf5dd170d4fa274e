"""log p(x) of single data, and the best ELBO that a family reaches on each of them, with the decoder held fixed.

Every datum has a posterior of its own here: a family is fitted to it from the start, for all data in one program. What
an encoder loses against log p(x) is then the sum of two gaps (Cremer et al. 2018):

    approximation gap = log p(x) - best ELBO of the family
    amortisation gap  = best ELBO of the family - ELBO of the encoder
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, PRNGKeyArray

from civi.family import Amortised, Architecture, SemiImplicit
from civi.objective import PathGradient
from civi.parts import constant, split
from civi.problem import PosteriorProblem
from civi.problem.autoencoder import Decoder, log_joint_each
from civi.solver import PathwiseSolver
from civi.solver.loop import begin, run_scan
from civi.update import FirstOrder, Samples

DIAGONAL = Architecture(mixing="constant", conditional="diagonal", scale=1.0)
FULL = replace(DIAGONAL, conditional="cholesky")
NEAR = Architecture(noise_dim=3, conditional="bounded", scale=math.sqrt(1 - 0.3**2), spread=0.3)
WIDE = Architecture(noise_dim=3, conditional="bounded", scale=0.37, spread=1.0)
GAUSSIAN_FIT = PathwiseSolver(1000, Samples(8, 1), PathGradient(), FirstOrder(learning_rate=0.05))
MIXED_FIT = PathwiseSolver(2000, Samples(16, 200), PathGradient(), FirstOrder(learning_rate=1e-2, warm_up=100))
OUTER, INNER = 1000, 5000
BLOCK, DEFENSIVE, WIDENED = 2000, 0.2, 1.5


class Frame(NamedTuple):
    """Coordinates w of a datum's posterior: z = location + factor w."""

    location: Float[Array, " D"]
    factor: Float[Array, "D D"]


class DatumPosterior(eqx.Module):
    """log p(x, z) of one datum as a density of w, with z = location + factor w."""

    decoder: Decoder = constant()
    x: Float[Array, " X"] = constant()
    frame: Frame = constant()

    @property
    def dim(self) -> int:
        """Dimension of z."""
        return self.frame.location.size

    def log_prob(self, w: Float[Array, " D"]) -> Float[Array, ""]:
        """log p(x, z) + log |det factor|."""
        z = self.frame.location + self.frame.factor @ w
        return log_joint_each(self.decoder, self.x[None], z[None])[0] + jnp.linalg.slogdet(self.frame.factor)[1]


class Fitted(NamedTuple):
    """The families of N data in their frames, and their ELBOs; every array has the data on its first axis."""

    family: SemiImplicit
    frame: Frame
    elbo: Float[Array, " N"]


@eqx.filter_jit
def fit(
    architecture: Architecture,
    solver: Any,
    decoder: Decoder,
    x_N: Float[Array, "N X"],
    frame_N: Frame,
    key: PRNGKeyArray,
) -> Fitted:
    """Fit a family to the posterior of every datum, and evaluate its ELBO.

    The ELBO is a lower bound in expectation: log q(z) is the safe mean over INNER inner samples.

    Args:
        architecture: of the family.
        solver: how a family is fitted.
        decoder: the decoder, which is not changed.
        x_N: the data.
        frame_N: the coordinates in which the family of every datum starts.
        key: random key.
    """

    def one(x: Array, frame: Frame, key: PRNGKeyArray) -> SemiImplicit:
        family_key, init_key, run_key = jax.random.split(key, 3)
        target = DatumPosterior(decoder, x, frame)
        problem = PosteriorProblem(architecture.init(target.dim, family_key), target)
        fixed = split(problem)[1]
        last, _, _ = run_scan(solver, fixed, begin(solver, problem, init_key, run_key))
        return eqx.combine(last.output, fixed).family

    fit_key, elbo_key = jax.random.split(key)
    family_N = eqx.filter_vmap(one)(x_N, frame_N, jax.random.split(fit_key, len(x_N)))
    return Fitted(family_N, frame_N, _elbos(family_N, decoder, x_N, frame_N, elbo_key))


def _elbos(family_N: SemiImplicit, decoder: Decoder, x_N: Array, frame_N: Frame, key: PRNGKeyArray) -> Array:
    arrays_N, rest = eqx.partition(family_N, eqx.is_array)

    def one(of_datum: tuple[Any, Array, Frame, PRNGKeyArray]) -> Array:
        arrays, x, frame, key = of_datum
        family = eqx.combine(arrays, rest)
        inner_key, outer_key = jax.random.split(key)
        w_J, log_q_J = family.sample_and_log_prob(outer_key, OUTER, family.noise.sample(inner_key, INNER))
        return (jax.vmap(DatumPosterior(decoder, x, frame).log_prob)(w_J) - log_q_J).mean()

    return jax.lax.map(one, (arrays_N, x_N, frame_N, jax.random.split(key, len(x_N))))


def best(first: Fitted, second: Fitted) -> Fitted:
    """Of two fits of the same architecture, the one with the higher ELBO for every datum."""
    better_N = first.elbo >= second.elbo

    def choose(one: Any, other: Any) -> Any:
        if not eqx.is_array(one):
            return one
        return jnp.where(better_N.reshape(-1, *[1] * (one.ndim - 1)), one, other)

    return jax.tree.map(choose, first, second)


def encoder_frame(encoder: Amortised, x_N: Array, key: PRNGKeyArray, draws: int = 500) -> Frame:
    """The mean and the standard deviations of the encoder's q(z | x_n), as a diagonal factor."""
    z_NS = encoder.given(x_N).sample(key, len(x_N) * draws).reshape(len(x_N), draws, -1)
    return Frame(z_NS.mean(1), jax.vmap(jnp.diag)(z_NS.std(1)))


def log_joint_table(decoder: Decoder, x_N: Array, z_M: Float[Array, "M D"]) -> Float[Array, "N M"]:
    """log p(x_n, z_m) for all pairs; the decoder's network sees every z_m once."""
    return jax.vmap(lambda x: log_joint_each(decoder, jnp.broadcast_to(x, (len(z_M), x.size)), z_M))(x_N)


@eqx.filter_jit
def likeliest(decoder: Decoder, x_N: Array, z_M: Float[Array, "M D"], frame_N: Frame) -> Frame:
    """The frames with their locations moved to the z_m with the highest log p(x_n, z_m)."""
    best_N = jax.lax.map(lambda x: log_joint_table(decoder, x[None], z_M)[0].argmax(), x_N)
    return frame_N._replace(location=z_M[best_N])


def gaussian_frame(fitted: Fitted) -> Frame:
    """The frame in which a fitted full Gaussian is standard normal."""
    cholesky_N = jax.vmap(lambda conditional: conditional.cholesky)(fitted.family.conditional)
    shift_N = jnp.einsum("nij,nj->ni", fitted.frame.factor, fitted.family.mixing.output)
    return Frame(fitted.frame.location + shift_N, fitted.frame.factor @ cholesky_N)


def joined(first: Fitted, second: Fitted) -> Frame:
    """The frame with the moments of two fitted Gaussians with weights exp(ELBO): of both modes, if there are two."""
    one, other = gaussian_frame(first), gaussian_frame(second)
    share_N = jax.nn.sigmoid(first.elbo - second.elbo)[:, None]
    apart_N = (one.location - other.location) * jnp.sqrt(share_N * (1 - share_N))
    squares_N = [frame.factor @ jnp.swapaxes(frame.factor, 1, 2) for frame in (one, other)]
    within_N = share_N[..., None] * squares_N[0] + (1 - share_N[..., None]) * squares_N[1]
    location_N = share_N * one.location + (1 - share_N) * other.location
    return Frame(location_N, jnp.linalg.cholesky(within_N + apart_N[:, :, None] * apart_N[:, None, :]))


def plane(half_width: float, step: float) -> Float[Array, "R R 2"]:
    """The points of a square grid around the origin of R^2."""
    count = round(half_width / step)
    line = step * jnp.arange(-count, count + 1)
    return jnp.stack(jnp.meshgrid(line, line), -1)


@eqx.filter_jit
def quadrature(decoder: Decoder, x_N: Array, z_RR: Float[Array, "R R 2"]) -> Float[Array, " N"]:
    """log p(x) = log sum_m p(x, z_m) step^2 over the points of a grid of the plane."""

    def add(log_sum_N: Array, z_R: Array) -> tuple[Array, None]:
        return jnp.logaddexp(log_sum_N, logsumexp(log_joint_table(decoder, x_N, z_R), axis=1)), None

    log_sum_N, _ = jax.lax.scan(add, jnp.full(len(x_N), -jnp.inf), z_RR)
    return log_sum_N + 2 * jnp.log(z_RR[0, 1, 0] - z_RR[0, 0, 0])


class Evidence(NamedTuple):
    """log p(x) of N data, and how far to trust it: the effective share of an importance sample."""

    log_p: Float[Array, " N"]
    effective: Float[Array, " N"]


@eqx.filter_jit
def importance(fitted: Fitted, decoder: Decoder, x_N: Array, key: PRNGKeyArray, blocks: int = 10) -> Evidence:
    """log p(x) by importance sampling from the fitted q and, for the tails, a wider Gaussian.

    Each block draws from a mixture of BLOCK conditionals of q, of weight 1 - DEFENSIVE, and N(0, WIDENED^2 I) in
    the frame. The density of this mixture is known exactly, so the mean weight is unbiased for p(x).
    """
    arrays_N, rest = eqx.partition(fitted.family, eqx.is_array)

    def one(of_datum: tuple[Any, Array, Frame, PRNGKeyArray]) -> Evidence:
        arrays, x, frame, key = of_datum
        family, target = eqx.combine(arrays, rest), DatumPosterior(decoder, x, frame)
        log_weight = jax.lax.map(lambda key: _log_weights(family, target, key), jax.random.split(key, blocks)).ravel()
        log_sum, log_square_sum = logsumexp(log_weight), logsumexp(2 * log_weight)
        count = log_weight.size
        return Evidence(log_sum - jnp.log(count), jnp.exp(2 * log_sum - log_square_sum) / count)

    return jax.lax.map(one, (arrays_N, x_N, fitted.frame, jax.random.split(key, len(x_N))))


def _log_weights(family: SemiImplicit, target: DatumPosterior, key: PRNGKeyArray) -> Float[Array, " S"]:
    """log p(x, w_s) - log q(w_s) of one block."""
    eps_key, u_key, wide_key = jax.random.split(key, 3)
    mixed_K = family.mix(family.noise.sample(eps_key, BLOCK))
    drawn = jax.vmap(family.conditional.transform)(mixed_K, family.conditional.draw_base(u_key, BLOCK))
    wide = round(DEFENSIVE * BLOCK)
    w_S = drawn.at[:wide].set(WIDENED * jax.random.normal(wide_key, (wide, target.dim)))
    log_q_S = logsumexp(family.log_prob_pairs(mixed_K, w_S), axis=1) - jnp.log(BLOCK)
    log_wide_S = jax.scipy.stats.norm.logpdf(w_S, scale=WIDENED).sum(1)
    log_mixture_S = jnp.logaddexp(jnp.log1p(-DEFENSIVE) + log_q_S, jnp.log(DEFENSIVE) + log_wide_S)
    return jax.vmap(target.log_prob)(w_S) - log_mixture_S
