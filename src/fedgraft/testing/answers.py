"""Laws of answers: what is made of a trained model's probabilities."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fedgraft.contracts.abilities.smoothing import Boundary, Means
from fedgraft.contracts.answers import Answered, Answers, Singles, Ways
from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.testing.laws import Law, Laws, check, check_form, expect
from fedgraft.wire.layouts import Arrays

CLASSES, EXAMPLES, HIDDEN = 3, 24, 2


class Ring(Answered):
    """A client's examples in a ring, the first of which has a neighbour elsewhere; `seed` draws labels of the test."""

    def __init__(self, seed: int = 0) -> None:
        self._label = np.arange(EXAMPLES) % CLASSES
        test = self.rows("test")
        self._label[test] = np.random.default_rng(seed).integers(0, CLASSES, len(test))

    @property
    def label(self) -> Indices:
        """Each class as often, but for the test's."""
        return self._label

    def rows(self, split: str) -> Indices:
        """Return every third."""
        return np.arange(SPLITS.index(split), EXAMPLES, 3)

    @property
    def inputs(self) -> Singles:
        """Drawn ones."""
        return np.random.default_rng(1).standard_normal((EXAMPLES, 4)).astype(np.float32)

    @property
    def boundary(self) -> Boundary:
        """One edge."""
        one, none = np.ones(1, np.int64), np.zeros(1, np.int64)
        return Boundary(EXAMPLES, none, one, one, none)

    def mean(self, rows: Singles, means: Means | None, width: int) -> Singles:
        """Return the mean of the two neighbours."""
        return np.asarray((np.roll(rows, 1, 0) + np.roll(rows, -1, 0)) / 2, np.float32)


@dataclass(frozen=True)
class Case:
    """A method, and what it is tried on."""

    method: Answers
    around: Ring = field(default_factory=Ring)

    @cached_property
    def ways(self) -> Ways:
        """Those of three classes."""
        return self.method.ways(CLASSES, HIDDEN)

    @cached_property
    def answers(self) -> Singles:
        """Probabilities, and hidden numbers behind them."""
        g = np.random.default_rng(2)
        shares, hidden = g.dirichlet(np.ones(CLASSES), EXAMPLES), g.uniform(-1, 1, (EXAMPLES, self.ways.hidden))
        return np.concatenate([shares, hidden], axis=1).astype(np.float32)

    @cached_property
    def layer(self) -> Arrays:
        """The layer of this client and another one."""
        return self.ways.layer([self.ways.sums(self.around, self.answers, [])] * 2)

    def answered(self, way: int, around: Ring | None = None) -> Singles:
        """Return what a way answers, where nobody elsewhere has sent anything."""
        return self.ways.answered(around or self.around, self.answers, [], self.layer, way)


LAWS: Laws[Case] = Laws()


def check_answers(cls: type[Answers], /, **options: Any) -> None:
    """Hold a method of answers with these options to all laws.

    Raises `AssertionError` with the class, the law and what was seen.
    """
    check(laws(cls, **options))


def laws(cls: type[Answers], /, **options: Any) -> list[Law[Case]]:
    """Return the laws of a method of answers with these options, to be called one by one."""
    return LAWS.held(cls, lambda: Case(cls(**options)))


@LAWS.every
def is_frozen_and_documented(case: Case) -> None:
    """Be a frozen dataclass whose documentation explains its options."""
    check_form(type(case.method), Answers)


@LAWS.every
def the_first_way_leaves_answers_alone_and_all_others_have_words(case: Case) -> None:
    """Return the model's own probabilities by the first way, which alone has no words."""
    first, *others = case.ways.texts
    expect(first == "" and all(others), "ways must have words", case.ways.texts)
    expect(np.allclose(case.answered(0), case.answers[:, :CLASSES], atol=1e-5), "the first must change nothing")


@LAWS.every
def every_way_returns_probabilities(case: Case) -> None:
    """Return rows that are not negative and add up to 1, and change nothing of what was given."""
    before = case.answers.copy()
    for way, text in enumerate(case.ways.texts):
        shares = case.answered(way)
        expect(shares.shape == (EXAMPLES, CLASSES) and (shares >= 0).all(), f"{text!r} must return shares", shares)
        expect(np.allclose(shares.sum(1), 1, atol=1e-4), f"shares of {text!r} must add up to 1", shares.sum(1))
    expect(np.array_equal(case.answers, before), "answers of the model must stay as they were")


@LAWS.every
def validation_sees_what_is_answered(case: Case) -> None:
    """Judge every way by its own answers to validation examples."""
    rows = case.around.rows("validation")
    label, every = case.ways.validated(case.around, case.answers, [], case.layer)
    expect(np.array_equal(label, case.around.label[rows]), "labels must be those of validation examples", label)
    for way, shares in enumerate(every):
        expect(np.allclose(shares, case.answered(way)[rows], atol=1e-5), "a way must be judged by its answers", way)


@LAWS.every
def labels_of_the_test_change_no_answer(case: Case) -> None:
    """Answer alike whatever the labels of test examples are."""
    for way, text in enumerate(case.ways.texts):
        same = np.array_equal(case.answered(way), case.answered(way, Ring(seed=5)))
        expect(same, f"{text!r} must not depend on labels of the test")


@LAWS.every
def rows_that_leave_are_as_they_are_said_to_be(case: Case) -> None:
    """Send finite rows in [-1, 1] of the boundary's examples, of the width that is said, and say what they tell."""
    rows = case.ways.rows(case.around, case.answers, [])
    wanted = (len(case.around.boundary.nodes), case.ways.row_width) if case.ways.row_width else (0, 0)
    expect(rows.shape == wanted and (np.abs(rows) <= 1).all(), "rows must be as said", rows, wanted)
    expect(bool(case.ways.row_tells) == (case.ways.row_width > 0), "rows must say what they tell", case.ways.row_tells)
