"""Small runs of each task, what was said in them, and stored ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from fedgraft.contracts import Runtime
from fedgraft.engine.plan import Plan
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.errors import Interrupted
from fedgraft.experiment.job import Job, load
from fedgraft.experiment.running.runner import execute
from fedgraft.testing.runs import Around, Reply, here, play

FREE: Final[dict[str, Any]] = {"rounds": 2, "baselines": [], "runtime.workers": 0}
RATINGS: Final[dict[str, Any]] = {
    "data.users": 60,
    "data.items": 80,
    "data.categories": 4,
    "data.links": 200,
    "data.count": 600,
    "data.clients": 3,
}
NODES: Final[dict[str, Any]] = {
    "data.name": "blocks",
    "data.nodes": 90,
    "data.clients": 3,
    "data.degree": 6.0,
    "model.hidden": 8,
}
GRAPHS: Final[dict[str, Any]] = {"data.name": "molecules", "data.clients": 4, "data.graphs": 20, "model.hidden": 8}
RECIPES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "graft_node": ("graft_node", NODES),
    "links": ("links", {**NODES, "task.width": 8}),
    "fedais": ("fedais", NODES),
    "fedais, scored at clients": ("fedais", {**NODES, "evaluation.at": "clients"}),
    "fedacs": ("fedacs", RATINGS),
    "fedacs, scored at clients": ("fedacs", {**RATINGS, "evaluation.at": "clients"}),
    "graft_rating": ("graft_rating", RATINGS),
    "graft_graph": ("graft_graph", GRAPHS),
    "cefgl": ("cefgl", GRAPHS),
    "rafhgl": ("rafhgl", {"data.name": "typed_blocks", "data.clients": 3}),
    "fedgcn": ("fedgcn", NODES),
    "power of choice, low rank": (
        "fedacs",
        {**RATINGS, "selector.name": "power_of_choice", "downlink": "low_rank", "data.clients": 4},
    ),
    "sparse": ("plain_gin", {**GRAPHS, "codec": {"name": "sparse", "share": 0.1}}),
    "fedsage_plus": ("fedsage_plus", NODES),
}
"""{name: recipe and options}, the quickest first: tasks, codecs, selectors and ways to score."""


def experiment(name: str, **options: Any) -> Job:
    """Load one of `RECIPES`, with further options, of which "__" stands for a dot."""
    recipe, changes = RECIPES[name]
    return load(recipe, {**FREE, **changes, **{key.replace("__", "."): value for key, value in options.items()}})


def arguments(name: str, **options: Any) -> list[str]:
    """The same as arguments of `fedgraft run`."""
    recipe, changes = RECIPES[name]
    said = {**FREE, **changes, **{key.replace("__", "."): value for key, value in options.items()}}
    return [recipe, *(f"{key}={value!r}" for key, value in said.items())]


class Listening(Around):
    """A runtime that keeps what is asked and answered, also where the experimenter measures."""

    def __init__(self, inner: Runtime, plan: Plan) -> None:
        super().__init__(inner, plan)
        self.requests: list[bytes] = []
        self.scored: list[bytes] = []
        self.replies: list[bytes] = []

    def exchange(
        self, requests: Mapping[int, bytes], limits: Mapping[int, int], deadline_seconds: float | None
    ) -> dict[int, Reply]:
        """Exchange messages, and keep them."""
        return self._kept(requests, super().exchange(requests, limits, deadline_seconds))

    def measure(
        self, requests: Mapping[int, bytes], models: Mapping[int, bytes], deadline_seconds: float | None
    ) -> dict[int, Reply]:
        """Measure, and keep the messages."""
        self.scored += models.values()
        return self._kept(requests, super().measure(requests, models, deadline_seconds))

    def _kept(self, requests: Mapping[int, bytes], replies: dict[int, Reply]) -> dict[int, Reply]:
        self.requests += requests.values()
        self.replies += [reply for reply in replies.values() if isinstance(reply, bytes)]
        return replies


@dataclass(frozen=True)
class Conversation:
    """An experiment with its shards, what was said in its run, what clients remember after it, and bytes charged."""

    experiment: Job
    shards: Sequence[Any]
    heard: Listening
    memories: dict[int, bytes]
    charged: int

    @property
    def plan(self) -> Plan:
        """What both ends agreed on."""
        return self.experiment.plan

    @cached_property
    def reply_names(self) -> dict[str, tuple[str, ...]]:
        """{kind: names of the scalars in a reply}."""
        return Protocol.of(self.plan).reply_names


@cache
def conversation(name: str) -> Conversation:
    """Run one of `RECIPES` without any attack."""
    made, heard = experiment(name), []

    def make(plan: Plan, shards: Sequence[Any]) -> Runtime:
        heard.append(Listening(here(plan, shards), plan))
        return heard[0]

    played, shards = play(made, make), made.shards()
    charged = played.charged["down"] + played.charged["up"]
    return Conversation(made.fitted(shards), shards, heard[0], played.memories, charged)


class _Stops:
    """Ends a run after a round, as Ctrl-C would."""

    def __init__(self, round: int) -> None:
        self.round = round

    def after_round(self, state: Any, row: Any) -> None:
        if row.round == self.round:
            raise Interrupted("enough")


def store(name: str, folder: Path, stop: int = 0, **options: Any) -> None:
    """Run one of `RECIPES` in a folder, to its end or as far as the round `stop`."""
    made = experiment(name, checkpoint__every_seconds=0, **options)
    try:
        execute(made, folder, _Stops(stop) if stop else None)
    except Interrupted:
        return
