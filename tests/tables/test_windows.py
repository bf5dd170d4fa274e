"""Windows of rows: batches are unbiased, a function of the seed and the step, the same for any number of readers."""

import jax
import numpy as np
import pytest

from civi.tables.feed import Feed, read_ahead
from civi.tables.windows import Windows

SIZES = np.array([5, 8, 8, 0, 3, 8, 8])


def load(group: int, chosen: np.ndarray) -> np.ndarray:
    """Rows that say which they are."""
    return np.column_stack([np.full(len(chosen), group), chosen]).astype(np.float32)


def windows(seed: int = 0, slots: int = 4, limit: int = 1 << 20) -> Windows:
    return Windows(SIZES, batch=4, width=2, seed=seed, slots=slots, limit=limit)


def value(group: int, row):
    """A value of a row that is larger in small groups."""
    return 50 - 5 * SIZES[group] + row


def estimate(plan: Windows, weight) -> float:
    """The mean of the estimates of the sum of values over all rows, in one epoch of every slot."""

    def mean_in(slot: int, visit: int) -> float:
        return weight(plan, slot, visit) * np.mean(value(plan.group(slot, visit), plan.chosen(slot, visit)))

    return np.mean([np.mean([mean_in(slot, v) for v in range(len(plan.dealt[slot]))]) for slot in range(plan.slots)])


@pytest.mark.parametrize("limit", [1 << 20, 4 * 2 * 4 * 3])
def test_the_sum_over_all_rows_is_unbiased(limit):
    exact = sum(value(group, row) for group, size in enumerate(SIZES) for row in range(size))
    means = [estimate(windows(seed, 4, limit), Windows.weight) for seed in range(30)]
    wrong = [estimate(windows(seed, 4, limit), lambda *_: SIZES.sum()) for seed in range(30)]
    error = np.std(means) / np.sqrt(len(means)) + 1e-6 * exact
    assert abs(np.mean(means) - exact) < 4 * error
    assert abs(np.mean(wrong) - exact) > 8 * error


def test_a_slot_visits_all_its_groups_in_every_epoch():
    plan = windows(slots=2)
    for slot in range(2):
        groups = sorted(plan.dealt[slot])
        for epoch in range(3):
            seen = [plan.group(slot, epoch * len(groups) + k) for k in range(len(groups))]
            assert sorted(seen) == groups
    assert sorted(np.concatenate(plan.dealt)) == [0, 1, 2, 4, 5, 6]


def test_a_resumed_feed_has_the_same_windows():
    with Feed(windows(), load) as whole:
        seen = {done: jax.tree.map(np.asarray, whole.at(done)[0]) for done in range(0, 30)}
        left = [whole.at(29)[1]]
    assert left == [windows().every - 29 % windows().every]
    for done in (0, 7, 23, 29):
        with Feed(windows(), load) as resumed:
            jax.tree.map(np.testing.assert_array_equal, jax.tree.map(np.asarray, resumed.at(done)[0]), seen[done])
    with Feed(windows(), load) as jumping:
        for done in (0, 23, 25, 3, 29):
            np.testing.assert_array_equal(jumping.at(done)[0].rows, seen[done].rows)
    assert any((seen[0].rows != seen[done].rows).any() for done in seen)
    with Feed(windows(seed=1), load) as other:
        assert (np.asarray(other.at(0)[0].rows) != seen[0].rows).any()


def test_each_reader_reads_its_own_groups_and_all_see_the_same_window():
    """Two feeds of two slots each together have the window of one feed."""
    plan, read = windows(), {0: set(), 1: set()}

    class HalfFeed(Feed):
        def __init__(self, half: int) -> None:
            self._half = half
            super().__init__(plan, lambda group, chosen: read[half].add(group) or load(group, chosen))

        def _own_rows(self):
            rows = plan.slots // 2 * plan.depth
            return {None: (self._half * rows, (self._half + 1) * rows)}

    with Feed(plan, load) as one, HalfFeed(0) as first, HalfFeed(1) as second:
        for done in (0, 4, 11, 26):
            halves = [half.at(done)[0].rows for half in (first, second)]
            np.testing.assert_array_equal(np.concatenate(halves), one.at(done)[0].rows)
    assert not read[0] & read[1]
    assert read[0] | read[1] == {0, 1, 2, 4, 5, 6}


def test_reading_ahead_keeps_the_order_and_passes_errors_on():
    assert list(read_ahead([lambda i=i: i for i in range(7)])) == list(range(7))
    with pytest.raises(ZeroDivisionError):
        list(read_ahead([lambda: 1, lambda: 1 // 0]))
