"""Laws of baselines, on small data of their tasks."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np

from fedgraft.contracts.abilities.tasks import derived_shards
from fedgraft.contracts.baseline import Baseline
from fedgraft.contracts.data import Data
from fedgraft.contracts.task import Task
from fedgraft.testing.form import check_form
from fedgraft.testing.laws import Law, Laws, check, expect

Scores = dict[str, float]


@dataclass(frozen=True)
class Bench:
    """The data that baselines of a task are tried on.

    Args:
        data: small.
        blind: makes a shard whose test labels say nothing.
        untested: makes a shard without test examples; None where there is no such shard.
        simplest: the baseline that none may be worse than; None without one.
        better: "lower" or "higher".
        sound: tells whether a score can be.
        task: what derives its own shards of the data's; None where those are read as they are.
    """

    data: Data[Any]
    blind: Callable[[Any], Any]
    untested: Callable[[Any], Any] | None = None
    simplest: Baseline[Any] | None = None
    better: str = "higher"
    sound: Callable[[float], bool] = math.isfinite
    task: Task[Any, Any] | None = None

    @cached_property
    def shards(self) -> Callable[[int], Sequence[Any]]:
        """Shards by seed, loaded once."""

        @cache
        def loaded(seed: int) -> Sequence[Any]:
            shards = self.data.load(seed)
            return shards if self.task is None else derived_shards(self.task, shards, seed)

        return loaded


@dataclass(frozen=True)
class Case:
    """A baseline and its bench."""

    baseline: Baseline[Any]
    bench: Bench
    _known: dict[int, Scores] = field(default_factory=dict, repr=False)

    def scores(self, seed: int = 0) -> Scores:
        """Return its scores on the bench's data, made once."""
        if seed not in self._known:
            self._known[seed] = self.baseline.score(self.bench.shards(seed))
        return self._known[seed]


LAWS: Laws[Case] = Laws()


def check_baseline(cls: type[Baseline[Any]], /, *, bench: Bench, **options: Any) -> None:
    """Hold a baseline with these options to all laws, on a bench of its task.

    Raises `AssertionError` with the class, the law and what was seen.
    """
    check(laws(cls, bench=bench, **options))


def laws(cls: type[Baseline[Any]], /, *, bench: Bench, **options: Any) -> list[Law[Case]]:
    """Return the laws of a baseline, to be called one by one; arguments as `check_baseline`."""
    return LAWS.held(cls, lambda: Case(cls(**options), bench))


@LAWS.every
def is_a_frozen_dataclass_with_a_documented_class(case: Case) -> None:
    """Be a frozen dataclass whose documentation explains every option, with the name of a task."""
    cls = type(case.baseline)
    check_form(cls, Baseline)
    expect(isinstance(cls.task, str), "task must be a name", cls.task)


@LAWS.every
def scores_are_finite_repeatable_and_no_better_than_the_noise(case: Case) -> None:
    """Return a score of validation and of test, the same each time, that can be."""
    first, again = case.scores(), case.baseline.score(case.bench.shards(0))
    expect(first == again, "equal shards must give equal scores", again, first)
    expect({"validation", "test"} <= set(first), "there must be scores of validation and test", set(first))
    sound = all(case.bench.sound(first[split]) for split in ("validation", "test"))
    expect(sound and all(map(math.isfinite, first.values())), "scores must be such as the data allow", first)


@LAWS.every
def labels_of_the_test_change_nothing_but_its_score(case: Case) -> None:
    """Tune on validation alone."""
    blind = [case.bench.blind(shard) for shard in case.bench.shards(0)]
    score, known = case.baseline.score(blind)["validation"], case.scores()["validation"]
    expect(score == known, "the validation score must not depend on test labels", score, known)


@LAWS.every
def no_baseline_is_worse_than_the_simplest(case: Case) -> None:
    """Beat the simplest baseline of the task, or equal it, unless it is a constant, and so as simple itself."""
    if case.bench.simplest is None or case.baseline.constant:
        return
    least = case.bench.simplest.score(case.bench.shards(1))["test"]
    score = case.scores(1)["test"]
    held = score <= least if case.bench.better == "lower" else score >= least
    expect(held, f"the test score must be no worse than {least:.4g}", score)


@LAWS.every
def examples_in_no_split_are_not_scored(case: Case) -> None:
    """Score validation as before where there is no test, and give the test no score."""
    if case.bench.untested is None:
        return
    scores = case.baseline.score([case.bench.untested(shard) for shard in case.bench.shards(0)])
    known = case.scores()["validation"]
    expect(scores["validation"] == known, "the validation score must not depend on the test", scores, known)
    expect(np.isnan(scores["test"]), "the score of no example must be nan", scores["test"])
