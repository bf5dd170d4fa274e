"""Tasks that train an autoencoder of text, evaluated by importance-weighted likelihood and test perplexity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from civi.experiment.data import text
from civi.experiment.data.text import UNKNOWN, TextData, buckets, decode, unigram_perplexity
from civi.experiment.report import DrawsBySolver
from civi.experiment.report.sentences import Sentences, write_sentences
from civi.experiment.report.vae_figure import draw_latents
from civi.experiment.tasks.autoencoder import AutoencoderTask
from civi.experiment.tasks.base import Advance, Effort, Evaluation
from civi.inference.diagnose.autoencoder import latents, scores, scores_of
from civi.inference.diagnose.divergence import mean_and_se
from civi.inference.posterior import AmortisedPosterior
from civi.problem.sentences import SentenceBatch, SentenceData

WIDTHS = (*range(4, 42, 2), 45, 50, 60, 81)
ACTIVE = 0.01
LOADERS: dict[str, Callable[[], TextData]] = {"ptb": cache(lambda: text.penn_treebank())}


@dataclass(frozen=True)
class SentenceTask(AutoencoderTask):
    """An autoencoder of text. A run is evaluated on all test sentences.

    Attributes:
        quick_sentences: number of test sentences in a comparison.
        curve_sentences: number of test sentences for learning curves.
        together: number of pairs of a sentence and a draw whose likelihood is computed at a time.
        shown_sentences: number of test sentences that are shown with their reconstructions.
        shown_words: largest number of words of a decoded sentence.
        decoded_draws: number of posterior draws of a sentence that are decoded.
        walks: number of interpolations between two sentences.
        walk_steps: number of sentences of each interpolation.
        prior_sentences: number of sentences that are decoded from draws of the prior.
    """

    secondary_metric: str = "test_perplexity"
    test_draws: int = 10
    quick_draws: int = 5
    curve_draws: int = 5
    quick_sentences: int = 320
    curve_sentences: int = 64
    together: int = 320
    shown_sentences: int = 16
    shown_words: int = 30
    decoded_draws: int = 3
    walks: int = 4
    walk_steps: int = 5
    prior_sentences: int = 8

    def source(self) -> SentenceData:
        data = self.load()
        train, words = data.train, data.vocabulary
        rows = [rows for _, rows in buckets(train, [*WIDTHS, max(train.words.shape[1], WIDTHS[-1] + 1)])]
        return SentenceData.bucketed(train.words, train.lengths, rows, len(words), words.index(UNKNOWN))

    def evaluate(
        self, posterior: AmortisedPosterior, keys: Any, effort: Effort, advance: Advance | None = None
    ) -> Evaluation:
        every = len(self.load().test.lengths)
        count, draws = (every, self.test_draws) if effort == "full" else (self.quick_sentences, self.quick_draws)
        chosen = self._some(count)
        parts = posterior.family, posterior.decoder
        found = scores(*parts, chosen, keys[0], draws, together=self._sentences_together(draws), advance=advance)
        (neg_elbo, neg_elbo_se), (neg_log_lik, se) = mean_and_se(found.neg_elbo), mean_and_se(found.neg_log_lik)
        measures = {
            "data": self.load().source,
            "test_sentences": len(chosen.length),
            "test_draws": draws,
            "neg_elbo": neg_elbo,
            "neg_elbo_se": neg_elbo_se,
            "test_neg_log_lik": neg_log_lik,
            "test_neg_log_lik_se": se,
            "test_perplexity": float(np.exp(found.neg_log_lik.sum() / chosen.length.sum())),
            "unigram_perplexity": unigram_perplexity(self.load()),
            "mixing_share": float(np.mean(found.mixing_share)),
            "rate": float(np.mean(found.rate)),
            "active_units": int((np.var(found.location, axis=0) > ACTIVE).sum()),
        }
        shown = latents(posterior.family, self._some(self.shown_sentences), keys[1], self.shown_draws)
        return Evaluation(measures, shown, shown)

    def quick_neg_elbo(self, problem: Any) -> Array:
        few, key = self._some(self.curve_sentences), jax.random.key(0)
        together = self._sentences_together(self.curve_draws)
        return scores_of(problem.family, problem.decoder, few, key, self.curve_draws, together).neg_elbo.mean()

    def draw(self, posterior: AmortisedPosterior, draws: DrawsBySolver, folder: Path) -> None:
        (of_solver,) = draws.values()
        z = of_solver[0]
        originals = self._decoded(np.asarray(self._some(self.shown_sentences).words))
        drawn = np.moveaxis(z[: self.decoded_draws], 1, 0)
        prior = np.asarray(jax.random.normal(jax.random.key(0), (self.prior_sentences, posterior.dim)))
        decoded = [[self._most_likely(posterior, group) for group in groups] for groups in (drawn, self._walks(z[0]))]
        found = Sentences(
            [[original, *lines] for original, lines in zip(originals, decoded[0], strict=True)],
            [[first, *lines, last] for first, last, lines in zip(*self._pairs(originals), decoded[1], strict=True)],
            self._most_likely(posterior, prior),
        )
        write_sentences(found, folder)
        draw_latents(np.moveaxis(z, 1, 0), folder / "latents.png", "sentence")

    def _most_likely(self, posterior: AmortisedPosterior, z: np.ndarray) -> list[str]:
        """The sentences of the most likely words for these latents, unknown words apart."""
        unknown = self.load().vocabulary.index(UNKNOWN)
        return self._decoded(np.asarray(_most_likely(posterior.decoder, jnp.asarray(z), self.shown_words, unknown)))

    def _decoded(self, words: np.ndarray) -> list[str]:
        return [decode(row, self.load().vocabulary) for row in words]

    def _pairs(self, values: Any) -> tuple[Any, Any]:
        """The first and the second members of the pairs of shown sentences that interpolations connect."""
        count = min(self.walks, len(values) // 2)
        return values[:count], values[len(values) - count :]

    def _walks(self, z: np.ndarray) -> np.ndarray:
        """Linear interpolations between the latents of pairs of sentences: (pair, step, dim)."""
        first, last = self._pairs(z)
        at = np.linspace(0, 1, self.walk_steps)[None, :, None]
        return (1 - at) * first[:, None] + at * last[:, None]

    def _sentences_together(self, draws: int) -> int:
        """Number of sentences that are measured at a time with this many draws each."""
        return max(1, self.together // draws)

    def _some(self, count: int) -> SentenceBatch:
        """A fixed random subset of the test sentences, sorted by length to minimise padding within groups."""
        test = self.load().test
        rows = np.random.default_rng(0).permutation(len(test.lengths))[:count]
        rows = rows[np.argsort(test.lengths[rows], kind="stable")]
        return SentenceBatch(test.words[rows], test.words[rows], test.lengths[rows])


@eqx.filter_jit
def _most_likely(decoder: Any, z: Array, longest: int, unknown: int) -> Array:
    return decoder.most_likely(z, longest, never=(unknown,))


def sentences(name: str) -> SentenceTask:
    """The task of this name."""
    return SentenceTask(name, load=LOADERS[name])
