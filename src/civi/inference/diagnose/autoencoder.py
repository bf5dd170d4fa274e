"""How good an autoencoder is on given data: the ELBO and the importance-weighted log evidence per data point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm
from jaxtyping import Array, PRNGKeyArray

from civi.family import Amortised
from civi.inference.diagnose.modes import Gaussians, laplace_approximations
from civi.problem.autoencoder import Decoder, log_joint_each

TOGETHER, BLOCK, LOOKS = 4, 50, 16


class Scores(NamedTuple):
    """Arrays with one entry per data point.

    neg_elbo and neg_log_lik = -log p(x) are upper bounds in expectation; neg_log_lik_by_q uses draws of q alone.
    mixing_share is the share of Var(z | x) that comes from the mixing. rate = E[log q(z | x) - log p(z)] is the KL part
    of the ELBO, and location = E[z | x] has an entry per dimension.
    """

    neg_elbo: Any
    neg_log_lik: Any
    neg_log_lik_by_q: Any
    mixing_share: Any
    rate: Any
    location: Any


def scores(
    family: Amortised,
    decoder: Decoder,
    x_N: Any,
    key: PRNGKeyArray,
    draws: int,
    *,
    together: int = TOGETHER,
    at_modes: bool = False,
    advance: Callable[[int, int], None] | None = None,
) -> Scores:
    """Scores of all data points.

    One compiled call covers BLOCK groups of `together` data points. It handles one group at a time, so the memory it
    needs is that of one group.

    Args:
        family: the encoder.
        decoder: the decoder.
        x_N: data points, a pytree whose leaves have them on the first axis.
        key: random key.
        draws: number of latent draws per data point, which also serve as its inner samples.
        together: number of data points in a group.
        at_modes: whether as many draws of the Laplace approximation of p(z | x) are added for neg_log_lik. Its bound is
            then close even where the encoder's q is poor.
        advance: called after every block with the number of data points done and their total.
    """
    count = len(jax.tree.leaves(x_N)[0])
    block = min(BLOCK * together, -(-count // together) * together)
    keys = jax.random.split(key, -(-count // block))
    parts = []
    for i, block_key in enumerate(keys):
        rows = np.arange(i * block, min((i + 1) * block, count))
        padded = np.resize(rows, block)
        rows_of_block = jax.tree.map(lambda leaf, at=padded: _as_numbers(leaf[at]), x_N)
        modes = _modes(family, decoder, rows_of_block) if at_modes else None
        found = _scores_of(family, decoder, rows_of_block, block_key, draws, together, modes)
        parts.append([np.asarray(column)[: len(rows)] for column in found])
        if advance:
            advance(int(rows[-1]) + 1, count)
    return Scores(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def scores_of(
    family: Amortised,
    decoder: Decoder,
    x_N: Any,
    key: PRNGKeyArray,
    draws: int,
    together: int = TOGETHER,
    modes: Gaussians | None = None,
) -> Scores:
    """The same as `scores` in one traceable program; the number of data points must be a multiple of `together`."""
    groups = jax.tree.map(lambda leaf: jnp.asarray(leaf).reshape(-1, together, *leaf.shape[1:]), (x_N, modes))
    keys = jax.random.split(key, len(jax.tree.leaves(groups)[0]))

    def of_group(group: tuple[Any, Gaussians | None, PRNGKeyArray]) -> Scores:
        return _group(family, decoder, *group, draws)

    found = jax.lax.map(of_group, (*groups, keys))
    return Scores(*(column.reshape(-1, *column.shape[2:]) for column in found))


_scores_of = eqx.filter_jit(scores_of)


def _group(
    amortised: Amortised, decoder: Decoder, x_J: Any, modes: Gaussians | None, key: PRNGKeyArray, draws: int
) -> Scores:
    """Scores of one group of data points.

    For each data point, z_s ~ q(z | eps_s) has the log weight log p(x, z_s) - log mean_k q(z_s | eps_k), where the mean
    includes the own term k = s. Given the eps, this is multiple importance sampling from S conditionals with the
    balance heuristic. The mean weight is unbiased for p(x), so in expectation its logarithm is a lower bound on
    log p(x), and the mean of the log weights is a lower bound on the ELBO. With modes, draws of the Laplace
    approximations are added, and the balance heuristic has the mean of both densities.
    """
    x_J = jax.tree.map(_as_numbers, x_J)
    family, count = amortised.given(x_J), len(jax.tree.leaves(x_J)[0])
    eps_key, base_key = jax.random.split(key)
    mixed_JS = family.mix(family.noise.sample(eps_key, draws))
    u_JS = family.conditional.draw_base(base_key, count * draws).reshape(count, draws, -1)
    transform = jax.vmap(jax.vmap(family.conditional.transform))
    z_JS = transform(mixed_JS, u_JS)
    z_JR = z_JS if modes is None else jnp.concatenate([z_JS, modes.draw(jax.random.fold_in(key, 0), draws)], 1)
    log_q_JR = logsumexp(jax.vmap(family.conditional.log_prob_pairs)(mixed_JS, z_JR), axis=2) - jnp.log(draws)
    log_joint_JR = log_joint_each(decoder, x_J, z_JR.reshape(-1, z_JR.shape[-1])).reshape(log_q_JR.shape)
    log_mean_JR = log_q_JR if modes is None else jnp.logaddexp(log_q_JR, modes.log_prob(z_JR)) - jnp.log(2)
    log_q_JS, log_weight_JS = log_q_JR[:, :draws], (log_joint_JR - log_q_JR)[:, :draws]
    by_q_J = jnp.log(draws) - logsumexp(log_weight_JS, axis=1)
    neg_log_lik_J = jnp.log(z_JR.shape[1]) - logsumexp(log_joint_JR - log_mean_JR, axis=1)
    location_JS = transform(mixed_JS, jnp.zeros_like(z_JS))
    within_J = ((transform(mixed_JS, jnp.ones_like(z_JS)) - location_JS) ** 2).mean(1).sum(-1)
    between_J = location_JS.var(1).sum(-1)
    share_J, rate_J = between_J / (between_J + within_J), (log_q_JS - norm.logpdf(z_JS).sum(-1)).mean(1)
    return Scores(-log_weight_JS.mean(1), neg_log_lik_J, by_q_J, share_J, rate_J, location_JS.mean(1))


def _modes(family: Amortised, decoder: Decoder, x_N: Any) -> Gaussians:
    """Laplace approximations at the modes that are found from the encoder's locations."""
    return laplace_approximations(decoder, x_N, np.asarray(_locations(family, x_N)))


@eqx.filter_jit
def _locations(amortised: Amortised, x_N: Any) -> Array:
    """The mean of mu(x, eps) over LOOKS noise vectors."""
    family = amortised.given(x_N)
    mixed_NK = family.mix(family.noise.sample(jax.random.key(0), LOOKS))
    zeros = jnp.zeros(family.conditional.draw_base(jax.random.key(0), 1).shape[-1])
    return jax.vmap(jax.vmap(lambda mixed: family.conditional.transform(mixed, zeros)))(mixed_NK).mean(1)


def _as_numbers(leaf: Any) -> Any:
    """Bits as floating-point numbers; everything else as it is."""
    return leaf.astype(float) if leaf.dtype == jnp.uint8 else leaf


def latents(amortised: Amortised, x_J: Any, key: PRNGKeyArray, draws: int) -> np.ndarray:
    """Posterior draws of z for the data points x_J.

    Returns:
        An array of shape (1, draws, data point, dim); the first axis is the chain axis of ArviZ.
    """
    family, count = amortised.given(x_J), len(jax.tree.leaves(x_J)[0])
    return np.asarray(jax.lax.map(lambda key: family.sample(key, count), jax.random.split(key, draws)))[None]
