"""Gaussian pilot: the best Gaussian along Newton paths from several starts, then refined by full-rank VI.

A path to a mode passes through better locations than the mode itself. In a funnel, for example, the mode is infinitely
narrow, and the Gaussian with the highest ELBO lies somewhere along the path. The idea is that of Pathfinder (Zhang et
al. 2022), but with the exact curvature in place of a low-rank approximation.
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
    """Newton paths, the best Gaussian along each path, then full-rank VI in the frame of the best one.

    Half of the paths start at random points in (-2, 2). The other half start at draws of the best Gaussian found so
    far, widened by the factor WIDER, which can find modes outside of (-2, 2).
    """

    starts: Annotated[int, "Newton paths from points in (-2, 2), and as many again from a wider region."] = 4
    climb: Annotated[int, "Newton steps per path."] = 25
    steps: Annotated[int, "Steps of full-rank variational inference after the paths."] = 1000
    learning_rate: Annotated[float, "Learning rate of these steps."] = 0.02
    batch: Annotated[int | None, "Rows of data per step of variational inference; none uses all."] = None

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
        """The target in the frame of the guess with the highest ELBO, refined by full-rank VI."""
        best = guesses[int(np.argmax([guess.elbo for guess in guesses]))]
        if not np.isfinite(best.elbo):
            raise TargetError(
                f"the log density is not finite around any of the {self.starts} points in (-2, 2) where the pilot "
                "starts: shift or scale z so that the posterior is near 0, and give every parameter a proper prior"
            )
        framed = _framed(target, best.location, best.factor)
        return self._refined(framed) if self.steps else framed

    def guesses(self, target: Target) -> list[Guess]:
        """The best Gaussian along each path. In more than LARGEST dimensions there are no Newton steps."""
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
        """The target in the frame of the full-rank Gaussian with the highest ELBO, starting from the given frame."""
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
    """The Gaussian with the highest ELBO along a Newton path; without steps, the unit Gaussian at the start."""
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
    """The Gaussian with this location and the curvature of the target there."""
    factor = inverse_factor(-jax.hessian(target.log_prob)(location))
    return Guess(_elbo(target, location, factor, noise), location, factor)


def _elbo(target: Target, location: Array, factor: Array, noise: Float[Array, "N D"]) -> Float[Array, ""]:
    """The ELBO E[log p] + entropy of a Gaussian; minus infinity if it is not finite."""
    log_p = jax.vmap(target.log_prob)(location + noise @ factor.T)
    entropy = jnp.log(jnp.diagonal(factor)).sum() + 0.5 * noise.shape[1] * (1 + jnp.log(2 * jnp.pi))
    elbo = log_p.mean() + entropy
    return jnp.where(jnp.isfinite(elbo), elbo, -jnp.inf)
