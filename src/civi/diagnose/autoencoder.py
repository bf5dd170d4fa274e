"""How good an autoencoder is on given data: the ELBO and the importance-weighted log evidence of every datum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm
from jaxtyping import Array, Float, PRNGKeyArray

TOGETHER, BLOCK = 4, 200


class Scores(NamedTuple):
    """Of every datum: neg_elbo, -log p(x) (both from above, in expectation), and the mixing's share of Var(z | x)."""

    neg_elbo: Any
    neg_log_lik: Any
    mixing_share: Any


def scores(
    model: Any, x_N: Any, key: PRNGKeyArray, draws: int, advance: Callable[[int, int], None] | None = None
) -> Scores:
    """Scores of all data, `BLOCK` at a time with memory for `TOGETHER`: the same result for any block length."""
    count = len(jax.tree.leaves(x_N)[0])
    keys = jax.random.split(key, -(-count // BLOCK))
    parts = []
    for i, block_key in enumerate(keys):
        rows = np.arange(i * BLOCK, min((i + 1) * BLOCK, count))
        padded = np.resize(rows, BLOCK if count > BLOCK else len(rows))
        found = _scores_of(model, _rows(x_N, padded), block_key, draws)
        parts.append([np.asarray(column)[: len(rows)] for column in found])
        if advance:
            advance(int(rows[-1]) + 1, count)
    return Scores(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def scores_of(model: Any, x_N: Any, key: PRNGKeyArray, draws: int) -> Scores:
    """Every datum with its own noise, `TOGETHER` at a time, as one program."""
    count = len(jax.tree.leaves(x_N)[0])
    rows = (jax.tree.map(jnp.asarray, x_N), jax.random.split(key, count))
    return jax.lax.map(lambda row: _datum(model, row[0], row[1], draws), rows, batch_size=min(TOGETHER, count))


_scores_of = eqx.filter_jit(scores_of)


def _datum(model: Any, x: Any, key: PRNGKeyArray, draws: int) -> Scores:
    """One datum: z_s ~ q(z | eps_s), weighted by log p(x, z_s) - log mean_k q(z_s | eps_k), own eps_s among the eps_k.

    Given the eps this is the balance heuristic of S conditionals, an unbiased estimate of p(x), so that its logarithm
    is a lower bound on log p(x) in expectation; the mean of the log weights is one on the ELBO.
    """
    x = jax.tree.map(lambda leaf: leaf.astype(float) if leaf.dtype == jnp.uint8 else leaf, x)
    family = model.family.given(jax.tree.map(lambda leaf: leaf[None], x))
    outer = family.draw_outer(key, draws)
    mixed_S = family.mix(outer.eps)[0]
    transform = jax.vmap(family.conditional.transform)
    z_S = transform(mixed_S, outer.u)
    log_q_S = logsumexp(family.conditional.log_prob_pairs(mixed_S, z_S), axis=1) - jnp.log(draws)
    log_p_S = norm.logpdf(z_S).sum(-1) + model.target.decoder.log_prob_each(_repeated(x, draws), z_S)
    log_weight_S = log_p_S - log_q_S
    location_S = transform(mixed_S, jnp.zeros_like(z_S))
    within = (transform(mixed_S, jnp.ones_like(z_S)) - location_S) ** 2
    between = location_S.var(0)
    share = between.sum() / (between.sum() + within.mean(0).sum())
    return Scores(-log_weight_S.mean(), jnp.log(draws) - logsumexp(log_weight_S), share)


def _rows(x_N: Any, index: np.ndarray) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], x_N)


def _repeated(x: Any, count: int) -> Any:
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), x)


def mean_and_se(values: Float[Array, " N"]) -> tuple[float, float]:
    """The mean over data and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))
