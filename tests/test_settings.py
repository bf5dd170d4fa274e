"""Settings are described, changed by name=value, checked and listed according to their annotations."""

import json
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import numpy as np
import pytest

from civi.errors import SettingError, require
from civi.settings import Choice, check_settings, describe, differences, listing, override
from civi.solver import CompositionalSolver
from civi.tracker import Bank, Extrapolated, Ring
from civi.update import ByGroup, PerGroup


@dataclass(frozen=True)
class Round:
    radius: Annotated[float, "Distance from the centre."] = 1.0


@dataclass(frozen=True)
class Square:
    side: Annotated[float, "Length of a side."] = 2.0
    tilted: Annotated[bool, "Whether it stands on a corner."] = False


@dataclass(frozen=True)
class Point:
    pass


@dataclass(frozen=True)
class Part:
    low: Annotated[int, "Lower end."] = 1
    high: Annotated[int, "Upper end."] = 5

    def __post_init__(self) -> None:
        require(self.low <= self.high, f"low {self.low} is above high {self.high}")


SHAPES = {"round": Round, "square": Square, "point": Point}
COLOURS = {"red": 1, "green": 2}


@dataclass(frozen=True)
class Whole:
    count: Annotated[int, "How many."] = 3
    most: Annotated[int | None, "At most so many; none: no limit."] = None
    rate: Annotated[float, "How fast."] = 0.5
    limit: Annotated[float | None, "Largest rate; none: no limit."] = 2.0
    fast: Annotated[bool, "Whether to hurry."] = False
    widths: Annotated[tuple[int, ...], "Widths."] = (50, 50)
    stages: Annotated[tuple[int, ...] | None, "Stages; none: one."] = None
    name: Annotated[str, "Its name."] = "plain"
    label: Annotated[str | None, "Its label; none: without."] = None
    order: Annotated[Literal["up", "down"], "Which way."] = "up"
    weight: Annotated[ByGroup, "Weight of each group."] = 0.0
    colour: Annotated[str, Choice(COLOURS), "Its colour."] = "red"
    part: Annotated[Part, "Its part."] = field(default_factory=Part)
    shape: Annotated[Round | Square | Point, Choice(SHAPES), "Its shape."] = field(default_factory=Round)

    def __post_init__(self) -> None:
        check_settings(self, "whole")


def test_describe_gives_json_values_with_the_kind_of_a_chosen_part():
    described = describe(Whole(shape=Square(3.0), weight=PerGroup.of(mixing=0.5, decoder=0.0)))
    assert described == {
        "count": 3,
        "most": None,
        "rate": 0.5,
        "limit": 2.0,
        "fast": False,
        "widths": [50, 50],
        "stages": None,
        "name": "plain",
        "label": None,
        "order": "up",
        "weight": {"mixing": 0.5, "decoder": 0.0},
        "colour": "red",
        "part": {"low": 1, "high": 5},
        "shape": {"kind": "square", "side": 3.0, "tilted": False},
    }
    assert json.loads(json.dumps(described)) == described


def test_numbers_of_numpy_are_described_as_plain_numbers():
    described = describe(Whole(count=np.int64(7), rate=np.float32(0.25)))
    assert (described["count"], described["rate"]) == (7, 0.25)
    assert (type(described["count"]), type(described["rate"])) == (int, float)


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("count=7", {"count": 7}),
        ("count=-2", {"count": -2}),
        ("count=2147483647", {"count": 2**31 - 1}),
        (" count = 7 ", {"count": 7}),
        ("most=7", {"most": 7}),
        ("most=none", {"most": None}),
        ("rate=2", {"rate": 2.0}),
        ("rate=1e-3", {"rate": 0.001}),
        ("limit=none", {"limit": None}),
        ("limit=None", {"limit": None}),
        ("limit=3", {"limit": 3.0}),
        ("fast=true", {"fast": True}),
        ("fast=True", {"fast": True}),
        ("fast=false", {"fast": False}),
        ("widths=20", {"widths": (20,)}),
        ("widths=20, 30,40", {"widths": (20, 30, 40)}),
        ("widths=none", {"widths": ()}),
        ("stages=1,50", {"stages": (1, 50)}),
        ("stages=none", {"stages": None}),
        ("name=a=b", {"name": "a=b"}),
        ("name=none", {"name": "none"}),
        ("label=tall", {"label": "tall"}),
        ("label=none", {"label": None}),
        ("order=down", {"order": "down"}),
        ("weight=0.1", {"weight": 0.1}),
        ("weight=mixing:0.1,decoder:0", {"weight": PerGroup.of(mixing=0.1, decoder=0.0)}),
        ("weight=mixing: 1", {"weight": PerGroup.of(mixing=1.0)}),
        ("colour=green", {"colour": "green"}),
        ("part.low=2", {"part": Part(2, 5)}),
        ("shape=square", {"shape": Square()}),
        ("shape.radius=4", {"shape": Round(4.0)}),
    ],
)
def test_override_parses_by_the_annotation(assignment, expected):
    changed = override(Whole(most=1, stages=(9,), label="old", limit=1.0, fast=True), [assignment])
    expected = replace(Whole(most=1, stages=(9,), label="old", limit=1.0, fast=True), **expected)
    assert changed == expected
    assert [type(value) for value in vars(changed).values()] == [type(value) for value in vars(expected).values()]


def test_override_leaves_the_original_alone_and_takes_the_last_of_two():
    original = Whole()
    assert override(original, ["part.low=2", "part.low=3", "count=9"]) == Whole(count=9, part=Part(3, 5))
    assert original == Whole()
    assert override(original, []) == original


@pytest.mark.parametrize("order", [1, -1])
def test_a_kind_and_its_fields_may_be_given_in_either_order(order):
    chosen = override(Whole(), ["shape=square", "shape.side=9", "shape.tilted=true"][::order])
    assert chosen.shape == Square(9.0, True)
    assert override(CompositionalSolver(), ["tracker=ring", "tracker.beta=0.2"][::order]).tracker == Ring(0.2)


def test_a_new_kind_starts_from_its_own_defaults():
    assert override(Whole(shape=Round(8.0)), ["shape=round"]).shape == Round(1.0)
    assert override(CompositionalSolver(tracker=Bank(77)), ["tracker=extrapolated"]).tracker == Extrapolated()


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (
            ["cuont=3"],
            "unknown setting 'cuont': did you mean 'count'? known: colour, count, fast, label, limit, most, ",
        ),
        (["part.hihg=3"], "unknown setting 'part.hihg': did you mean 'part.high'? known: part.high, part.low"),
        (["shape.side=3"], "unknown setting 'shape.side': did you mean 'shape.radius'? known: shape.radius"),
        (["shape=point", "shape.side=3"], "unknown setting 'shape.side': the chosen shape has no settings"),
        (["shape=squrae"], "unknown shape 'squrae': did you mean 'square'? known: point, round, square"),
        (["colour=gren"], "unknown colour 'gren': did you mean 'green'? known: green, red"),
        (["zzzzzz=3"], "unknown setting 'zzzzzz': known: colour, count"),
        (["part=3"], "'part' is a group of settings: set one of part.low, part.high"),
        (["count.low=3"], "'count' has no settings below it: set it with count=value"),
        (["weight.mixing=3"], "'weight' has no settings below it: set it with weight=value"),
        (["count"], "'count' is not of the form name=value, for example tracker.beta=0.3"),
        (["=3"], "'=3' is not of the form name=value"),
        (["count=many"], "count must be a whole number, not 'many'"),
        (["count=2.5"], "count must be a whole number, not '2.5'"),
        (["count=none"], "count must be a whole number, not 'none'"),
        (["count=2147483648"], "count must be at most 2147483647, not '2147483648'"),
        (["count=-3000000000"], "count must be at least -2147483647, not '-3000000000'"),
        (["most=3000000000"], "most must be at most 2147483647, not '3000000000'"),
        (["widths=1,3000000000"], "widths must be at most 2147483647, not '1,3000000000'"),
        (["most=x"], "most must be a whole number or none, not 'x'"),
        (["most=1.5"], "most must be a whole number or none, not '1.5'"),
        (["rate=fast"], "rate must be a number, not 'fast'"),
        (["rate="], "rate must be a number, not ''"),
        (["rate=none"], "rate must be a number, not 'none'"),
        (["rate=nan"], "rate must be finite, not 'nan'"),
        (["limit=-inf"], "limit must be finite, not '-inf'"),
        (["limit=x"], "limit must be a number or none, not 'x'"),
        (["fast=1"], "fast must be true or false, not '1'"),
        (["widths=3,x"], "widths must be comma-separated whole numbers, not '3,x'"),
        (["widths=3,"], "widths must be comma-separated whole numbers, not '3,'"),
        (["stages=3;4"], "stages must be comma-separated whole numbers or none, not '3;4'"),
        (["order=left"], "order must be one of up, down, not 'left'"),
        (["weight=x"], "weight must be a number or numbers by group such as mixing:0.1,decoder:0, not 'x'"),
        (["weight=mixing:0.1,mixing:0.2"], "weight must be a number or numbers by group such as "),
        (["weight=mixing:0.1,decoder"], "weight must be a number or numbers by group such as "),
        (["weight=:0.1"], "weight must be a number or numbers by group such as "),
        (["weight=mixing:nan"], "weight must be finite, not 'mixing:nan'"),
        (["shape=square", "shape.side=wide"], "shape.side must be a number, not 'wide'"),
        (["part.low=9"], "low 9 is above high 5"),
    ],
)
def test_errors_name_the_setting_and_the_way_out(assignments, message):
    with pytest.raises(SettingError) as caught:
        override(Whole(), assignments)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": 2.0}, "whole.count must be a whole number, not 2.0"),
        ({"count": True}, "whole.count must be a whole number, not True"),
        ({"count": None}, "whole.count must be a whole number, not none"),
        ({"count": 2**31}, "whole.count must be at most 2147483647, not 2147483648"),
        ({"most": "x"}, "whole.most must be a whole number or none, not 'x'"),
        ({"rate": "0.5"}, "whole.rate must be a number, not '0.5'"),
        ({"rate": False}, "whole.rate must be a number, not False"),
        ({"rate": float("inf")}, "whole.rate must be finite, not inf"),
        ({"fast": 1}, "whole.fast must be true or false, not 1"),
        ({"widths": [3, 4]}, "whole.widths must be comma-separated whole numbers (a tuple), not [3, 4]"),
        ({"widths": (3, 0.5)}, "whole.widths must be comma-separated whole numbers, not (3, 0.5)"),
        ({"name": None}, "whole.name must be a text, not none"),
        ({"order": "left"}, "whole.order must be one of up, down, not 'left'"),
        ({"weight": {"mixing": 1.0}}, "whole.weight must be a number or numbers by group such as mixing:0.1,decoder:0"),
        ({"weight": PerGroup.of(mixing=float("nan"))}, "whole.weight must be finite, not PerGroup"),
        ({"colour": "gren"}, "unknown colour 'gren': did you mean 'green'? known: green, red"),
        ({"colour": 1}, "whole.colour must be one of red, green, not 1"),
        ({"part": 3}, "whole.part must be a Part, not 3"),
        ({"shape": "square"}, "whole.shape must be one of round, square, point, not 'square'"),
    ],
)
def test_values_given_from_python_are_checked_against_the_annotation(values, message):
    with pytest.raises(SettingError) as caught:
        Whole(**values)
    assert str(caught.value).startswith(message)


def test_a_whole_number_will_do_for_a_number():
    assert Whole(rate=2, weight=1).rate == 2


@pytest.mark.parametrize("order", [1, -1])
def test_only_the_result_of_all_overrides_must_be_valid(order):
    assert override(Whole(), ["part.low=9", "part.high=12"][::order]).part == Part(9, 12)
    with pytest.raises(SettingError, match=r"uses the whole chunk: set samples\.outer to pool\.chunk \(16\)"):
        override(CompositionalSolver(), ["pool.chunk=16"])
    both = override(CompositionalSolver(), ["pool.chunk=16", "samples.outer=16"][::order])
    assert (both.pool.chunk, both.samples.outer) == (16, 16)


def test_differences_lists_each_changed_name_with_both_values():
    old = describe(Whole())
    assert differences(old, describe(Whole())) == []
    new = describe(Whole(count=4, most=2, part=Part(2, 5), shape=Square()))
    assert differences(old, new) == [
        "count: 3 -> 4",
        "most: None -> 2",
        "part.low: 1 -> 2",
        "shape.kind: round -> square",
        "shape.radius: 1.0 -> None",
        "shape.side: None -> 2.0",
        "shape.tilted: None -> False",
    ]
    assert differences({"a": {"b": 1}}, {"a": 2}) == ["a: {'b': 1} -> 2"]


def test_listing_has_the_name_type_value_and_meaning_of_every_setting():
    rows = listing(Whole(weight=PerGroup.of(mixing=0.5, decoder=0.0), shape=Square()), "whole.")
    assert rows[:2] == [
        ("whole.count", "a whole number", "3", "How many."),
        ("whole.most", "a whole number or none", "none", "At most so many; none: no limit."),
    ]
    assert [(row.name, row.type, row.value) for row in rows[4:7]] == [
        ("whole.fast", "true or false", "false"),
        ("whole.widths", "comma-separated whole numbers", "50,50"),
        ("whole.stages", "comma-separated whole numbers or none", "none"),
    ]
    assert rows[10].value == "mixing:0.5,decoder:0.0"
    assert rows[11] == ("whole.colour", "one of red, green", "red", "Its colour.")
    assert [row.name for row in rows[12:]] == [
        "whole.part.low",
        "whole.part.high",
        "whole.shape",
        "whole.shape.side",
        "whole.shape.tilted",
    ]
    assert rows[14] == ("whole.shape", "one of round, square, point", "square", "Its shape.")
