"""Autoencoders of images as tasks: judged by the importance-weighted likelihood of test images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from civi.experiment.tasks.base import Advance, Draws, Judged, Task

if TYPE_CHECKING:
    import numpy as np

    from civi.experiment.data.images import ImageData

ALL_DRAWS, FEW_IMAGES, FEW_DRAWS = 1000, 1000, 200
GLANCE_IMAGES, GLANCE_DRAWS = 100, 100
SHOWN, SHOWN_DRAWS, WALKS, WALK_STEPS = 16, 1000, 5, 12


def images(name: str, summary: str, loader: str) -> Task:
    """An autoencoder of one of the data sets of `civi.experiment.data.images`."""

    @cache
    def load() -> ImageData:
        from civi.experiment.data import images as sets

        return getattr(sets, loader)()

    def make() -> Any:
        import jax.numpy as jnp

        from civi.problem.autoencoder import Autoencoder, Images

        return Autoencoder(Images(jnp.asarray(load().train), load().grey))

    return ImageTask(name, summary, make, rank_by="test_neg_log_lik", beside="neg_elbo", load=load)


@dataclass(frozen=True)
class ImageTask(Task):
    """`load` gives the images. All test images are judged by a run, a random part of them in a comparison."""

    load: Callable[[], ImageData] = field(kw_only=True)

    def judge(self, model: Any, keys: Any, advance: Advance | None = None) -> Judged:
        import jax.numpy as jnp
        import numpy as np

        from civi.inference.diagnose.autoencoder import latents, scores
        from civi.inference.diagnose.divergence import mean_and_se

        test = self._test_bits()
        few = min(FEW_IMAGES, len(test))
        chosen, draws = (test, ALL_DRAWS) if advance else (self._some(test, few), FEW_DRAWS)
        found = scores(model, chosen, keys[0], draws, advance=advance)
        measures: dict[str, Any] = {"data": self.load().source, "test_images": len(chosen), "test_draws": draws}
        for name in ("neg_elbo", "neg_log_lik"):
            value, se = mean_and_se(getattr(found, name))
            entry = name if name == "neg_elbo" else f"test_{name}"
            measures |= {entry: value, f"{entry}_se": se}
        measures["mixing_share"] = float(np.mean(found.mixing_share))
        shown = jnp.asarray(self._some(test, SHOWN), float)
        return Judged(measures, latents(model, shown, keys[1], SHOWN_DRAWS))

    def glance(self, model: Any) -> Any:
        import jax

        from civi.inference.diagnose.autoencoder import scores_of

        few = self._some(self._test_bits(), GLANCE_IMAGES)
        return scores_of(model, few, jax.random.key(0), GLANCE_DRAWS).neg_elbo.mean()

    def draw(self, model: Any, draws: Draws, folder: Path) -> None:
        import equinox as eqx
        import jax
        import numpy as np

        from civi.experiment.report import vae_figure

        z = next(iter(draws.values()))[0]
        decode = eqx.filter_jit(model.target.decoder.mean)
        originals = self._some(self._test_bits(), SHOWN)
        vae_figure.draw_reconstructions(originals, np.asarray(decode(z[0])), folder / "reconstructions.png")
        prior = jax.random.normal(jax.random.key(0), (100, model.target.dim))
        vae_figure.draw_grid(np.asarray(decode(prior)), folder / "prior.png", "Decoded draws of the prior")
        vae_figure.draw_walk(np.asarray(decode(_walks(z[0]))), folder / "walk.png")
        vae_figure.draw_latents(np.moveaxis(z, 1, 0), folder / "latents.png")

    def _test_bits(self) -> np.ndarray:
        """Test images as bits; those of grey values are drawn once, with a fixed seed."""
        import numpy as np

        data = self.load()
        if not data.grey:
            return data.test
        return (np.random.default_rng(0).random(data.test.shape) < data.test / 255).astype(np.uint8)

    def _some(self, test: np.ndarray, count: int) -> np.ndarray:
        """A fixed random part: the static test set is not shuffled, and its first images are easier."""
        import numpy as np

        order = np.random.default_rng(0).permutation(len(test))
        return test[order[:count]]


def _walks(z: np.ndarray) -> np.ndarray:
    """Straight lines from one image's latents to the next one's: (walk, step, dim)."""
    import numpy as np

    count = min(WALKS, len(z) // 2)
    at = np.linspace(0, 1, WALK_STEPS)[None, :, None]
    return (1 - at) * z[:count, None] + at * z[count : 2 * count, None]
