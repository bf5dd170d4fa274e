"""Gaussian pilot: the best Gaussian on Newton paths from several starts, then refined by full-rank VI.

A path towards a mode passes better places than the mode itself: in a funnel the mode is infinitely thin, and the
Gaussian of highest ELBO lies on the way (Zhang et al. 2022, Pathfinder, whose low-rank curvature is exact here).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from civi.errors import TargetError, require
from civi.family import Architecture
from civi.inference.pilot.laplace import Climb, begin, inverse_factor, newton
from civi.problem import PosteriorProblem
from civi.problem.target import Frame, Framed, Target, check_shape
from civi.settings import check_settings, self_checking
from civi.solver import train
from civi.solver.gaussian import fullrank
from civi.update import FirstOrder, Samples

DRAWS = 64
LARGEST = 300
WIDER = 4.0


class Guess(NamedTuple):
    """A Gaussian N(location, factor factor^T) and its ELBO, as JAX or NumPy arrays."""

    elbo: Any
    location: Any
    factor: Any


@self_checking
@dataclass(frozen=True)
class Gaussian:
    """Newton paths, the best Gaussian on each, then full-rank VI in the frame of the best.

    Half of the paths begin at points in (-2, 2) and half around the best Gaussian of these, WIDER times as wide: a mode
    that lies outside of (-2, 2) may be found from there.
    """

    starts: Annotated[int, "Newton paths from points in (-2, 2), and as many again from further away."] = 4
    climb: Annotated[int, "Newton steps of a path."] = 25
    steps: Annotated[int, "Steps of full-rank variational inference after the paths."] = 1000
    learning_rate: Annotated[float, "Learning rate of these steps."] = 0.02
    batch: Annotated[int | None, "Rows of data that each of these steps sees; none: all."] = None

    def __post_init__(self) -> None:
        check_settings(self, "pilot")
        require(self.starts >= 1, f"pilot.starts must be at least 1, not {self.starts}")
        require(self.climb >= 0, f"pilot.climb must not be negative, not {self.climb}")
        require(self.steps >= 0, f"pilot.steps must not be negative, not {self.steps}")
        require(self.learning_rate > 0, f"pilot.learning_rate must be positive, not {self.learning_rate}")

    def look(self, target: Target) -> Target:
        check_shape(target)
        return self.settle(target, self.guesses(target))

    def settle(self, target: Target, guesses: list[Guess]) -> Framed:
        """The target in the frame of the best guess, refined."""
        best = guesses[int(np.argmax([guess.elbo for guess in guesses]))]
        if not np.isfinite(best.elbo):
            raise TargetError(
                f"the log density is not finite around any of the {self.starts} points in (-2, 2) from which the pilot "
                "starts: shift or scale z so that the mass is near 0, and give every parameter a proper prior"
            )
        framed = _framed(target, best.location, best.factor)
        return self._refined(framed) if self.steps else framed

    def guesses(self, target: Target) -> list[Guess]:
        """The best Gaussian on each path."""
        near_key, wide_key, noise_key = jax.random.split(jax.random.key(0, impl="rbg"), 3)
        steps = self.climb if target.dim <= LARGEST else 0
        noise = jax.random.normal(noise_key, (DRAWS, target.dim))
        near = jax.random.uniform(near_key, (self.starts, target.dim), minval=-2, maxval=2)
        found = [_on_cpu(_best_on_path(target, start, noise, steps)) for start in near]
        best = found[int(np.argmax([guess.elbo for guess in found]))]
        if not steps or not np.isfinite(best.elbo):
            return found
        wide = WIDER * np.asarray(jax.random.normal(wide_key, near.shape)) @ best.factor.T + best.location
        return found + [_on_cpu(_best_on_path(target, jnp.asarray(start, float), noise, steps)) for start in wide]

    def _refined(self, framed: Framed) -> Framed:
        """The full-rank Gaussian of highest ELBO, found in the frame of the guess."""
        method = fullrank(Architecture(scale=1.0))
        update = FirstOrder(learning_rate=self.learning_rate)
        solver = replace(method.solver, steps=self.steps, samples=Samples(outer=DRAWS, inner=1), update=update)
        family = method.family.init(framed.dim, jax.random.key(0, impl="rbg"))
        problem = PosteriorProblem(family, framed, self.batch)
        gaussian: Any = train(solver, problem, jax.random.key(1, impl="rbg")).problem.family
        factor = np.asarray(framed.frame.factor, np.float64)
        location = np.asarray(framed.frame.location, np.float64) + factor @ np.asarray(gaussian.mixing.output)
        return _framed(framed.target, location, factor @ np.asarray(gaussian.conditional.cholesky))


def _framed(target: Target, location: np.ndarray, factor: np.ndarray) -> Framed:
    return eqx.filter_jit(Framed.at)(target, Frame(jnp.asarray(location, float), jnp.asarray(factor, float)))


def _on_cpu(guess: Guess) -> Guess:
    return Guess(*(np.asarray(part, np.float64) for part in guess))


@eqx.filter_jit
def _best_on_path(target: Target, start: Float[Array, " D"], noise: Float[Array, "N D"], steps: int) -> Guess:
    flat = Guess(jnp.asarray(-jnp.inf), start, jnp.eye(target.dim))

    def step(state: tuple[Climb, Guess], _: None) -> tuple[tuple[Climb, Guess], None]:
        climb, best = state
        guess = _guess(target, climb.z, noise)
        best = jax.tree.map(lambda new, old: jnp.where(guess.elbo > best.elbo, new, old), guess, best)
        return (newton(target.log_prob, climb), best), None

    if not steps:
        return flat._replace(elbo=_elbo(target, flat.location, flat.factor, noise))
    return jax.lax.scan(step, (begin(target.log_prob, start), flat), None, length=steps)[0][1]


def _guess(target: Target, location: Float[Array, " D"], noise: Float[Array, "N D"]) -> Guess:
    factor = inverse_factor(-jax.hessian(target.log_prob)(location))
    return Guess(_elbo(target, location, factor, noise), location, factor)


def _elbo(target: Target, location: Array, factor: Array, noise: Float[Array, "N D"]) -> Float[Array, ""]:
    """E[log p] + entropy; minus infinity where it cannot be computed."""
    log_p = jax.vmap(target.log_prob)(location + noise @ factor.T)
    entropy = jnp.log(jnp.diagonal(factor)).sum() + 0.5 * noise.shape[1] * (1 + jnp.log(2 * jnp.pi))
    elbo = log_p.mean() + entropy
    return jnp.where(jnp.isfinite(elbo), elbo, -jnp.inf)
