"""One fixed colour and dash pattern for each solver, the same in all figures and reports.

Related solvers share a colour and differ in their dashes. The colours can be told apart with all common kinds of colour
blindness, and stand out by at least 3 to 1 from a white and from a dark ground (tests/inference/report/test_looks.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from civi.page import Pen


class Look(NamedTuple):
    """A colour, and lengths of dashes and gaps in pixels (empty for a solid line)."""

    colour: str
    dash: tuple[float, ...] = ()

    @property
    def svg(self) -> Pen:
        """The look for a chart of a page."""
        return {"colour": self.colour, "dash": " ".join(f"{length:g}" for length in self.dash)}

    @property
    def matplotlib(self) -> dict[str, Any]:
        """The look for a line of Matplotlib."""
        return {"color": self.colour, "linestyle": (0, self.dash) if self.dash else "-"}


BLUE, ORANGE, GREEN, BROWN, PINK, VIOLET, GREY = (
    *("#0072b2", "#d96c00", "#00a668", "#996026", "#d96ca3", "#8879f2", "#806064"),
)
DASHED, DOTTED = (7.0, 3.0), (2.0, 3.0)
LOOKS = {
    "nuts": Look(GREY),
    "civi": Look(BLUE),
    "civi-paper": Look(BLUE, DASHED),
    "sivi": Look(ORANGE),
    "uivi": Look(PINK),
    "nmc-adam": Look(GREEN),
    "nmc-rmsprop": Look(GREEN, DASHED),
    "nmc-sgd": Look(GREEN, DOTTED),
    "scgd": Look(BROWN),
    "asc-pg": Look(BROWN, DASHED),
    "cadam": Look(BROWN, DOTTED),
    "mfvb": Look(VIOLET),
    "fullrank": Look(VIOLET, DASHED),
    "bsivi": Look(ORANGE, DASHED),
    "aisivi": Look(ORANGE, DOTTED),
    "iwhvi": Look(PINK, DASHED),
    "divi": Look(PINK, DOTTED),
    "kpg": Look(VIOLET, DOTTED),
    "ksivi": Look(BLUE, DOTTED),
    "sivi-sm": Look(GREY, DASHED),
    "pvi": Look(GREY, DOTTED),
}
REFERENCE = LOOKS["nuts"]
OTHERS = tuple(
    Look(colour, dash) for dash in ((9.0, 3.0, 2.0, 3.0), (4.0, 2.0)) for colour in (PINK, GREEN, ORANGE, BLUE)
)


def look_of(solver: str) -> Look:
    """The look of a solver; one that is not listed has one that depends on its name only."""
    return LOOKS.get(solver) or OTHERS[sum(solver.encode()) % len(OTHERS)]


def looks_of(names: Sequence[str]) -> list[Look]:
    """Looks for several results, such as folders, that may be of the same solver: all different up to 8."""
    cycle = [
        Look(colour, dash) for dash in ((), DASHED, DOTTED) for colour in (BLUE, ORANGE, GREEN, VIOLET, BROWN, PINK)
    ]
    return [cycle[i % len(cycle)] for i in range(len(names))]
