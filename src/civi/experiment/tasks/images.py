"""Tasks that train an autoencoder of images, evaluated by the importance-weighted likelihood of test images."""

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

from civi.experiment.data import images as image_sets
from civi.experiment.data.images import ImageData
from civi.experiment.report import DrawsBySolver, vae_figure
from civi.experiment.tasks.autoencoder import AutoencoderTask
from civi.experiment.tasks.base import Advance, Effort, Evaluation
from civi.inference.diagnose.autoencoder import latents, scores, scores_of
from civi.inference.diagnose.divergence import mean_and_se
from civi.inference.posterior import AmortisedPosterior
from civi.problem.images import Images

LOADERS: dict[str, Callable[[], ImageData]] = {
    "mnist": cache(lambda: image_sets.static_mnist()),
    "mnist-dynamic": cache(lambda: image_sets.grey_mnist()),
    "fashion-mnist": cache(lambda: image_sets.fashion_mnist()),
}


@dataclass(frozen=True)
class ImageTask(AutoencoderTask):
    """An autoencoder of images. A run is evaluated on all test images.

    Attributes:
        quick_images: number of test images in a comparison.
        curve_images: number of test images for learning curves.
        shown_images: number of test images in figures.
        walks: number of interpolations between two images in figures.
        walk_steps: number of images of each interpolation.
    """

    quick_images: int = 1000
    curve_images: int = 100
    shown_images: int = 16
    walks: int = 5
    walk_steps: int = 12

    def source(self) -> Images:
        return Images(jnp.asarray(self.load().train), self.load().grey)

    def evaluate(
        self, posterior: AmortisedPosterior, keys: Any, effort: Effort, advance: Advance | None = None
    ) -> Evaluation:
        test = self._test_bits()
        few = min(self.quick_images, len(test))
        chosen, count = (test, self.test_draws) if effort == "full" else (_some(test, few), self.quick_draws)
        found = scores(posterior.family, posterior.decoder, chosen, keys[0], count, at_modes=True, advance=advance)
        measures: dict[str, Any] = {"data": self.load().source, "test_images": len(chosen), "test_draws": count}
        for name in ("neg_elbo", "neg_log_lik", "neg_log_lik_by_q"):
            value, se = mean_and_se(getattr(found, name))
            entry = name if name == "neg_elbo" else f"test_{name}"
            measures |= {entry: value, f"{entry}_se": se}
        measures["mixing_share"] = float(np.mean(found.mixing_share))
        shown = jnp.asarray(_some(test, self.shown_images), float)
        draws = latents(posterior.family, shown, keys[1], self.shown_draws)
        return Evaluation(measures, draws, draws)

    def quick_neg_elbo(self, problem: Any) -> Array:
        few = _some(self._test_bits(), self.curve_images)
        return scores_of(problem.family, problem.decoder, few, jax.random.key(0), self.curve_draws).neg_elbo.mean()

    def draw(self, posterior: AmortisedPosterior, draws: DrawsBySolver, folder: Path) -> None:
        (of_solver,) = draws.values()
        z, decoder = of_solver[0], posterior.decoder
        decode = eqx.filter_jit(decoder.mean)  # type: ignore[attr-defined]
        originals = _some(self._test_bits(), self.shown_images)
        vae_figure.draw_reconstructions(originals, np.asarray(decode(z[0])), folder / "reconstructions.png")
        prior = jax.random.normal(jax.random.key(0), (100, posterior.dim))
        vae_figure.draw_grid(np.asarray(decode(prior)), folder / "prior.png", "Decoded draws from the prior")
        vae_figure.draw_walk(np.asarray(decode(self._walks(z[0]))), folder / "walk.png")
        vae_figure.draw_latents(np.moveaxis(z, 1, 0), folder / "latents.png")

    def _test_bits(self) -> np.ndarray:
        """The test images as bits; grey images are binarised with a fixed seed."""
        data = self.load()
        if not data.grey:
            return data.test
        return (np.random.default_rng(0).random(data.test.shape) < data.test / 255).astype(np.uint8)

    def _walks(self, z: np.ndarray) -> np.ndarray:
        """Linear interpolations between the latents of pairs of images: (walk, step, dim)."""
        count = min(self.walks, len(z) // 2)
        at = np.linspace(0, 1, self.walk_steps)[None, :, None]
        return (1 - at) * z[:count, None] + at * z[count : 2 * count, None]


def images(name: str) -> ImageTask:
    """The task of this name."""
    return ImageTask(name, load=LOADERS[name])


def _some(test: np.ndarray, count: int) -> np.ndarray:
    """A fixed random subset: the static test set is not shuffled, and its first images are easier."""
    order = np.random.default_rng(0).permutation(len(test))
    return test[order[:count]]
