"""Tasks small enough for tests: with fewer samples, synthetic data, or training only."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from civi.experiment.data.images import ImageData
from civi.experiment.data.text import TextData, TextSplit
from civi.experiment.tasks import find_task
from civi.experiment.tasks.base import Evaluation
from civi.experiment.tasks.images import ImageTask
from civi.experiment.tasks.toy import ToyTask

WORDS = ("<pad>", "</s>", "the", "cat", "sat", "mat", "<unk>")


@dataclass(frozen=True)
class Ready:
    """An entry of TASKS that returns a given task."""

    task: Any
    summary: str = "made for a test"

    def make(self, name: str) -> Any:
        assert name == self.task.name
        return self.task


class ToyOnly(ToyTask):
    """A toy task with training, but without metrics."""

    def evaluate(self, *_) -> Evaluation:
        return Evaluation({}, np.zeros((4, 2)), np.zeros((4, 2)))

    def draw(self, *_) -> None:
        return


class ImagesOnly(ImageTask):
    """An image task with training, but without metrics."""

    def evaluate(self, *_) -> Evaluation:
        return Evaluation({}, np.zeros((1, 2, 2, 2)), np.zeros((1, 2, 2, 2)))

    def draw(self, *_) -> None:
        return


def small_toy(name: str, **sizes: int) -> ToyTask:
    """A toy task whose metrics use fewer samples."""
    small = {"outer": 500, "inner": 1000, "quick_outer": 200, "quick_inner": 400}
    return replace(find_task(name), **(small | sizes))


def few_images(grey: bool = False) -> ImageData:
    """12 training and 20 test images of 784 random pixels."""
    rng = np.random.default_rng(0)
    train, test = ((rng.random((count, 784)) < 0.3).astype(np.uint8) for count in (12, 20))
    return ImageData(train * (200 if grey else 1), test * (200 if grey else 1), grey, "a few dots")


def few_sentences() -> TextData:
    """14 training and 18 test sentences of up to 12 random words."""
    rng = np.random.default_rng(0)

    def part(count):
        lengths = rng.integers(2, 13, size=count).astype(np.int32)
        words = rng.integers(2, 6, size=(count, 12)).astype(np.int32)
        at = np.arange(12)
        ends = np.where(at == lengths[:, None] - 1, 1, 0)
        return TextSplit(np.where(at < lengths[:, None] - 1, words, ends), lengths)

    return TextData(part(14), part(3), part(18), WORDS, "a few words")
