"""The table of moments and intervals against closed forms."""

import numpy as np
import pytest
from scipy import stats

from civi.inference.summary import highest_density_interval, summary

EVENLY = (np.arange(20_000) + 0.5) / 20_000


def test_the_interval_of_a_skewed_distribution_is_the_shortest_one():
    low, high = highest_density_interval(stats.expon.ppf(EVENLY))
    assert (low, high) == pytest.approx((0, -np.log(0.06)), abs=0.01)
    centred = highest_density_interval(np.random.default_rng(0).permutation(stats.norm.ppf(EVENLY)))
    assert centred == pytest.approx(stats.norm.ppf([0.03, 0.97]), abs=0.02)


def test_rows_have_the_names_of_the_entries_and_the_moments_of_all_chains():
    draws = {"tau": np.arange(8.0).reshape(2, 4), "w": np.arange(16, dtype=np.float32).reshape(2, 4, 1, 2)}
    rows = summary(draws)
    assert [row.name for row in rows] == ["tau", "w[0, 0]", "w[0, 1]"]
    assert [row.mean for row in rows] == [3.5, 7.0, 8.0]
    assert rows[0].sd == pytest.approx(np.sqrt(6))
    assert (rows[0].low, rows[0].high) == (0.0, 7.0)
