"""Every solver has one look; looks can be told apart, also by the colour-blind, on a white and on a dark ground."""

import re
from importlib.resources import files
from itertools import combinations

import numpy as np
import pytest

from civi.inference.report.looks import LOOKS, look_of, looks_of
from civi.solver import SOLVERS

DARK = "#14171a"
# Colour vision without one kind of cones (Machado et al. 2009, severity 1), for linear RGB.
BLINDNESS = {
    "none": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


# On a dark ground page.css mixes every colour with white, in the space Oklab (Ottosson 2020).
LIFTS = re.findall(r"--lift: (\d+)%", files("civi.page").joinpath("assets", "page.css").read_text(encoding="utf-8"))
TO_CONES = np.array([[0.41222, 0.53633, 0.05145], [0.21190, 0.68070, 0.10740], [0.08830, 0.28172, 0.62998]])
TO_OKLAB = np.array([[0.21045, 0.79362, -0.00407], [1.97800, -2.42859, 0.45059], [0.02590, 0.78277, -0.80868]])


def linear(colour: str) -> np.ndarray:
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def lifted(colour: str) -> np.ndarray:
    """Linear RGB of a colour on a dark ground."""
    share = max(map(int, LIFTS)) / 100
    oklab = (1 - share) * TO_OKLAB @ np.cbrt(TO_CONES @ linear(colour)) + share * np.array([1.0, 0.0, 0.0])
    return np.clip(np.linalg.inv(TO_CONES) @ (np.linalg.inv(TO_OKLAB) @ oklab) ** 3, 0, 1)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear RGB."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(rgb, 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(one: str, other: str, kind: str) -> float:
    seen = [lab(np.asarray(BLINDNESS[kind]) @ linear(colour)) for colour in (one, other)]
    return float(np.linalg.norm(seen[0] - seen[1]))


def test_every_solver_has_a_look_of_its_own():
    assert set(LOOKS) == {*SOLVERS, "nuts"}
    assert len(set(LOOKS.values())) == len(LOOKS)
    assert look_of("mine") == look_of("mine")
    assert len(set(looks_of(list("abcdefgh")))) == 8


@pytest.mark.parametrize("solver", LOOKS)
def test_a_colour_stands_out_from_both_grounds(solver):
    for ground in ("#ffffff", DARK):
        light, dark = sorted((luminance(LOOKS[solver].colour), luminance(ground)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3


@pytest.mark.parametrize("kind", BLINDNESS)
def test_lines_with_the_same_dashes_have_colours_that_can_be_told_apart(kind):
    """A difference of 15 in L*a*b* is seen at a glance; red and olive of the same lightness fail for deutan vision."""
    for (one, a), (other, b) in combinations(LOOKS.items(), 2):
        if a.dash == b.dash:
            assert difference(a.colour, b.colour, kind) >= 15, (one, other, kind)
    assert difference("#c04040", "#707020", "deutan") < 15 < difference("#c04040", "#707020", "none")


@pytest.mark.parametrize("kind", BLINDNESS)
def test_lighter_colours_on_a_dark_ground_stand_out_more_and_can_still_be_told_apart(kind):
    assert {"0", str(max(map(int, LIFTS)))} == set(LIFTS)
    seen = {name: np.asarray(BLINDNESS[kind]) @ lifted(look.colour) for name, look in LOOKS.items()}
    for (one, a), (other, b) in combinations(LOOKS.items(), 2):
        if a.dash == b.dash:
            assert np.linalg.norm(lab(seen[one]) - lab(seen[other])) >= 15, (one, other)
    for look in LOOKS.values():
        bright = float(lifted(look.colour) @ [0.2126, 0.7152, 0.0722])
        assert (bright + 0.05) / (luminance(DARK) + 0.05) >= 4.5
