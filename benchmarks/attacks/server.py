"""Clients that answer anything: the server's run ends, or says that all clients failed."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attacks.mutations import message_changed, one_of
from attacks.outcomes import Outcome, outcome
from attacks.small_runs import RECIPES, Conversation, conversation
from fedgraft.contracts import ClientFailed, Runtime
from fedgraft.engine.plan import Plan
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.errors import AllClientsFailedError, BudgetError
from fedgraft.experiment.running.loops import loop_of
from fedgraft.testing.runs import Around, Reply, here
from fedgraft.wire.layouts import finite

SECONDS = 60.0
"""In which a run of two rounds ends, on a busy machine."""


class Lying(Around):
    """A runtime that changes some replies, those to what the experimenter asks for included."""

    def __init__(self, inner: Runtime, plan: Plan, change: Callable[[Reply], Reply]) -> None:
        super().__init__(inner, plan)
        self._change = change

    def exchange(
        self, requests: Mapping[int, bytes], limits: Mapping[int, int], deadline_seconds: float | None
    ) -> dict[int, Reply]:
        """Exchange messages, and change some replies."""
        replies: dict[int, Reply] = super().exchange(requests, limits, deadline_seconds)
        return {client: self._change(reply) for client, reply in replies.items()}

    def measure(self, requests: Mapping[int, bytes], models: Any, deadline_seconds: float | None) -> dict[int, Reply]:
        """Measure, and change some replies."""
        replies: dict[int, Reply] = super().measure(requests, models, deadline_seconds)
        return {client: self._change(reply) for client, reply in replies.items()}


def replies(g: np.random.Generator, folder: Path) -> Iterator[Outcome]:
    """Whole runs, some of whose replies are changed, replayed, lost, or another client's."""
    while True:
        for name in RECIPES:
            said = conversation(name)
            for _ in range(3):
                share = float(one_of((0.05, 0.2, 0.6), g))
                yield outcome(partial(_run, said, share, g), (AllClientsFailedError, BudgetError), seconds=SECONDS)


def _run(said: Conversation, share: float, g: np.random.Generator) -> str:
    plan = said.plan

    def change(reply: Reply) -> Reply:
        if g.random() >= share or not isinstance(reply, bytes):
            return reply
        if g.random() < 0.1:
            return ClientFailed("gone")
        return message_changed(
            reply, [*said.heard.replies, reply], Protocol.of(plan).reply_layouts, said.reply_names, g
        )

    with closing(Lying(here(plan, said.shards), plan, change)) as runtime:
        loop = loop_of(said.experiment, runtime)
        state = loop.run(loop.start(), lambda state, row: None)
    return "" if all(map(finite, state.best_model.values())) else "the best model holds NaN or infinity"
