"""The base class of the tasks that train an autoencoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from civi.experiment.tasks.base import Evaluation, Task
from civi.inference.posterior import AmortisedPosterior
from civi.inference.report.content import Content, fingerprints


@dataclass(frozen=True)
class AutoencoderTask(Task):
    """An autoencoder, evaluated by the importance-weighted likelihood of test data.

    Attributes:
        load: function that loads the data.
        test_draws: draws of z per test datum in a run.
        quick_draws: draws of z per test datum in a comparison.
        curve_draws: draws of z per datum of the learning curves.
        shown_draws: draws of z that figures show.
    """

    load: Callable[[], Any] = field(kw_only=True)
    primary_metric: str = "test_neg_log_lik"
    secondary_metric: str = "neg_elbo"
    test_draws: int = 1000
    quick_draws: int = 200
    curve_draws: int = 100
    shown_draws: int = 1000

    def content(self, posterior: AmortisedPosterior, evaluation: Evaluation, key: Any) -> Content:
        found, value = posterior.content(key, self.name), evaluation.measures["test_neg_log_lik"]
        headline = f"Test data have -log p = {value:.2f} ± {evaluation.measures['test_neg_log_lik_se']:.2f} nats each."
        latents = np.moveaxis(evaluation.shown[0], 1, 0).astype(np.float32)
        return replace(found, headline=headline, latents=latents, fingerprints=fingerprints(self.load()))
