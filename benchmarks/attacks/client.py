"""A client that is asked by somebody who is not our server: `serve` answers, or says that it does not."""

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from attacks.mutations import bytes_changed, message_changed, one_of
from attacks.outcomes import Outcome, outcome
from attacks.small_runs import RECIPES, Conversation, conversation
from fedgraft import wire
from fedgraft.engine.client.client import Client
from fedgraft.engine.protocol.protocol import Protocol

MOST_MEGABYTES = 200
"""By which one request may make the process grow; training a small model for the first time takes half of it."""


def requests(g: np.random.Generator, folder: Path) -> Iterator[Outcome]:
    """`serve` with requests, models to score, stored requests and memories that were changed."""
    while True:
        for name in RECIPES:
            said = conversation(name)
            for _ in range(12):
                client = Client(said.plan, dict(enumerate(said.shards)))
                for _ in range(4):
                    yield _asked(said, client, _request(said, g), g)


def _request(said: Conversation, g: np.random.Generator) -> tuple[Any, ...]:
    """(client, request, memory, scored, set-up), one or two of which are not honest."""
    k = int(g.integers(len(said.shards)))
    layouts, names = Protocol.of(said.plan).request_layouts, Protocol.of(said.plan).request_names
    seeds, request = said.heard.requests, one_of(said.heard.requests, g)
    memory: bytes = said.memories.get(k, b"")
    set_up = next((each for each in seeds if wire.kind_of(each) == "statistics"), b"")
    scored = one_of(said.heard.scored or [b""], g)
    if g.random() < 0.8:
        request = message_changed(request, seeds, layouts, names, g)
    if g.random() < 0.15:
        memory = bytes_changed([memory or b"x"], g)
    if scored and g.random() < 0.15:
        scored = message_changed(scored, [scored], layouts, names, g)
    if set_up and g.random() < 0.15:
        set_up = message_changed(set_up, seeds, layouts, names, g)
    return k, request, memory, scored, set_up


def _asked(said: Conversation, client: Client, given: tuple[Any, ...], g: np.random.Generator) -> Outcome:
    before, codes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, []

    def ask() -> str:
        served = client.serve(*given)
        reply = wire.decode(served.reply, Protocol.of(said.plan).reply_layouts, said.reply_names)
        codes.append(reply.kind)
        if reply.kind == "error" and served.memory != given[2]:
            return "a request that is refused changes what the client remembers"
        return ""

    found = outcome(ask, ())
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    if grown > MOST_MEGABYTES:
        return Outcome("memory", f"{grown} MB for one request of {wire.kind_of(given[1])}")
    return Outcome("refused") if found.what == "held" and codes == ["error"] else found
