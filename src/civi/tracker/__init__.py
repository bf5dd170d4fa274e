"""Trackers of the inner mean, which implement `Tracker`, and the pool of outer samples."""

from civi.tracker.bank import Bank
from civi.tracker.base import Auxiliary, Tracked, Tracker
from civi.tracker.none import NoTracker
from civi.tracker.pool import Pool, PoolState
from civi.tracker.ring import Ring
from civi.tracker.smoothing import Extrapolated, Smoothed, Smoothing

TRACKERS: dict[str, type] = {
    "none": NoTracker,
    "smoothed": Smoothed,
    "extrapolated": Extrapolated,
    "ring": Ring,
    "bank": Bank,
}

__all__ = [
    "TRACKERS",
    "Auxiliary",
    "Bank",
    "Extrapolated",
    "NoTracker",
    "Pool",
    "PoolState",
    "Ring",
    "Smoothed",
    "Smoothing",
    "Tracked",
    "Tracker",
]
