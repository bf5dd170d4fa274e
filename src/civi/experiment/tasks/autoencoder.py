"""What the autoencoders of images and of text have in common as tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from civi.experiment.tasks.base import Task


@dataclass(frozen=True)
class AutoencoderTask(Task):
    """An autoencoder of the data of `load`, judged by the importance-weighted likelihood of its test data.

    The likelihood of a test datum takes `test_draws` draws of z in a run and `quick_draws` in a comparison; learning
    curves take `curve_draws`, and figures show `shown_draws`.
    """

    load: Callable[[], Any] = field(kw_only=True)
    primary_metric: str = "test_neg_log_lik"
    secondary_metric: str = "neg_elbo"
    test_draws: int = 1000
    quick_draws: int = 200
    curve_draws: int = 100
    shown_draws: int = 1000
