"""Settings as data: described, changed by name=value, and refused with a message that helps."""

import json
from dataclasses import dataclass, field

import pytest

from civi.errors import SettingError, require
from civi.settings import describe, differences, override
from civi.progress import flat
from civi.solver import Civi
from civi.tracker import Bank, Extrapolated, Pool, Ring
from civi.update import CiviAdam, FirstOrder, Samples


@dataclass(frozen=True)
class Round:
    radius: float = 1.0


@dataclass(frozen=True)
class Square:
    side: float = 2.0
    tilted: bool = False


@dataclass(frozen=True)
class Part:
    low: int = 1
    high: int = 5

    def __post_init__(self) -> None:
        require(self.low <= self.high, f"low {self.low} is above high {self.high}")


@dataclass(frozen=True)
class Whole:
    count: int = 3
    rate: float = 0.5
    fast: bool = False
    widths: tuple[int, ...] = (50, 50)
    name: str = "plain"
    part: Part = field(default_factory=Part)
    shape: Round | Square = field(default_factory=Round, metadata={"kinds": {"round": Round, "square": Square}})


def test_describe_gives_json_values_with_the_kind_of_a_chosen_part():
    described = describe(Whole(shape=Square(3.0)))
    assert described == {
        "count": 3,
        "rate": 0.5,
        "fast": False,
        "widths": [50, 50],
        "name": "plain",
        "part": {"low": 1, "high": 5},
        "shape": {"kind": "square", "side": 3.0, "tilted": False},
    }
    assert json.loads(json.dumps(described)) == described


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("count=7", Whole(count=7)),
        ("count=-2", Whole(count=-2)),
        ("rate=2", Whole(rate=2.0)),
        ("rate=1e-3", Whole(rate=0.001)),
        ("fast=true", Whole(fast=True)),
        ("fast=True", Whole(fast=True)),
        ("fast=false", Whole()),
        ("widths=20", Whole(widths=(20,))),
        ("widths=20,30,40", Whole(widths=(20, 30, 40))),
        ("widths=", Whole(widths=())),
        ("name=a=b", Whole(name="a=b")),
        (" count = 7 ", Whole(count=7)),
        ("part.low=2", Whole(part=Part(2, 5))),
        ("shape=square", Whole(shape=Square())),
        ("shape.radius=4", Whole(shape=Round(4.0))),
    ],
)
def test_override_parses_the_type_of_the_setting(assignment, expected):
    changed = override(Whole(), [assignment])
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
    assert override(Civi(), ["tracker=ring", "tracker.beta=0.2"][::order]).tracker == Ring(0.2)


def test_a_new_kind_starts_from_its_own_defaults():
    assert override(Whole(shape=Round(8.0)), ["shape=round"]).shape == Round(1.0)
    assert override(Civi(tracker=Bank(steps=77)), ["tracker=extrapolated"]).tracker == Extrapolated()


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["cuont=3"], "unknown setting 'cuont': did you mean 'count'? known: count, fast, name, part, rate, shape, "),
        (["part.hihg=3"], "unknown setting 'part.hihg': did you mean 'part.high'? known: part.high, part.low"),
        (["shape.side=3"], "unknown setting 'shape.side'"),
        (["shape=squrae"], "unknown shape 'squrae': did you mean 'square'? known: round, square"),
        (["zzzzzz=3"], "unknown setting 'zzzzzz': known: count"),
        (["part=3"], "'part' is a group of settings: set one of part.low, part.high"),
        (["count.low=3"], "'count' has no parts: set it as count=value"),
        (["count"], "'count' is not of the form name=value, for example tracker.beta=0.3"),
        (["=3"], "'=3' is not of the form name=value"),
        (["count=many"], "count must be a whole number, not 'many'"),
        (["count=2.5"], "count must be a whole number, not '2.5'"),
        (["rate=fast"], "rate must be a number, not 'fast'"),
        (["fast=1"], "fast must be true or false, not '1'"),
        (["widths=3,x"], "widths must be numbers with commas, not '3,x'"),
        (["shape=square", "shape.side=wide"], "shape.side must be a number, not 'wide'"),
        (["part.low=9"], "low 9 is above high 5"),
    ],
)
def test_errors_name_the_setting_and_the_way_out(assignments, message):
    with pytest.raises(SettingError) as caught:
        override(Whole(), assignments)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("order", [1, -1])
def test_only_the_result_of_all_overrides_must_be_valid(order):
    assert override(Whole(), ["part.low=9", "part.high=12"][::order]).part == Part(9, 12)
    with pytest.raises(SettingError, match=r"all 16 samples of the chunk: set samples\.outer"):
        override(Civi(), ["pool.chunk=16"])
    both = override(Civi(), ["pool.chunk=16", "samples.outer=16"][::order])
    assert (both.pool.chunk, both.samples.outer) == (16, 16)


@pytest.mark.parametrize(
    "solver",
    [
        Civi(),
        Civi(7, Samples(9, 8, 7, 0.8), Pool(90, 30, 2, 0.5, "uniform"), "plain", Ring(0.25), weigh="ratio"),
        Civi(tracker=Extrapolated(0.9, 0.4), update=CiviAdam(2e-4, 1.0, clip=3.0), output="average"),
        Civi(update=FirstOrder("sgd", 0.125, "constant", 2.0)),
    ],
)
def test_described_settings_are_overrides_that_give_the_settings_back(solver):
    assignments = [f"{name}={value}" for name, value in flat(describe(solver))]
    start = Civi(steps=1, tracker=Ring(), update=CiviAdam())
    assert override(start, assignments) == solver
    assert override(start, reversed(assignments)) == solver


def test_differences_lists_each_changed_name_with_both_values():
    old = describe(Whole())
    assert differences(old, describe(Whole())) == []
    new = describe(Whole(count=4, part=Part(2, 5), shape=Square()))
    assert differences(old, new) == [
        "count: 3 -> 4",
        "part.low: 1 -> 2",
        "shape.kind: round -> square",
        "shape.radius: 1.0 -> None",
        "shape.side: None -> 2.0",
        "shape.tilted: None -> False",
    ]
    assert differences({"a": {"b": 1}}, {"a": 2}) == ["a: {'b': 1} -> 2"]
