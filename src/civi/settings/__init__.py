"""Settings are frozen dataclasses whose annotations give the type and the meaning of every field.

    steps: Annotated[int, "Number of training steps."] = 3000
    tracker: Annotated[Tracker, Choice(TRACKERS), "How the inner mean is tracked."] = Bank()

The annotations are used to parse `name=value`, to check values given from Python, and to list all settings.
"""

from civi.settings.changes import differences, override
from civi.settings.fields import Choice, Setting, check_settings, describe, listing, names, self_checking

__all__ = [
    "Choice",
    "Setting",
    "check_settings",
    "describe",
    "differences",
    "listing",
    "names",
    "override",
    "self_checking",
]
