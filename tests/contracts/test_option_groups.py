"""Options that a method holds in groups, by hand: set, read, changed, stored and checked one by one."""

import pickle
from dataclasses import dataclass, field, fields, replace

import pytest

from fedgraft.contracts.option_groups import Grouped, OptionGroup, settable
from fedgraft.contracts.ranges import Checked, PositiveInt
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery


@dataclass(frozen=True)
class Shape(OptionGroup):
    width: PositiveInt = 1
    height: PositiveInt = 2


@dataclass(frozen=True)
class Picture(Grouped, Checked):
    name: str
    shape: Shape = field(default=Shape(height=3), kw_only=True)
    colour: str = "red"


def test_options_of_a_group_are_set_and_read_by_their_names():
    built = Picture("a", "blue", width=5)
    assert (built.shape, built.width, built.height, built.colour) == (Shape(5, 3), 5, 3, "blue")
    assert replace(built, height=7) == Picture("a", "blue", shape=Shape(5, 7))
    assert pickle.loads(pickle.dumps(built)) == built
    assert [each.name for each in fields(built)] == ["name", "shape", "colour"]


def test_a_recipe_sets_them_one_by_one():
    assert list(settable(Picture)) == ["name", "width", "height", "colour"]
    built = discovery.construct(Picture, "picture", {"name": "a", "height": 4})
    assert discovery.options_of(built) == {"name": "a", "width": 1, "height": 4, "colour": "red"}
    with pytest.raises(InputError, match=r"picture\.width must be >= 1; got 0"):
        discovery.construct(Picture, "picture", {"name": "a", "width": 0})
    with pytest.raises(InputError, match="No picture option named 'shape'"):
        discovery.construct(Picture, "picture", {"name": "a", "shape": Shape()})


def test_what_is_no_option_is_no_attribute():
    with pytest.raises(AttributeError, match="'Picture' has no attribute 'depth'"):
        _ = Picture("a").depth
