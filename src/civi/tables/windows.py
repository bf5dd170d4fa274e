"""Which rows of a table are in memory at which step: a window of slots, each with rows of one group.

A mini-batch takes random rows of the window. Every few steps, the rows of one slot are exchanged for rows of the slot's
next group. The groups are dealt to the slots at random, and every slot goes through its groups in a new random order
in each epoch. All of it is a function of the seed and the step: a resumed run sees the same rows, and a slot may belong
to any process, which then reads the groups of its own slots only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

SLOTS = 16
WINDOW_BYTES = 1 << 28
DEAL, ORDER, CHOICE = range(3)


@dataclass(frozen=True)
class Windows:
    """The plan of the windows of one training.

    Attributes:
        sizes: number of rows of each group.
        batch: number of rows that a step uses.
        width: number of values in a row.
        seed: the seed.
        slots: number of slots.
        limit: largest size of a window in bytes.
    """

    sizes: np.ndarray
    batch: int
    width: int
    seed: int = 0
    slots: int = SLOTS
    limit: int = WINDOW_BYTES

    @property
    def depth(self) -> int:
        """Number of rows of a slot: those of the largest group, or fewer if the window would be too large."""
        return int(max(1, min(self.sizes.max(), self.limit // (4 * self.width * self.slots))))

    @property
    def every(self) -> int:
        """Number of steps between exchanges: the training uses as many rows as are read from disk."""
        return max(1, -(-int(self.sizes.max()) // self.batch))

    @cached_property
    def dealt(self) -> list[np.ndarray]:
        """The groups of each slot. Empty groups belong to none; fewer groups than slots are shared by several."""
        groups = self._rng(DEAL).permutation(np.flatnonzero(self.sizes))
        if len(groups) < self.slots:
            return [groups[[slot % len(groups)]] for slot in range(self.slots)]
        return [groups[slot :: self.slots] for slot in range(self.slots)]

    def visit(self, slot: int, exchange: int) -> int:
        """How often this slot was exchanged until this exchange. Exchange e >= 1 is of slot (e - 1) mod slots."""
        return (exchange - 1 - slot) // self.slots + 1

    def group(self, slot: int, visit: int) -> int:
        """The group in a slot."""
        groups = self.dealt[slot]
        epoch, place = divmod(visit, len(groups))
        return int(self._rng(ORDER, slot, epoch).permutation(groups)[place])

    def chosen(self, slot: int, visit: int) -> np.ndarray:
        """The rows of the group in a slot: `depth` of them at random, or all, repeated if there are too few."""
        size, rng = int(self.sizes[self.group(slot, visit)]), self._rng(CHOICE, slot, visit)
        rest = np.sort(rng.choice(size, self.depth % size, replace=False))
        return np.concatenate([np.tile(np.arange(size), self.depth // size), rest])

    def weight(self, slot: int, visit: int) -> float:
        """N / n of a row in a slot: the number of all rows over the expected number of rows per row of the window.

        Group g is in the window for a share s_g = sum over its slots of 1 / (slots * groups of the slot) of the time. A
        row of it is therefore drawn with probability s_g / n_g, and weight n_g / s_g makes the sum over a batch of B
        rows, divided by B, an unbiased estimate of the sum over all rows.
        """
        group = self.group(slot, visit)
        share = sum(1 / len(groups) for groups in self.dealt if group in groups) / self.slots
        return float(self.sizes[group] / share)

    def _rng(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *purpose])
