"""Requests that bring a model or scalars: equal ones are encoded once, and one limit holds for all replies."""

from collections.abc import Mapping
from typing import Final

from fedgraft import wire
from fedgraft.engine.plan import PROGRESS_STEPS, Plan
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.exchange import Exchange, Replies
from fedgraft.engine.server.limits import Limits
from fedgraft.engine.server.rounds.next_round import Reports
from fedgraft.wire import Message
from fedgraft.wire.layouts import Arrays

Models = Mapping[int, Arrays | None]
"""{client: the encoded model that it is sent}; None for one that has it. Equal models are one object."""
NOTHING: Final[Reports] = {}
"""No scalars for anybody."""


class Requests:
    """Encode requests, and send them.

    Args:
        plan: what both ends agreed on.
        exchange: sends them.
        limits: of replies.
    """

    def __init__(self, plan: Plan, exchange: Exchange, limits: Limits) -> None:
        self._protocol, self._exchange, self.limits = Protocol.of(plan), exchange, limits

    def send(self, kind: str, round: int, requests: Mapping[int, bytes], charged: bool = True) -> Replies:
        """Send requests of a kind, {client: bytes}."""
        limits = dict.fromkeys(requests, self.limits.reply_bytes(kind))
        return self._exchange.send(kind, round, requests, limits, charged)

    def of(
        self, kind: str, round: int, models: Models, progress: float = 0.0, reports: Reports = NOTHING
    ) -> dict[int, bytes]:
        """Return {client: request} with its model and its scalars; `progress` is in [0, 1]."""
        encoded: dict[tuple[int, tuple[float, ...]], bytes] = {}
        layout, names = self._protocol.request_layouts.get(kind), self._protocol.request_names.get(kind, ())
        keys = {client: (id(model), tuple(reports.get(client, {}).values())) for client, model in models.items()}
        for client, model in models.items():
            if keys[client] not in encoded:
                report, steps = reports.get(client, {}), int(progress * PROGRESS_STEPS)
                encoded[keys[client]] = wire.encode(Message(kind, round, report, model, progress=steps), layout, names)
        return {client: encoded[key] for client, key in keys.items()}
