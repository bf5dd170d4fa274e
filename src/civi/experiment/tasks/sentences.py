"""Autoencoders of text as tasks: judged by the importance-weighted likelihood and the perplexity of test sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from civi.experiment.tasks.base import Advance, Draws, Judged, Task

if TYPE_CHECKING:
    from civi.experiment.data.text import TextData

WIDTHS = (10, 15, 20, 25, 30, 40, 60, 81)
ALL_DRAWS, FEW_SENTENCES, FEW_DRAWS, TOGETHER = 10, 320, 5, 32
GLANCE_SENTENCES, GLANCE_DRAWS = 64, 5
SHOWN, SHOWN_DRAWS, SHOWN_WORDS = 16, 1000, 30


def sentences(name: str, summary: str, loader: str) -> Task:
    """An autoencoder of a text of `civi.experiment.data.text`."""

    @cache
    def load() -> TextData:
        from civi.experiment.data import text

        return getattr(text, loader)()

    def make() -> Any:
        from civi.experiment.data.text import UNKNOWN, buckets
        from civi.problem.autoencoder import Autoencoder
        from civi.problem.sentences import Sentences

        data = load()
        train, words = data.train, data.vocabulary
        rows = [rows for _, rows in buckets(train, [*WIDTHS, max(train.words.shape[1], WIDTHS[-1] + 1)])]
        return Autoencoder(Sentences.bucketed(train.words, train.lengths, rows, len(words), words.index(UNKNOWN)))

    return SentenceTask(name, summary, make, rank_by="test_neg_log_lik", beside="test_perplexity", load=load)


@dataclass(frozen=True)
class SentenceTask(Task):
    """`load` gives the text. All test sentences are judged by a run, a random part of them in a comparison."""

    load: Callable[[], TextData] = field(kw_only=True)

    def judge(self, model: Any, keys: Any, advance: Advance | None = None) -> Judged:
        import numpy as np

        from civi.experiment.data.text import unigram_perplexity
        from civi.inference.diagnose.autoencoder import latents, scores
        from civi.inference.diagnose.divergence import mean_and_se

        count, draws = (len(self.load().test.lengths), ALL_DRAWS) if advance else (FEW_SENTENCES, FEW_DRAWS)
        chosen = self._some(count)
        found = scores(model, chosen, keys[0], draws, together=TOGETHER, advance=advance)
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
        return Judged(measures, latents(model, self._some(SHOWN), keys[1], SHOWN_DRAWS))

    def glance(self, model: Any) -> Any:
        import jax

        from civi.inference.diagnose.autoencoder import scores_of

        few = self._some(GLANCE_SENTENCES)
        return scores_of(model, few, jax.random.key(0), GLANCE_DRAWS, TOGETHER).neg_elbo.mean()

    def draw(self, model: Any, draws: Draws, folder: Path) -> None:
        import equinox as eqx
        import numpy as np

        from civi.experiment.data.text import decode
        from civi.experiment.report.vae_figure import draw_latents, write_sentences

        z, words = next(iter(draws.values()))[0], self.load().vocabulary
        most_likely = eqx.filter_jit(model.target.decoder.most_likely)
        decoded = np.asarray(most_likely(z.mean(0), SHOWN_WORDS))
        pairs = zip(self._some(SHOWN).words, decoded, strict=True)
        rows = [(decode(row, words), decode(made, words)) for row, made in pairs]
        write_sentences(rows, folder / "sentences.md")
        draw_latents(np.moveaxis(z, 1, 0), folder / "latents.png", "sentence")

    def _some(self, count: int) -> Any:
        """A fixed random part of the test sentences, in the order of their length, so that groups waste no padding."""
        import numpy as np

        from civi.problem.sentences import Words

        test = self.load().test
        rows = np.random.default_rng(0).permutation(len(test.lengths))[:count]
        rows = rows[np.argsort(test.lengths[rows], kind="stable")]
        return Words(test.words[rows], test.words[rows], test.lengths[rows])
