import dataclasses
import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from annotated_types import Ge, Gt, Interval, Le, MinLen

from fedgraft.contracts import ranges
from fedgraft.contracts.option_groups import settable
from fedgraft.contracts.ranges import (
    Checked,
    NonNegativeFloat,
    NonNegativeInt,
    OneOf,
    PositiveFloat,
    PositiveInt,
    PositiveProportion,
    ProperFraction,
    Proportion,
    check_ranges,
)
from fedgraft.errors import InputError, require
from fedgraft.experiment.recipes import discovery


def made(hint: Any, value: Any) -> Any:
    cls = dataclasses.make_dataclass("Thing", [("rate", hint)], bases=(Checked,), frozen=True)
    return cls(value)


@pytest.mark.parametrize(
    ("hint", "allowed", "fits", "breaks"),
    [
        (PositiveInt, ">= 1", (1, 7, np.int64(3)), (0, -1, True, math.nan, "2", None)),
        (NonNegativeInt, ">= 0", (0, 3), (-1, math.nan)),
        (PositiveFloat, "> 0", (0.1, 2), (0, -1.0, math.nan, True)),
        (NonNegativeFloat, ">= 0", (0, 0.5), (-0.1, math.nan)),
        (Proportion, "in [0, 1]", (0, 0.5, 1), (-0.1, 1.1, math.nan)),
        (PositiveProportion, "in (0, 1]", (0.5, 1), (0, 1.5)),
        (ProperFraction, "in [0, 1)", (0, 0.5), (1, -0.5)),
        (Annotated[float, Interval(gt=-2.5, lt=1000)], "in (-2.5, 1000)", (-2, 999), (-2.5, 1000)),
        (Annotated[float, Le(3)], "<= 3", (3, -9), (3.5, math.nan)),
        (Annotated[int, Ge(0), "0 = all"], ">= 0 (0 = all)", (0, 2), (-1,)),
        (tuple[PositiveInt, ...], "numbers, each >= 1", ((), (1, 2)), ((0,), 3)),
        (Annotated[tuple[PositiveFloat, ...], MinLen(1)], "at least one number, each > 0", ((1,), [2]), ((), (1, 0))),
        (PositiveInt | None, ">= 1, or left out", (1, None), (0,)),
    ],
)
def test_an_option_lies_in_the_range_that_its_type_says(hint, allowed, fits, breaks):
    for value in fits:
        assert made(hint, value).rate is value
    for value in breaks:
        with pytest.raises(InputError) as told:
            made(hint, value)
        assert str(told.value) == f"Thing.rate must be {allowed}; got {value!r}."


@pytest.mark.parametrize("hint", [Literal["sgd", "adam"], Annotated[str, OneOf({"sgd": 1, "adam": 2})]])
def test_a_word_is_one_of_several(hint):
    assert made(hint, "sgd").rate == "sgd"
    with pytest.raises(InputError) as told:
        made(hint, "adm")
    assert str(told.value) == "Thing.rate must be one of 'sgd', 'adam'; got 'adm'. Did you mean 'adam'?"


def test_numbers_are_finite_and_whole_where_they_count():
    with pytest.raises(InputError, match=r"^Thing\.rate must be finite; got inf\.$"):
        made(PositiveFloat, math.inf)
    with pytest.raises(InputError, match=r"^Thing\.rate must be a whole number; got 3\.0\.$"):
        made(PositiveInt, 3.0)


def test_a_type_without_a_range_takes_all():
    assert made(int, -1).rate == -1
    assert made(Any, None).rate is None
    assert made(Literal[1, 2], 3).rate == 3


@dataclass(frozen=True)
class Written(Checked):
    rate: "PositiveFloat" = 1.0
    least: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.least < self.rate, "Written.least", f"below {self.rate}", self.least)


def test_rules_between_options_come_after_ranges_also_of_types_written_as_texts():
    with pytest.raises(InputError, match=r"Written\.rate must be > 0; got 0\.0"):
        Written(rate=0.0)
    with pytest.raises(InputError, match=r"Written\.least must be below 1\.0; got 2\.0"):
        Written(least=2.0)


def test_a_section_has_a_name_of_its_own():
    thing = made(Annotated[int, Gt(1)], 2)
    object.__setattr__(thing, "rate", 1)
    with pytest.raises(InputError, match=r"^training\.rate must be > 1; got 1\.$"):
        check_ranges(thing, "training")


METHODS = [
    pytest.param(family, name, id=f"{family}-{name}")
    for family in sorted(discovery.CONTRACTS)
    if family != "runtimes"
    for name in sorted({*discovery.names(family)} - {*discovery.presets(family)})
]


@pytest.mark.parametrize(("family", "name"), METHODS)
def test_every_method_checks_the_ranges_of_its_fields(family, name):
    cls = discovery.find(family, name)
    ranged = ranges._ranges(cls)
    for name in settable(cls):
        if name in ranged:
            method = object.__new__(cls)
            for each in dataclasses.fields(cls):
                default = each.default_factory() if callable(each.default_factory) else each.default
                object.__setattr__(method, each.name, default)
            object.__setattr__(method, name, math.nan)
            with pytest.raises(InputError, match=rf"^{cls.__name__}\.{name} must be .*; got nan"):
                method.__post_init__()
