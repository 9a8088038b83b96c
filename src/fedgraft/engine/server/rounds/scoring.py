"""Score the global models: by messages that are charged, or by the experimenter, outside the protocol."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from fedgraft import wire
from fedgraft.contracts import Sums
from fedgraft.contracts.scores import add
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine.allocator import give_back
from fedgraft.engine.plan import AFTER, PROGRESS_STEPS, Plan
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.exchange import Exchange, Replies
from fedgraft.engine.server.halo.halo_exchange import HaloExchange
from fedgraft.engine.server.rounds.next_round import Ahead
from fedgraft.wire import Message
from fedgraft.wire.layouts import Arrays, finite
from fedgraft.wire.lazy import Made


@dataclass(frozen=True)
class Scoring:
    """Results of scoring a model at the clients.

    `sums` are {split: added sums of those that answered}, `clients` {client: {split: sums}}, `failed` {client: reason}.
    `after` are those of the same clients' models after local steps; None where they take none.
    """

    sums: dict[str, Sums]
    clients: dict[int, dict[str, Sums]]
    failed: Mapping[int, str]
    after: "Scoring | None" = None


class Scorer:
    """Score models at the clients; `halo` has them relay rows under the models to score."""

    def __init__(self, plan: Plan, exchange: Exchange, halo: HaloExchange) -> None:
        self._plan, self._exchange, self.halo = plan, exchange, halo

    def measure(
        self,
        models: Mapping[int, Arrays],
        round: int,
        scored: Collection[int] | None = None,
        ahead: Ahead | None = None,
    ) -> Scoring:
        """Score {client: arrays of `Plan.scored_layout`} as the experimenter: exact, free, not a word in the protocol.

        Equal models are one object, and encoded once. Where only some clients are `scored`, the others are there to
        relay what these see of their nodes. `ahead` says what comes next.
        """
        give_back()  # rows of all nodes go to and fro: freed memory that rounds left is of no use to them
        replies = self._measured(models, round, models.keys() if scored is None else scored, ahead or Ahead())
        give_back()
        return self.summed(replies, self._plan.local_steps)

    def summed(self, replies: Replies, after: bool = False) -> Scoring:
        """Add the sums that clients replied, those `after` local steps as well; one with a negative sum has failed."""
        negative = {
            client: "scored a negative sum"
            for client, message in replies.messages.items()
            if any((array < 0).any() for array in (message.arrays or {}).values())
        }
        replies = replies.without(negative)
        scoring = self._added(replies)
        if not after:
            return scoring
        lost = {
            client: "its local steps have failed"
            for client, message in replies.messages.items()
            if any(not finite(array) for name, array in (message.arrays or {}).items() if name.startswith(AFTER))
        }
        return replace(scoring, after=self._added(replies.without(lost), AFTER))

    def _added(self, replies: Replies, prefix: str = "") -> Scoring:
        """The sums of the arrays whose names begin with a prefix."""
        names, nothing = self._plan.task.sums, dict.fromkeys(self._plan.task.sums, 0.0)
        parts = {
            client: {
                split: dict(zip(names, message.arrays[prefix + split].tolist(), strict=True)) for split in SCORED_SPLITS
            }
            for client, message in sorted(replies.messages.items())
            if message.arrays
        }
        sums = {split: add([nothing, *(part[split] for part in parts.values())]) for split in SCORED_SPLITS}
        return Scoring(sums, parts, replies.failed)

    def _measured(self, models: Mapping[int, Arrays], round: int, clients: Collection[int], ahead: Ahead) -> Replies:
        layouts, names = (
            Protocol.of(self._plan).request_layouts,
            Protocol.of(self._plan).request_names.get("measure", ()),
        )
        steps = int(ahead.progress * PROGRESS_STEPS)
        encoded: dict[int, bytes] = {}
        for model in models.values():
            if id(model) not in encoded:
                encoded[id(model)] = wire.encode(Message("scored", round, arrays=model), layouts["scored"])
        scored = {client: encoded[id(model)] for client, model in models.items()}

        def request(client: int, rows: Arrays | None = None) -> bytes:
            message = Message("measure", round, ahead.reports.get(client, {}), rows, progress=steps)
            return wire.encode(message, layouts["measure"], names)

        if not self.halo.active:
            told = {client: tuple(ahead.reports.get(client, {}).values()) for client in clients}
            equal = {values: request(client) for client, values in told.items()}
            requests: Mapping[int, bytes] = {client: equal[values] for client, values in told.items()}
            return self._exchange.measure("measure", round, requests, scored)
        rows, failed = self.halo.relayed(scored, round)
        give_back()
        if failed:
            return Replies(failed=failed)
        requests = Made(clients, lambda client: request(client, rows[client]))
        return self._exchange.measure("measure", round, requests, scored)
