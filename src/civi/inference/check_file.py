"""Checks of the parts of a posterior that were read from a file: types, shapes and finite numbers.

A file can have valid checksums and still hold anything. Nothing in it is used before these checks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from civi.errors import DataError
from civi.family import Amortised, ModalNetwork, ParticleNoise, Particles, SemiImplicit
from civi.inference.nuts import Reference
from civi.inference.pilot.base import Guesses
from civi.inference.run_curve import RunCurve
from civi.problem.autoencoder import Decoder
from civi.problem.target import CurvedFrame, Frame, LowRankFrame

MAX_DIM = 1_000_000
Parts = Mapping[str, Any]


def check_parts(kind: str, parts: Parts) -> None:
    """Raise DataError unless the parts are those of a posterior of this kind."""
    _check_record(parts)
    CHECKS[kind](parts)


def expect(condition: bool, what: str) -> None:
    """Raise DataError with this description of what is wrong unless the condition holds."""
    if not condition:
        raise DataError(what)


def _check_record(parts: Parts) -> None:
    """How training ended, which all kinds have."""
    expect(isinstance(parts["message"], str), "message is not a text")
    expect(_number(parts["seconds"]) and parts["seconds"] >= 0, "seconds is not a number of seconds")
    phases = parts["phases"]
    good = isinstance(phases, dict) and all(_number(seconds) and seconds >= 0 for seconds in phases.values())
    expect(good, "phases does not hold numbers of seconds")
    history = parts["history"]
    expect(isinstance(history, dict), "history is not a table")
    columns = [column for column in history.values() if isinstance(column, np.ndarray) and column.ndim == 1]
    expect(len(columns) == len(history), "history has a column that is not a list of numbers")
    expect(len({len(column) for column in columns}) <= 1, "history has columns of different lengths")


def _check_semi_implicit(parts: Parts) -> None:
    family, frame, dim = parts["family"], parts["frame"], parts["dim"]
    _check_dim(dim)
    _check_centring(parts["centring"])
    expect(parts["converged"] is None or isinstance(parts["converged"], bool), "converged is not true, false or null")
    expect(parts["r_hat"] is None or isinstance(parts["r_hat"], Real), "r_hat is not a number")
    expect(type(family) is SemiImplicit, "family is not a semi-implicit family")
    _check_finite("family", family)
    _check_noise(family)
    key = jax.random.key(0)
    z = jax.eval_shape(lambda: family.sample(key, 2))
    expect(z.shape == (2, dim), f"the family has draws of shape {z.shape[1:]}, not ({dim},)")
    pairs = jax.eval_shape(lambda: family.log_prob_pairs(family.mix(family.noise.sample(key, 3)), jnp.zeros((2, dim))))
    expect(pairs.shape == (2, 3), "the family has a density of a wrong shape")
    if frame is not None:
        expect(type(frame) in (CurvedFrame, Frame, LowRankFrame), "frame is not a frame")
        _check_finite("frame", (frame, parts["slope"]))
        moved = jax.eval_shape(frame.outward, jnp.zeros(dim))
        back = jax.eval_shape(frame.inward, jnp.zeros((2, dim)))
        expect(moved.shape == (dim,) and back.shape == (2, dim), "the frame has a wrong shape")
        expect(jnp.shape(parts["log_p"]) == (), "log_p is not a number")
        expect(jnp.shape(parts["slope"]) == (dim,), "slope has a wrong shape")
    guesses = parts["guesses"]
    if guesses is not None:
        expect(type(guesses) is Guesses, "guesses are not those of a pilot")
        expect(np.ndim(guesses.draws) == 3 and guesses.draws.shape[2] == dim, "guesses have a wrong shape")
        expect(np.shape(guesses.elbo) == guesses.draws.shape[:1], "guesses have a wrong number of ELBOs")

    check_runs(parts["runs"])


def check_runs(runs: Any) -> None:
    """Raise DataError unless these are learning curves of runs."""
    expect(isinstance(runs, list) and all(type(run) is RunCurve for run in runs), "runs are not learning curves")
    for run in runs:
        columns = (run.step, run.seconds, run.neg_elbo, run.sd)
        plain = all(isinstance(column, np.ndarray) and column.ndim == 1 for column in columns)
        expect(plain and len({len(column) for column in columns}) == 1, "a learning curve has a wrong shape")
        expect(type(run.stalled) is int and type(run.chosen) is bool, "a learning curve has a wrong record")


def _check_centring(centring: Any) -> None:
    good = isinstance(centring, dict) and all(_number(degree) and 0 <= degree <= 1 for degree in centring.values())
    expect(good, "centring does not hold degrees from 0 to 1")


def _check_sampled(parts: Parts) -> None:
    reference = parts["reference"]
    expect(type(reference) is Reference, "reference does not hold draws of Markov chains")
    draws = reference.draws
    expect(isinstance(draws, np.ndarray) and draws.ndim == 3 and draws.size > 0, "the draws have a wrong shape")
    _check_finite("reference", draws)
    fits = np.shape(reference.r_hat) == np.shape(reference.effective_size) == draws.shape[2:]
    expect(fits, "R-hat and effective sizes do not have one number for every parameter")
    count = reference.divergences
    expect(type(count) is int and count >= 0, "divergences is not a whole number")


def _check_amortised(parts: Parts) -> None:
    family, dim = parts["family"], parts["latent_dim"]
    _check_dim(dim)
    expect(type(family) is Amortised, "family is not an encoder")
    expect(isinstance(parts["decoder"], Decoder), "decoder is not a decoder")
    _check_finite("family", family)
    _check_finite("decoder", parts["decoder"])
    _check_noise(family)
    rest = family.mixing.rest
    feature = jnp.zeros((1, rest.weights[0].shape[0]))
    mixed = jax.eval_shape(lambda: family.mixing(feature, family.noise.sample(jax.random.key(0), 1)))
    u = jax.eval_shape(lambda: family.conditional.draw_base(jax.random.key(0), 1))
    z = jax.eval_shape(jax.vmap(family.conditional.transform), mixed, u)
    expect(z.shape == (1, dim), f"the encoder has latent vectors of shape {z.shape[1:]}, not ({dim},)")


CHECKS = {"semi-implicit": _check_semi_implicit, "sampled": _check_sampled, "amortised": _check_amortised}


def _check_noise(family: Any) -> None:
    noise = family.noise
    expect(type(noise.dim) is int and 1 <= noise.dim <= MAX_DIM, "the dimension of the noise is not a whole number")
    expect(_number(noise.scale) and noise.scale > 0, "the scale of the noise is not a positive number")
    if isinstance(noise, ParticleNoise):
        fits = isinstance(family.mixing, Particles) and len(family.mixing.particles) == noise.count
        expect(fits, "the number of particles is wrong")
    if isinstance(family.mixing, ModalNetwork):
        shapes = family.mixing.offset_M.shape[:1], family.mixing.threshold.shape
        expect(shapes[1] == (shapes[0][0] - 1,), "the number of modes is wrong")


def _check_dim(dim: Any) -> None:
    expect(type(dim) is int and 1 <= dim <= MAX_DIM, "the dimension is not a whole number from 1 on")


def _check_finite(name: str, tree: Any) -> None:
    """All arrays must be floating-point and finite."""
    arrays = [leaf for leaf in jax.tree.leaves(tree) if eqx.is_array_like(leaf) and not isinstance(leaf, str)]
    expect(len(arrays) == len(jax.tree.leaves(tree)), f"{name} holds something other than numbers")
    for array in arrays:
        good = jnp.issubdtype(jnp.result_type(array), jnp.floating) and bool(np.isfinite(np.asarray(array)).all())
        expect(good, f"{name} has numbers that are not finite, or whole numbers")


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
