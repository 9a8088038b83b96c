"""Laws of aggregation rules."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedgraft.contracts import Aggregation, Update
from fedgraft.testing.laws import Law, Laws, check, check_form, expect, same
from fedgraft.wire.layouts import Arrays

SHAPES = {"weight": (3, 2), "bias": (4,)}
COUNTS = (1, 2, 3, 4, 7, 20)
"""Numbers of updates that rules are tried with."""


@dataclass(frozen=True)
class Case:
    """A rule, and what it makes of updates."""

    rule: Aggregation

    def mean(self, updates: Sequence[Update]) -> Arrays:
        """Return the weighted mean of what the rule returns, as sharing methods have it."""
        result = self.rule.apply(updates)
        return {name: sum(u.weight * u.arrays[name].astype(np.float64) for u in result) for name in SHAPES}  # type: ignore[misc]


LAWS: Laws[Case] = Laws()


def check_aggregation(cls: type[Aggregation], /, **options: Any) -> None:
    """Hold an aggregation rule with these options to all laws.

    Raises `AssertionError` with the class, the law and what was seen.
    """
    check(laws(cls, **options))


def laws(cls: type[Aggregation], /, **options: Any) -> list[Law[Case]]:
    """Return the laws of an aggregation rule with these options, to be called one by one."""
    return LAWS.held(cls, lambda: Case(cls(**options)))


def updates_of(seed: int, count: int, stale: bool = False) -> list[Update]:
    """Return updates of clients 0, 2, 4 ... drawn around one point, with unequal weights."""
    g = np.random.default_rng(seed)
    weights = g.dirichlet(np.ones(count))
    arrays = [
        {name: (1 + 0.1 * g.standard_normal(shape)).astype(np.float32) for name, shape in SHAPES.items()}
        for _ in range(count)
    ]
    ages = g.integers(0, 3, count) if stale else np.zeros(count, int)
    drawn = zip(weights.tolist(), arrays, ages.tolist(), strict=True)
    return [Update(2 * client, weight, each, age) for client, (weight, each, age) in enumerate(drawn)]


@LAWS.every
def is_frozen_and_documented(case: Case) -> None:
    """Be a frozen dataclass whose documentation names source and cost."""
    check_form(type(case.rule), Aggregation, ("Source:", "Differs:", "Cost:"))


@LAWS.every
def returns_updates_of_the_same_clients_with_weights_that_sum_to_one(case: Case) -> None:
    """Return some of the clients, at least one, ascending, and arrays as they were."""
    for count in COUNTS:
        updates = updates_of(count, count, stale=True)
        result = case.rule.apply(updates)
        clients = [update.client for update in result]
        expect(len(result) >= 1, f"something must be left of {count} updates", result)
        expect(clients == sorted({*clients}), "clients must ascend", clients)
        expect({*clients} <= {update.client for update in updates}, "clients must be of those given", clients)
        weights = [update.weight for update in result]
        expect(min(weights) >= 0, "weights must be >= 0", weights)
        np.testing.assert_allclose(sum(weights), 1, rtol=1e-9, err_msg="weights must sum to 1")
        for update in result:
            form = {name: (array.shape, array.dtype) for name, array in update.arrays.items()}
            wanted = {name: (shape, np.dtype(np.float32)) for name, shape in SHAPES.items()}
            expect(form == wanted, "arrays must keep names, shapes and types", form, wanted)


@LAWS.every
def nothing_given_is_mutated_and_equal_updates_give_equal_results(case: Case) -> None:
    """Leave what is given as it is; draw nothing."""
    updates = updates_of(3, 7, stale=True)
    before = copy.deepcopy([update.arrays for update in updates])
    first, again = case.rule.apply(updates), case.rule.apply(updates)
    expect(same([update.arrays for update in updates], before), "a rule must not change an update", updates)
    expect([u.weight for u in first] == [u.weight for u in again], "equal updates must weigh equally", first)
    expect(same([u.arrays for u in first], [u.arrays for u in again]), "equal updates must give equal arrays", first)


@LAWS.every
def one_update_and_equal_updates_are_that_update(case: Case) -> None:
    """Make of one update, and of several equal ones, just that."""
    for count in COUNTS:
        updates = [replace(update, arrays=updates_of(0, 1)[0].arrays) for update in updates_of(1, count)]
        for name, value in case.mean(updates).items():
            np.testing.assert_allclose(value, updates[0].arrays[name], rtol=1e-6, err_msg=f"{name} of {count} updates")


@LAWS.every
def the_result_lies_between_the_updates(case: Case) -> None:
    """Keep each number between the smallest and the largest that was sent."""
    for count in COUNTS:
        updates = updates_of(count + 50, count)
        for name, value in case.mean(updates).items():
            stacked = np.stack([update.arrays[name] for update in updates])
            slack = 1e-6
            held = (value >= stacked.min(axis=0) - slack).all() and (value <= stacked.max(axis=0) + slack).all()
            expect(bool(held), f"{name} must lie between the {count} updates", value)


@LAWS.every
def as_many_liars_are_survived_as_the_rule_says(case: Case) -> None:
    """Stay about as far from honest updates as these are from each other, wherever so many liars are."""
    for count in COUNTS:
        liars = case.rule.survives(count)
        expect(0 <= liars < max(count / 2, 1), f"of {count} clients fewer than half can be survived", liars)
        honest = updates_of(count, count)
        middle = {name: np.mean([each.arrays[name] for each in honest[liars:]], axis=0) for name in SHAPES}
        spread = max(_apart(update.arrays, middle) for update in honest[liars:])
        for far in (0.0, -3.0, 1e4) if liars else ():
            lies = [replace(each, arrays=_times(each.arrays, far)) for each in honest[:liars]]
            away = _apart(case.mean([*lies, *honest[liars:]]), middle)
            # Lopuhaa and Rousseeuw 1991 for the geometric median, of whose bound the others are within.
            most = 2 * (count - liars) / (count - 2 * liars) * spread
            expect(away <= most, f"{liars} of {count} clients whose updates are {far:g} times as long", away, most)


def _times(arrays: Arrays, factor: float) -> Arrays:
    return {name: (array * factor).astype(array.dtype) for name, array in arrays.items()}


def _apart(one: Arrays, other: Arrays) -> float:
    """The Euclidean distance."""
    return float(np.sqrt(sum(np.square(one[name].astype(np.float64) - other[name]).sum() for name in SHAPES)))


@LAWS.every
def the_order_of_names_and_whose_update_is_whose_do_not_matter(case: Case) -> None:
    """Depend on updates, not on who sent them, where all weigh the same."""
    updates = [replace(update, weight=1 / 7) for update in updates_of(9, 7)]
    turned = [replace(update, client=mine.client) for update, mine in zip(updates[::-1], updates, strict=True)]
    result, wanted = case.mean(turned), case.mean(updates)
    for name, value in result.items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-6, atol=1e-7, err_msg=name)
