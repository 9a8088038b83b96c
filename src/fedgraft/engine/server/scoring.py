"""Score the global models: by messages that are charged, or by the experimenter, outside the protocol."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from fedgraft import wire
from fedgraft.contracts import Sums
from fedgraft.contracts.scores import add
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine.allocator import give_back
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.exchange import Exchange, Replies
from fedgraft.engine.server.halo_exchange import HaloExchange
from fedgraft.wire import Message
from fedgraft.wire.layouts import Arrays
from fedgraft.wire.lazy import Made


@dataclass(frozen=True)
class Scoring:
    """Results of scoring a model at the clients.

    `sums` are {split: added sums of those that answered}, `clients` {client: {split: sums}}, `failed` {client: reason}.
    """

    sums: dict[str, Sums]
    clients: dict[int, dict[str, Sums]]
    failed: Mapping[int, str]


class Scorer:
    """Score models at the clients; `halo` has them relay rows under the models to score."""

    def __init__(self, plan: Plan, exchange: Exchange, halo: HaloExchange) -> None:
        self._plan, self._exchange, self.halo = plan, exchange, halo

    def measure(self, models: Mapping[int, Arrays], round: int, scored: Collection[int] | None = None) -> Scoring:
        """Score {client: shared parameters} as the experimenter: exact, free, without a word in the protocol.

        Equal models are one object, and encoded once. Where only some clients are `scored`, the others are there to
        relay what these see of their nodes.
        """
        give_back()  # rows of all nodes go to and fro: freed memory that rounds left is of no use to them
        replies = self._measured(models, round, models.keys() if scored is None else scored)
        give_back()
        return self.summed(replies)

    def summed(self, replies: Replies) -> Scoring:
        """Add the sums that clients replied; a client with a negative sum has failed."""
        negative = {
            client: "scored a negative sum"
            for client, message in replies.messages.items()
            if any((array < 0).any() for array in (message.arrays or {}).values())
        }
        replies, names = replies.without(negative), self._plan.task.sums
        parts = {
            client: {split: dict(zip(names, array.tolist(), strict=True)) for split, array in message.arrays.items()}
            for client, message in sorted(replies.messages.items())
            if message.arrays
        }
        nothing = dict.fromkeys(names, 0.0)
        sums = {split: add([nothing, *(part[split] for part in parts.values())]) for split in SCORED_SPLITS}
        return Scoring(sums, parts, replies.failed)

    def _measured(self, models: Mapping[int, Arrays], round: int, clients: Collection[int]) -> Replies:
        layouts = self._plan.request_layouts
        encoded: dict[int, bytes] = {}
        for model in models.values():
            if id(model) not in encoded:
                encoded[id(model)] = wire.encode(Message("scored", round, arrays=model), layouts["scored"])
        scored = {client: encoded[id(model)] for client, model in models.items()}
        if not self.halo.active:
            requests: Mapping[int, bytes] = dict.fromkeys(clients, wire.encode(Message("measure", round)))
            return self._exchange.measure("measure", round, requests, scored)
        rows, failed = self.halo.relayed(scored, round)
        give_back()
        if failed:
            return Replies(failed=failed)
        requests = Made(clients, lambda c: wire.encode(Message("measure", round, arrays=rows[c]), layouts["measure"]))
        return self._exchange.measure("measure", round, requests, scored)
