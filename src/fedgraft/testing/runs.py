"""Whole runs for laws: an experiment on toy data, over a runtime that keeps every message."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from fedgraft import wire
from fedgraft.contracts import ClientFailed, Runtime
from fedgraft.engine.plan import Plan
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.loop.stopping import Row
from fedgraft.engine.server.run_state import RunState
from fedgraft.experiment.job import Job, build
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.experiment.running.loops import loop_of
from fedgraft.experiment.running.summary import summarise
from fedgraft.runtimes.workers.in_process import InProcess

SGD = {"optimizer": "sgd", "learning_rate": 0.1, "schedule": "constant"}
Reply = bytes | ClientFailed
MakeRuntime = Callable[[Plan, Sequence[Any]], Runtime]
"""Makes a runtime of what both ends agreed on and every client's shard."""
Tamper = Callable[[str, int, int, Reply], Reply]
"""Replaces a reply: (kind of the request, round, client, reply) -> reply."""


def toy(**sections: Any) -> Job:
    """Return a small experiment: five clients of 20, 40, 60, 20 and 40 training points, everybody trains.

    `sections` are those of the recipe that are others.
    """
    content = {
        "data": {"name": "fedgraft.testing.toy:Lines"},
        "selector": {"name": "all"},
        "rounds": 3,
        "baselines": [],
        "training": SGD,
    }
    return build(Recipe("laws", {**content, **sections}))


def here(plan: Plan, shards: Sequence[Any]) -> Runtime:
    """Make a runtime that serves in this process: what others are compared with."""
    return InProcess(plan, shards, workers=0)


@dataclass(frozen=True)
class Sent:
    """A message on its way: a client's request, or its reply to the request of this kind and round."""

    kind: str
    round: int
    client: int
    message: Reply


def _inside(name: str) -> Any:
    """Return a method that calls the one of this name of the runtime inside."""
    return lambda self, *arguments, **named: getattr(self._inner, name)(*arguments, **named)


class Around(Runtime):
    """A runtime that does as the one inside, which carries the messages of a plan."""

    def __init__(self, inner: Runtime, plan: Plan) -> None:
        self._inner, self._plan = inner, plan

    clients, exchange, measure = _inside("clients"), _inside("exchange"), _inside("measure")
    flops, reasons, memories = _inside("flops"), _inside("reasons"), _inside("memories")
    restore, close = _inside("restore"), _inside("close")


class Recorded(Around):
    """A runtime that keeps every message and may replace replies."""

    def __init__(self, inner: Runtime, plan: Plan, tamper: Tamper | None = None) -> None:
        super().__init__(inner, plan)
        self._tamper = tamper
        self.sent: list[Sent] = []
        self.received: list[Sent] = []

    def exchange(
        self, requests: Mapping[int, bytes], limits: Mapping[int, int], deadline_seconds: float | None
    ) -> dict[int, Reply]:
        """Do as the runtime inside, but for replies that are replaced."""
        replies: dict[int, Reply] = super().exchange(requests, limits, deadline_seconds)
        for client, request in requests.items():
            message = wire.decode(
                request, Protocol.of(self._plan).request_layouts, Protocol.of(self._plan).request_names
            )
            self.sent.append(Sent(message.kind, message.round, client, request))
            if self._tamper is not None:
                replies[client] = self._tamper(message.kind, message.round, client, replies[client])
            self.received.append(Sent(message.kind, message.round, client, replies[client]))
        return replies


@dataclass
class Played:
    """The results of a run: its last state, the digest of all models, a row per round, and its messages.

    `memories` are what clients remember, and under ~client what they were sent before training; `charged` are bytes by
    purpose and direction.
    """

    state: RunState
    memories: dict[int, bytes]
    digest: str
    rows: list[Row] = field(default_factory=list)
    charged: dict[str, int] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    received: list[Sent] = field(default_factory=list)

    @property
    def remembered(self) -> dict[int, bytes]:
        """{client: the bytes of what it remembers}."""
        return {client: memory for client, memory in self.memories.items() if client >= 0}


def play(
    experiment: Job,
    make: MakeRuntime = here,
    tamper: Tamper | None = None,
    deadline_seconds: float | None = None,
    stop_after: int = 0,
    stored: tuple[RunState, Mapping[int, bytes]] | None = None,
) -> Played:
    """Run an experiment to its end, or to the round `stop_after`, from a stored state and memories, if any.

    `tamper` replaces replies; a client is waited for `deadline_seconds`, or for ever.
    """
    shards = experiment.shards()
    experiment = experiment.fitted(shards)
    with closing(Recorded(make(experiment.plan, shards), experiment.plan, tamper)) as runtime:
        loop, rows = loop_of(experiment, runtime, deadline_seconds), []
        if stored is None:
            state = loop.start()
        else:
            state = stored[0]
            runtime.restore(stored[1])
            loop.resume(state)
        while not state.finished and not (stop_after and state.round >= stop_after):
            if (row := loop.step(state)) is not None:
                rows.append(row)
        memories = dict(runtime.memories(changed=False))
    digest = summarise(experiment, state, shards, experiment.runtime.fingerprints(memories))["digest"]
    return Played(state, memories, digest, rows, dict(loop.ledger.totals), runtime.sent, runtime.received)
