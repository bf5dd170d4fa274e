"""Tasks that train an autoencoder of text, evaluated by importance-weighted likelihood and test perplexity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from civi.experiment.data import text
from civi.experiment.data.text import UNKNOWN, TextData, buckets, decode, unigram_perplexity
from civi.experiment.report import DrawsBySolver
from civi.experiment.report.vae_figure import draw_latents, write_sentences
from civi.experiment.tasks.autoencoder import AutoencoderTask
from civi.experiment.tasks.base import Advance, Effort, Evaluation
from civi.inference.diagnose.autoencoder import latents, scores, scores_of
from civi.inference.diagnose.divergence import mean_and_se
from civi.inference.posterior import AmortisedPosterior
from civi.problem.sentences import SentenceBatch, SentenceData

WIDTHS = (10, 15, 20, 25, 30, 40, 60, 81)
LOADERS: dict[str, Callable[[], TextData]] = {"ptb": cache(lambda: text.penn_treebank())}


@dataclass(frozen=True)
class SentenceTask(AutoencoderTask):
    """An autoencoder of text. A run is evaluated on all test sentences.

    Attributes:
        quick_sentences: number of test sentences in a comparison.
        curve_sentences: number of test sentences for learning curves.
        together: number of sentences whose likelihood is computed at a time.
        shown_sentences: number of decoded sentences in sentences.md.
        shown_words: largest number of words of a decoded sentence.
    """

    secondary_metric: str = "test_perplexity"
    test_draws: int = 10
    quick_draws: int = 5
    curve_draws: int = 5
    quick_sentences: int = 320
    curve_sentences: int = 64
    together: int = 32
    shown_sentences: int = 16
    shown_words: int = 30

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
        found = scores(*parts, chosen, keys[0], draws, together=self.together, advance=advance)
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
        }
        shown = latents(posterior.family, self._some(self.shown_sentences), keys[1], self.shown_draws)
        return Evaluation(measures, shown, shown)

    def quick_neg_elbo(self, problem: Any) -> Array:
        few, key = self._some(self.curve_sentences), jax.random.key(0)
        return scores_of(problem.family, problem.decoder, few, key, self.curve_draws, self.together).neg_elbo.mean()

    def draw(self, posterior: AmortisedPosterior, draws: DrawsBySolver, folder: Path) -> None:
        (of_solver,) = draws.values()
        z, words = of_solver[0], self.load().vocabulary
        most_likely = eqx.filter_jit(posterior.decoder.most_likely)  # type: ignore[attr-defined]
        decoded = np.asarray(most_likely(z.mean(0), self.shown_words))
        pairs = zip(self._some(self.shown_sentences).words, decoded, strict=True)
        rows = [(decode(row, words), decode(made, words)) for row, made in pairs]
        write_sentences(rows, folder / "sentences.md")
        draw_latents(np.moveaxis(z, 1, 0), folder / "latents.png", "sentence")

    def _some(self, count: int) -> SentenceBatch:
        """A fixed random subset of the test sentences, sorted by length to minimise padding within groups."""
        test = self.load().test
        rows = np.random.default_rng(0).permutation(len(test.lengths))[:count]
        rows = rows[np.argsort(test.lengths[rows], kind="stable")]
        return SentenceBatch(test.words[rows], test.words[rows], test.lengths[rows])


def sentences(name: str) -> SentenceTask:
    """The task of this name."""
    return SentenceTask(name, load=LOADERS[name])
