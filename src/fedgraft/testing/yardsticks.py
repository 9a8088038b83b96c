"""Laws of yardsticks, on small generated data of their tasks."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from fedgraft.contracts.abilities.tasks import derived_shards
from fedgraft.contracts.data import Data
from fedgraft.contracts.task import Task
from fedgraft.contracts.yardstick import Yardstick
from fedgraft.errors import require
from fedgraft.methods.data.blocks import Blocks
from fedgraft.methods.data.catalogue import Catalogue
from fedgraft.methods.data.molecules import Molecules
from fedgraft.methods.data.shops import Shops
from fedgraft.methods.data.typed_blocks import TypedBlocks
from fedgraft.methods.models.sage import SAGE
from fedgraft.methods.tasks.link import Link
from fedgraft.methods.yardsticks.global_mean import GlobalMean
from fedgraft.methods.yardsticks.graph_mean import GraphMean
from fedgraft.methods.yardsticks.majority import Majority
from fedgraft.methods.yardsticks.node_majority import NodeMajority
from fedgraft.methods.yardsticks.node_mean import NodeMean
from fedgraft.methods.yardsticks.popularity import Popularity
from fedgraft.methods.yardsticks.typed_majority import TypedMajority
from fedgraft.testing.form import check_form
from fedgraft.testing.laws import Law, Laws, check, expect, require_class
from fedgraft.testing.toy_edges import ToyEdges

Scores = dict[str, float]


@dataclass(frozen=True)
class Bench:
    """The data that yardsticks of a task are tried on.

    Args:
        data: small.
        blind: makes a shard whose test labels say nothing.
        untested: makes a shard without test examples; None where there is no such shard.
        simplest: the yardstick that none may be worse than; None without one.
        better: "lower" or "higher".
        sound: tells whether a score can be.
        task: what derives its own shards of the data's; None where those are read as they are.
    """

    data: Data[Any]
    blind: Callable[[Any], Any]
    untested: Callable[[Any], Any] | None = None
    simplest: Yardstick[Any] | None = None
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


def _labels_blind(shard: Any) -> Any:
    return replace(shard, label=np.where(shard.split == 2, 0, shard.label))


def _ratings_blind(shard: Any) -> Any:
    return replace(shard, rating=np.where(shard.split == 2, np.float32(1), shard.rating).astype(np.float32))


def _nodes_untested(shard: Any) -> Any:
    unknown = -1 if shard.label.dtype.kind == "i" else np.nan
    label, split = (np.where(shard.split == 2, no, each) for no, each in ((unknown, shard.label), (-1, shard.split)))
    return replace(shard, label=label, split=split.astype(np.int8))


def _links_blind(shard: Any) -> Any:
    return replace(shard, edge=np.where(shard.split == 2, np.arange(len(shard.edge)) % 2 == 0, shard.edge))


def _links_untested(shard: Any) -> Any:
    kept = shard.split != 2
    parts = {name: getattr(shard, name)[kept] for name in ("split", "edge", "part")}
    return replace(shard, pairs=shard.pairs[:, kept], **parts)


def _ranking_untested(shard: Any) -> Any:
    kept = shard.split != 2
    return replace(shard, **{name: getattr(shard, name)[kept] for name in ("user", "item", "split")})


def _share(score: float) -> bool:
    return 0 <= score <= 1


def _error(rmse: float) -> bool:
    return 2 < rmse < 20  # of numbers with a standard deviation of 10 and 3 of noise


_SHOPS = Shops(users=150, items=150, categories=6, links=300, count=2500, clients=3)
_ASSAYS = Molecules(clients=3, graphs=120, labels="numbers")
_BLOCKS = Blocks(nodes=300, classes=3, clients=3, features=20)
_NUMBERED = replace(_BLOCKS, labels="numbers")
_TYPED = TypedBlocks(papers=100, classes=3, clients=3, features=20)
_CATALOGUE = Catalogue(users=200, items=100, count=4000, clients=3)
BENCHES = {
    "rating": Bench(_SHOPS, _ratings_blind, None, GlobalMean(), "lower", lambda rmse: _SHOPS.noise * 0.8 < rmse < 2),
    "graph": Bench(Molecules(clients=3, graphs=120), _labels_blind, None, Majority(), sound=_share),
    "graph_regression": Bench(_ASSAYS, _labels_blind, None, GraphMean(), "lower", _error),
    "node": Bench(_BLOCKS, _labels_blind, _nodes_untested, NodeMajority(), sound=_share),
    "node_regression": Bench(_NUMBERED, _labels_blind, _nodes_untested, NodeMean(), "lower", _error),
    "typed_node": Bench(_TYPED, _labels_blind, _nodes_untested, TypedMajority(), sound=_share),
    "link": Bench(_BLOCKS, _links_blind, _links_untested, sound=_share, task=Link(SAGE())),
    "edge": Bench(ToyEdges(), _labels_blind, _nodes_untested, sound=_share),
    "ranking": Bench(_CATALOGUE, _ranking_untested, _ranking_untested, Popularity(), sound=_share),
}
"""{task: what its yardsticks are tried on}."""


@dataclass(frozen=True)
class Case:
    """A yardstick and its bench."""

    yardstick: Yardstick[Any]
    bench: Bench
    _known: dict[int, Scores] = field(default_factory=dict, repr=False)

    def scores(self, seed: int = 0) -> Scores:
        """Return its scores on the bench's data, made once."""
        if seed not in self._known:
            self._known[seed] = self.yardstick.score(self.bench.shards(seed))
        return self._known[seed]


LAWS: Laws[Case] = Laws()


def check_yardstick(cls: type[Yardstick[Any]], /, *, bench: Bench | None = None, **options: Any) -> None:
    """Hold a yardstick with these options to all laws, on a bench that tasks other than those of `BENCHES` need.

    Raises `AssertionError` with the class, the law and what was seen.
    """
    check(laws(cls, bench=bench, **options))


def laws(cls: type[Yardstick[Any]], /, *, bench: Bench | None = None, **options: Any) -> list[Law[Case]]:
    """Return the laws of a yardstick, to be called one by one; arguments as `check_yardstick`."""
    require_class(cls)
    known = BENCHES.get(cls.task) if bench is None else bench
    require(known is not None, "bench", f"given for tasks other than {', '.join(BENCHES)}", cls.task)
    assert known is not None
    return LAWS.held(cls, lambda: Case(cls(**options), known))


@LAWS.every
def is_a_frozen_dataclass_with_a_documented_class(case: Case) -> None:
    """Be a frozen dataclass whose documentation explains every option, with the name of a task."""
    cls = type(case.yardstick)
    check_form(cls, Yardstick)
    expect(isinstance(cls.task, str), "task must be a name", cls.task)


@LAWS.every
def scores_are_finite_repeatable_and_no_better_than_the_noise(case: Case) -> None:
    """Return a score of validation and of test, the same each time, that can be."""
    first, again = case.scores(), case.yardstick.score(case.bench.shards(0))
    expect(first == again, "equal shards must give equal scores", again, first)
    expect({"validation", "test"} <= set(first), "there must be scores of validation and test", set(first))
    sound = all(case.bench.sound(first[split]) for split in ("validation", "test"))
    expect(sound and all(map(math.isfinite, first.values())), "scores must be such as the data allow", first)


@LAWS.every
def labels_of_the_test_change_nothing_but_its_score(case: Case) -> None:
    """Tune on validation alone."""
    blind = [case.bench.blind(shard) for shard in case.bench.shards(0)]
    score, known = case.yardstick.score(blind)["validation"], case.scores()["validation"]
    expect(score == known, "the validation score must not depend on test labels", score, known)


@LAWS.every
def no_yardstick_is_worse_than_the_simplest(case: Case) -> None:
    """Beat the simplest yardstick of the task, or equal it, unless it is a constant, and so as simple itself."""
    if case.bench.simplest is None or case.yardstick.constant:
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
    scores = case.yardstick.score([case.bench.untested(shard) for shard in case.bench.shards(0)])
    known = case.scores()["validation"]
    expect(scores["validation"] == known, "the validation score must not depend on the test", scores, known)
    expect(np.isnan(scores["test"]), "the score of no example must be nan", scores["test"])
