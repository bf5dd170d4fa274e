"""Gaussian pilot: the Gaussian with the highest ELBO, found by climbs from several starts side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from civi.errors import TargetError, require
from civi.inference.pilot.climb import Climbed, climb
from civi.inference.pilot.governing import curved_frame
from civi.inference.pilot.low_rank import RANK, low_rank_frame
from civi.inference.pilot.matching import Diagonals, Normals
from civi.inference.pilot.modes import Modes, separate_modes
from civi.inference.pilot.scouts import scouted
from civi.inference.pilot.slopes import SlopesByPasses, TargetSlopes, at_degrees, sites_of
from civi.inference.programs import shapes_of
from civi.inference.seeds import Words, derived, generator
from civi.problem.target import CurvedFrame, Framed, LowRankFrame, Target, check_shape, in_double_precision
from civi.problem.target.program import on_device
from civi.problem.target.streamed_model import StreamedModel
from civi.problem.target.triangular import TriangularMap
from civi.settings import check_settings, self_checking

FEWEST_DRAWS, MULTIPLE = 64, 32
DENSE, SCOUTED = 300, 50
START, WIDER = 0.1, 4.0
CLEARLY = 0.1
LEVELS = (0.0, 1.0, 0.5)
CORRECTIONS = 4
DRAWS, FEWEST_WITH_ROWS, EVALUATIONS = 1024, 256, 500_000_000


class Guess(NamedTuple):
    """A Gaussian that a climb found: its ELBO, its location, and its factor (or its scales, if these are diagonal)."""

    elbo: float
    location: np.ndarray
    factor: np.ndarray

    def draws(self, noise: np.ndarray) -> np.ndarray:
        """Draws (N, D) from standard normal noise (N, D)."""
        return self.location + (noise @ self.factor.T if self.factor.ndim == 2 else noise * self.factor)

    def triangular(self) -> Guess:
        """The same Gaussian with a lower triangular factor."""
        return self._replace(factor=np.asarray(np.linalg.qr(self.factor.T, mode="r")).T)

    def moved_along(self, before: Guess, after: Guess) -> Guess:
        """This Gaussian with the change of location and ELBO that took another one from `before` to `after`."""
        location = self.location + after.location - before.location
        return self._replace(elbo=self.elbo + after.elbo - before.elbo, location=location)


class Found(NamedTuple):
    """What the pilot found.

    Attributes:
        framed: the target in the frame of the best Gaussian.
        guesses: the Gaussians of all climbs.
        degrees: the degrees of centring that were chosen, one for each site that has one.
        kl: KL(q || p) of the best Gaussian q.
        modes: the separate modes, in the coordinates of the frame; None if only one was found.
    """

    framed: Framed
    guesses: list[Guess]
    degrees: np.ndarray
    kl: float
    modes: Modes | None = None


@self_checking
@dataclass(frozen=True)
class Gaussian:
    """Climbs of batch and match, from points in (-2, 2) and then from draws of the best Gaussian, widened.

    The second round can find modes outside of (-2, 2). In up to SCOUTED dimensions, climbs also start where scouts
    find further modes. Up to DENSE dimensions, the covariance is dense. Above it, the climbs have independent
    coordinates, and the directions of largest correlation are added at the end.

    Hierarchical sites of a NumPyro model are tried centred, non-centred and half-way; each takes what has the highest
    ELBO.
    """

    starts: Annotated[int, "Climbs from points in (-2, 2), and as many again from a wider region."] = 4
    iterations: Annotated[int, "Largest number of updates per climb."] = 40
    batch: Annotated[int | None, "Rows of data for the climbs, if the target has more; none uses all."] = None
    curved: Annotated[bool, "Whether the trained frame may bend; without it, a Gaussian family stays Gaussian."] = True

    def __post_init__(self) -> None:
        check_settings(self, "pilot")
        require(self.starts >= 1, f"pilot.starts must be at least 1, not {self.starts}")
        require(self.iterations >= 1, f"pilot.iterations must be at least 1, not {self.iterations}")
        require(self.batch is None or self.batch >= 1, f"pilot.batch must be at least 1, or none, not {self.batch}")

    def look(self, target: Target) -> Target:
        check_shape(target)
        in_memory = not hasattr(target, "feed")
        require(in_memory, "this pilot needs all rows in memory, but they are read from disk: set pilot=laplace")
        return self.find(target, derived(np.zeros(2, np.uint32), 0)).framed

    def find(self, target: Target, words: Words) -> Found:
        """Find the Gaussian.

        Args:
            target: the target.
            words: the seed (see `civi.inference.seeds`).
        """
        search = self.search(target, words)
        best, degrees, climbs = search.run(self.iterations)
        if not np.isfinite(best.elbo):
            raise TargetError(
                f"the log density is not finite around any of the {self.starts} points in (-2, 2) where the pilot "
                "starts: shift or scale z so that the posterior is near 0, and give every parameter a proper prior"
            )
        return search.settle(target, best, degrees, climbs)

    def template(self, target: Target) -> Framed:
        """What `find` returns for this target, with shapes in place of all arrays."""
        dim = target.dim

        def framed(target: Target) -> Framed:
            vector, columns = jnp.zeros(dim), jnp.zeros((dim, RANK if dim > DENSE else dim))
            low_rank = LowRankFrame(vector, vector, columns, columns[0])
            curved = CurvedFrame(vector, columns, vector[0], TriangularMap.identity(dim))
            frame: Any = low_rank.adaptive() if dim > DENSE else curved.adaptive(self.curved)
            return Framed(target, frame, jnp.zeros(()), vector)

        return shapes_of(framed, target)

    def search(self, target: Target, words: Words) -> Search:
        """The search of `find`, before anything is evaluated."""
        dim, rows = target.dim, getattr(target, "rows", 0)
        draws = -(-max(FEWEST_DRAWS, dim + 2 if dim <= DENSE else 0) // MULTIPLE) * MULTIPLE
        starts = self.starts if dim <= 150 else min(3 if sites_of(target) else 2, self.starts)
        streamed = isinstance(target, StreamedModel)
        some = self.batch if self.batch and rows > self.batch and not streamed else None
        slopes = TargetSlopes(target, starts * draws, some, derived(words, 1) if some else None)
        all_rows = slopes if some is None else TargetSlopes(target, draws)
        all_rows = SlopesByPasses(target, draws) if streamed else all_rows
        rng = generator(derived(words, 2))
        scouts = None if streamed or dim > SCOUTED else generator(derived(words, 3))
        return Search(slopes, all_rows, sites_of(target), dim, starts, draws, rng, self.curved, scouts)


@dataclass(frozen=True)
class Search:
    """The rounds of climbs of one pilot; `slopes` may see only a subsample of the rows, `all_rows` sees all."""

    slopes: TargetSlopes
    all_rows: TargetSlopes
    sites: tuple[str, ...]
    dim: int
    starts: int
    draws: int
    rng: np.random.Generator
    curved: bool = True
    scouts: np.random.Generator | None = None

    def run(self, iterations: int) -> tuple[Guess, np.ndarray, list[Guess]]:
        """The best Gaussian, its degrees of centring, and all Gaussians that were found with these degrees."""
        levels = np.resize(LEVELS, self.starts)[:, None]
        patterns = np.broadcast_to(levels, (self.starts, len(self.sites))).copy()
        near = self._climb(self._near(), patterns, iterations)
        degrees, best = self._by_site(patterns[int(np.argmax(near.elbo))], near, patterns, iterations)
        found = [guess for guess, pattern in zip(guesses(near), patterns, strict=True) if (pattern == degrees).all()]
        if not np.isfinite(best.elbo):
            return best, degrees, []
        wide = best.draws(WIDER * self.rng.normal(size=(self.starts, self.dim)))
        found += self._climbed(wide, degrees, iterations)
        best = max([best, *found], key=lambda guess: guess.elbo)
        if self.scouts is not None:
            places = scouted(self.slopes, best, found, degrees, self.scouts)
            for first in range(0, len(places), self.starts):
                found += self._climbed(places[first : first + self.starts], degrees, iterations)
        return max([best, *found], key=lambda guess: guess.elbo), degrees, found

    def corrected(self, best: Guess, degrees: np.ndarray) -> Guess:
        """The Gaussian after a few updates on all rows, if the climbs saw only a subsample."""
        if self.slopes is self.all_rows:
            return best
        start = (Normals if best.factor.ndim == 2 else Diagonals)(best.location[None], best.factor[None])
        return next(guesses(climb(self.all_rows, start, degrees[None], self.rng, self.draws, CORRECTIONS)))

    def settle(self, target: Target, best: Guess, degrees: np.ndarray, climbs: list[Guess]) -> Found:
        """The target in the frame of the best Gaussian, after a correction on all rows if it saw only some.

        A subsample moves all its modes by many standard deviations of the posterior, so the other Gaussians are moved
        along with the best one.
        """
        corrected = self.corrected(best, degrees)
        if corrected is not best:
            climbs = [guess.moved_along(best, corrected) for guess in climbs]
        adaptive, kl = self._frame(corrected, degrees)
        frame = adaptive.frame
        log_p, slope = self.all_rows.at(np.asarray(frame.location)[None], degrees[None])
        seen = at_degrees(target, degrees)
        if isinstance(seen, StreamedModel):
            seen, log_p = seen.moved(frame.location, log_p[0]), np.zeros(1)
            on_sample = replace(self.slopes, target=seen).at(np.asarray(frame.location)[None], degrees[None])[1]
            seen = seen.tilted(slope[0] - on_sample[0])
        framed, modes = Framed(seen, adaptive, on_device(log_p[0]), on_device(slope[0])), None
        if corrected.factor.ndim == 2:
            modes = separate_modes(self.all_rows, climbs, frame, degrees, self.rng)
        return Found(framed, climbs, degrees, kl, modes)

    def _frame(self, guess: Guess, degrees: np.ndarray) -> tuple[Any, float]:
        """The trained frame that starts as this Gaussian q, and KL(q || p)."""
        rows = getattr(self.all_rows.target, "rows", 0) or 1
        count = max(FEWEST_WITH_ROWS, min(DRAWS, EVALUATIONS // rows))
        each = np.repeat(degrees[None], count, axis=0)
        if guess.factor.ndim == 2:
            guess = guess.triangular()
            w = self.rng.normal(size=(count, self.dim))
            log_p, score = self.all_rows.at(guess.draws(w), each)
            return curved_frame(guess, w, score).adaptive(self.curved), kl_of_gaussian(w, log_p)
        frame = low_rank_frame(self.all_rows, guess, degrees)
        w = self.rng.normal(size=(count, self.dim))
        log_p, _ = self.all_rows.at(in_double_precision(frame).outward(w), each)
        return frame.adaptive(), kl_of_gaussian(w, log_p)

    def _climbed(self, starts: np.ndarray, degrees: np.ndarray, iterations: int) -> list[Guess]:
        """The Gaussians of climbs with the same degrees."""
        return list(guesses(self._climb(starts, np.broadcast_to(degrees, (len(starts), len(degrees))), iterations)))

    def _near(self) -> np.ndarray:
        return self.rng.uniform(-2, 2, (self.starts, self.dim))

    def _climb(self, starts: np.ndarray, degrees: np.ndarray, iterations: int) -> Climbed:
        kind = Normals if self.dim <= DENSE else Diagonals
        return climb(self.slopes, kind.around(starts, START), degrees, self.rng, self.draws, iterations)

    def _by_site(
        self, degrees: np.ndarray, near: Climbed, patterns: np.ndarray, iterations: int
    ) -> tuple[np.ndarray, Guess]:
        """The best degrees if each site is changed by itself, and then all sites that gain are changed together."""
        best = max(guesses(near), key=lambda guess: guess.elbo)
        if len(self.sites) < 2 or not np.isfinite(best.elbo):
            return degrees, best
        changes = [(site, level) for site in range(len(degrees)) for level in LEVELS if level != degrees[site]]
        patterns = np.repeat(degrees[None], len(changes), axis=0)
        for pattern, (site, level) in zip(patterns, changes, strict=True):
            pattern[site] = level
        climbs = list(self._tried(patterns, iterations))
        together = degrees.copy()
        for guess, (site, level) in sorted(zip(climbs, changes, strict=True), key=lambda pair: pair[0].elbo):
            together[site] = level if guess.elbo > best.elbo + CLEARLY else together[site]
        if not (patterns == together).all(1).any() and (together != degrees).any():
            patterns = np.concatenate([patterns, together[None]])
            climbs += self._tried(together[None], iterations)
        winner = int(np.argmax([guess.elbo for guess in climbs]))
        return (patterns[winner], climbs[winner]) if climbs[winner].elbo > best.elbo + CLEARLY else (degrees, best)

    def _tried(self, patterns: np.ndarray, iterations: int) -> Iterator[Guess]:
        """The Gaussian that a climb finds with each of these patterns of degrees."""
        for first in range(0, len(patterns), self.starts):
            some = patterns[first : first + self.starts]
            yield from guesses(self._climb(self._near()[: len(some)], some, iterations))


def kl_of_gaussian(w: np.ndarray, log_p: np.ndarray) -> float:
    """KL(q || p) = log E_q[p/q] - E_q[log p/q] of a Gaussian q; infinity if it is not finite. Constants cancel.

    Args:
        w: draws of q in its frame, where it is standard normal (N, D).
        log_p: log p(x, z) at these draws (N,).
    """
    log_ratios = log_p + 0.5 * (w**2).sum(1)
    if not np.isfinite(log_ratios).all():
        return float("inf")
    return float(logsumexp(log_ratios) - np.log(len(log_ratios)) - log_ratios.mean())


def guesses(climbed: Climbed) -> Iterator[Guess]:
    """The Gaussians of a round of climbs."""
    return (Guess(float(elbo), *parts) for elbo, *parts in zip(climbed.elbo, *climbed.normals, strict=True))
