"""What the posteriors of an autoencoder lose against log p(x): approximation and amortisation gaps of test images.

    python benchmarks/gaps.py RUN [RUN ...] [--images 50] [--part test] [--longer 1] [--figures DIR]

RUN is the folder of a `civi run mnist`. Its decoder is held fixed. For each of some random images, a diagonal
Gaussian, a full Gaussian and a semi-implicit q are fitted to the posterior of that image alone. log p(x) is a sum over
a fine grid if z is in R^2, and otherwise comes from a large importance sample. All figures are in nats, with the mean
and the standard error over images.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import civi
import gaps_measure as measure
from civi.experiment.tasks.images import LOADERS
from civi.inference.diagnose.autoencoder import scores
from gaps_figures import draw_plane, draw_posteriors

HALF_WIDTH, STEP = 6.0, 0.02
OTHERS, SHOWN, DRAWS = 5000, 1000, 2000
SEMI_IMPLICIT = "semi-implicit"


class Found(NamedTuple):
    """The log evidence and the ELBOs of the chosen images, in nats, and the fits they come from."""

    log_p: np.ndarray
    trust: str
    encoder: np.ndarray
    fits: dict[str, measure.Fitted]

    def elbo(self, name: str) -> np.ndarray:
        """The ELBO of this family on every image."""
        return np.asarray(self.fits[name].elbo)


def chosen_images(count: int, part: str) -> tuple[jax.Array, jax.Array]:
    """A fixed random subset of the test or training images, and OTHERS others, whose latents are starting points."""
    images = getattr(LOADERS["mnist"](), part)
    order = np.random.default_rng(1).permutation(len(images))
    some, others = order[:count], order[count : count + OTHERS]
    return jnp.asarray(images[some], float), jnp.asarray(images[others], float)


def measured(posterior: Any, x_N: jax.Array, others: jax.Array, longer: int = 1) -> Found:
    """Fit every family to every image, from two starts each, and find log p(x).

    The starts of a Gaussian are the moments of the encoder's q, and the likeliest of the latents of other images. The
    semi-implicit q starts at the better full Gaussian, and spread over both Gaussians.
    """
    keys = iter(jax.random.split(jax.random.key(0), 20))
    encoder, decoder = posterior.family, posterior.decoder
    gaussian, mixed = (
        replace(solver, steps=longer * solver.steps) for solver in (measure.GAUSSIAN_FIT, measure.MIXED_FIT)
    )
    near = measure.encoder_frame(encoder, x_N, next(keys))
    starts = near, measure.likeliest(decoder, x_N, encoder.given(others).sample(next(keys), len(others)), near)
    diagonal = [measure.fit(measure.DIAGONAL, gaussian, decoder, x_N, start, next(keys)) for start in starts]
    full = [measure.fit(measure.FULL, gaussian, decoder, x_N, start, next(keys)) for start in starts]
    at_best = measure.gaussian_frame(measure.best(*full))
    close = measure.fit(measure.NEAR, mixed, decoder, x_N, at_best, next(keys))
    spread = measure.fit(measure.WIDE, mixed, decoder, x_N, measure.joined(*full), next(keys))
    fits = {
        "diagonal Gaussian": measure.best(*diagonal),
        "full Gaussian": measure.best(*full),
        SEMI_IMPLICIT: measure.best(close, spread),
    }
    log_p, trust = evidence(fits[SEMI_IMPLICIT], decoder, x_N, next(keys))
    encoded = -scores(encoder, decoder, x_N, next(keys), DRAWS).neg_elbo
    return Found(log_p, trust, encoded, fits)


def evidence(fitted: measure.Fitted, decoder: Any, x_N: jax.Array, key: jax.Array) -> tuple[np.ndarray, str]:
    """log p(x) of every image from two halves, and a sentence that says how far they are apart."""
    if fitted.frame.location.shape[1] == 2:
        grid = measure.plane(HALF_WIDTH, STEP)
        halves = [measure.quadrature(decoder, x_N, z) for z in (grid, grid + STEP / 2)]
        words = f"two interleaved grids of step {STEP} differ by at most {abs(halves[0] - halves[1]).max():.1g}"
    else:
        found = [measure.importance(fitted, decoder, x_N, one) for one in jax.random.split(key)]
        halves = [sample.log_p for sample in found]
        apart, effective = jnp.sqrt(((halves[0] - halves[1]) ** 2).mean()), jnp.median(found[0].effective)
        words = f"two importance samples differ by {apart:.2g} (root mean square over images), median effective share "
        words += f"{effective:.2f}"
    return np.asarray(jnp.logaddexp(*halves) - jnp.log(2)), words


def cell(values: np.ndarray) -> str:
    """Mean and standard error over images."""
    return f"{values.mean():.2f} ± {values.std(ddof=1) / np.sqrt(len(values)):.2f}"


def print_table(name: str, found: Found, seconds: float) -> None:
    """Print the ELBO of every q, and by how much it is below log p(x)."""
    print(f"\n{name}: {len(found.log_p)} images, log p = {cell(found.log_p)}; {found.trust}; {seconds:.0f} CPU s\n")
    print("| q | ELBO | log p - ELBO | its median | above the encoder |\n|---|---|---|---|---|")
    for label in ("encoder", *found.fits):
        elbo = found.encoder if label == "encoder" else found.elbo(label)
        gap = found.log_p - elbo
        print(f"| {label} | {cell(elbo)} | {cell(gap)} | {np.median(gap):.2f} | {cell(elbo - found.encoder)} |")
    gain = found.elbo(SEMI_IMPLICIT) - found.elbo("diagonal Gaussian")
    print(f"\nsemi-implicit above the diagonal Gaussian, both fitted: {cell(gain)}", flush=True)


def main() -> None:
    """Print a table for every run, and draw the latent plane and four posteriors if asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--images", type=int, default=50)
    parser.add_argument("--part", choices=("test", "train"), default="test", help="where the images come from")
    parser.add_argument("--longer", type=int, default=1, help="factor of the steps of every fit")
    parser.add_argument("--figures", type=Path, help="folder for figures of runs in R^2")
    asked = parser.parse_args()
    x_N, others = chosen_images(asked.images, asked.part)
    for run in asked.runs:
        begun = time.process_time()
        posterior = civi.load(run / "posterior.civi")
        found = measured(posterior, x_N, others, asked.longer)
        print_table(run.name, found, time.process_time() - begun)
        if asked.figures and posterior.dim == 2:
            draw_plane(posterior, others[:SHOWN], asked.figures / f"gaps-plane-{run.name}.png")
            gap_N = found.log_p - found.elbo("diagonal Gaussian")
            draw_posteriors(posterior, x_N, gap_N, found.fits, asked.figures / f"gaps-posteriors-{run.name}.png")


if __name__ == "__main__":
    main()
