"""The server's post office: encodes requests, exchanges them, trusts no reply, and charges every byte.

Whatever is wrong with a reply (an error, a wrong kind, round or layout, random bytes, NaN) becomes a reason in `failed`;
only finite arrays of the agreed layout come out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedgraft import seeds, wire
from fedgraft.contracts import ClientFailed, Probe, Runtime, Sums
from fedgraft.errors import AllClientsFailedError, BudgetError, ClientError, WireError
from fedgraft.ledger import Ledger
from fedgraft.metrics import merge
from fedgraft.plan import SPLITS, Plan
from fedgraft.state import RunState
from fedgraft.types import Arrays
from fedgraft.wire import Message

REPLY_BYTES_UNLIMITED = 1 << 30
"""The most a set-up reply may hold when there is no byte budget."""

PURPOSES = {
    "hello": "statistics",
    "statistics": "statistics",
    "probe": "probe",
    "train": "model",
    "evaluate": "evaluation",
}


@dataclass
class Replies:
    """What came back from one exchange.

    Args:
        messages: {client: accepted reply}.
        failed: {client: reason}.
        bytes: {client: bytes of its request and reply}.
    """

    messages: dict[int, Message] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    bytes: dict[int, int] = field(default_factory=dict)


class Post:
    """All traffic between the server and its clients.

    Args:
        plan: what both ends agreed on.
        runtime: carries the bytes.
        ledger: where they are charged.
        budget_bytes: the run's byte budget; 0 = none.
        deadline_seconds: how long to wait for a client; None = for ever.
    """

    def __init__(
        self, plan: Plan, runtime: Runtime, ledger: Ledger, budget_bytes: int, deadline_seconds: float | None
    ) -> None:
        self._plan, self._runtime, self.ledger = plan, runtime, ledger
        self._budget_bytes, self._deadline_seconds = budget_bytes, deadline_seconds

    def most_bytes(self, kind: str) -> int:
        """The most that one client's request and reply of this kind can cost."""
        return self._request_bytes(kind) + self._reply_limit(kind)

    def introduce(self, clients: Sequence[int]) -> list[dict[str, float]]:
        """Round 0: every client says how much it has and publishes its statistics; the server answers with the sums.

        Returns:
            What each client said of itself: "examples", and the profile that the selector needs; empty for one that failed.
        """
        hello = wire.encode(Message("hello", 0))
        self._afford(len(hello) * len(clients), "asking every client what it has")
        limit = self._setup_limit(len(hello), len(clients))
        replies = self._exchange("hello", 0, dict.fromkeys(clients, hello), limit)
        if not replies.messages:
            raise AllClientsFailedError(0, replies.failed)
        published = {client: reply.arrays for client, reply in replies.messages.items() if reply.arrays}
        if published:
            layout = self._plan.request_layouts["statistics"]
            combined = self._plan.task.combine(published)
            requests = {c: wire.encode(Message("statistics", 0, arrays=combined[c]), layout) for c in sorted(combined)}
            cost = sum(map(len, requests.values())) + self._reply_limit("statistics") * len(requests)
            self._afford(cost, "sending every client the combined statistics")
            refused = self._exchange("statistics", 0, requests, self._reply_limit("statistics")).failed
            replies.failed.update(refused)
        return [{} if c in replies.failed else dict(replies.messages[c].report) for c in clients]

    def broadcast(self, state: RunState, clients: Iterable[int], kind: str, round: int) -> dict[int, bytes]:
        """The encoded model for each client; encoded once per group and counted per receiver."""
        sharing, encoded = self._plan.sharing, dict[int, bytes]()
        requests = {}
        for client in clients:
            group = sharing.group(state.sharing, client)
            if group not in encoded:
                encoded[group] = self._encode_model(state, group, kind, round)
            requests[client] = encoded[group]
        return requests

    def probe(self, state: RunState, probe: Probe, round: int) -> Replies:
        """Ask clients about the current model."""
        return self._exchange("probe", round, self.broadcast(state, probe.clients, "probe", round))

    def train(self, state: RunState, clients: Sequence[int], probed: Iterable[int], round: int) -> Replies:
        """Have a cohort train; those that were probed this round hold the model already."""
        holding = frozenset(probed)
        requests = self.broadcast(state, [c for c in clients if c not in holding], "train", round)
        again = wire.encode(Message("train", round), self._plan.request_layouts["train"])
        return self._exchange("train", round, {c: requests.get(c, again) for c in clients})

    def uploads(self, replies: Replies) -> dict[int, Arrays]:
        """The decoded uploads of a training; a client whose upload cannot be decoded or is not finite moves to `failed`."""
        decoded: dict[int, Arrays] = {}
        for client, message in list(replies.messages.items()):
            try:
                decoded[client] = self._decode_upload(message)
            except (WireError, ClientError) as error:
                replies.failed[client] = str(error)
                del replies.messages[client]
        return decoded

    def evaluate(self, state: RunState, clients: Sequence[int], round: int, charged: bool) -> dict[str, Sums]:
        """Merged sums of every split for the model that the clients would keep."""
        sharing = self._plan.sharing
        if charged:
            replies = self._exchange("evaluate", round, self.broadcast(state, clients, "evaluate", round))
        else:
            layout = self._plan.request_layouts["measure"]
            groups = {client: sharing.group(state.sharing, client) for client in clients}
            encoded = {
                group: wire.encode(Message("measure", round, arrays=sharing.evaluated(state.sharing, group)), layout)
                for group in sorted(set(groups.values()))
            }
            answers = self._runtime.measure({client: encoded[group] for client, group in groups.items()})
            replies = Replies()
            for client in clients:
                self._accept(replies, "measure", round, client, answers[client])
        names = self._plan.task.sums
        return {
            split: merge(
                dict(zip(names, map(float, (reply.arrays or {})[split]), strict=True))
                for _, reply in sorted(replies.messages.items())
            )
            for split in SPLITS
        }

    # --- one exchange ------------------------------------------------------------------------------------------------

    def _exchange(self, kind: str, round: int, requests: Mapping[int, bytes], limit: int | None = None) -> Replies:
        most = self._reply_limit(kind) if limit is None else limit
        answers = self._runtime.exchange(requests, dict.fromkeys(requests, most), self._deadline_seconds)
        replies = Replies()
        for client, request in requests.items():
            answer = answers.get(client, ClientFailed("no reply"))
            size = answer.bytes_up if isinstance(answer, ClientFailed) else len(answer)
            if size > most:
                answer, size = ClientFailed(f"a reply of {size} bytes where at most {most} are allowed"), most
            self.ledger.charge(round, client, "down", PURPOSES[kind], len(request), wire.header_bytes(request))
            self.ledger.charge(round, client, "up", PURPOSES[kind], size, _header_bytes(answer))
            replies.bytes[client] = len(request) + size
            self._accept(replies, kind, round, client, answer)
        return replies

    def _accept(self, replies: Replies, kind: str, round: int, client: int, answer: bytes | ClientFailed) -> None:
        try:
            if isinstance(answer, ClientFailed):
                raise ClientError(answer.reason)
            message = wire.decode(answer, self._plan.reply_layouts.get(kind), self._plan.names(kind))
            if message.kind == "error":
                raise ClientError(message.text)
            if (message.kind, message.round) != (kind, round):
                raise ClientError(f"answered {message.kind!r} of round {message.round} to {kind!r} of round {round}")
            replies.messages[client] = message
        except (WireError, ClientError) as error:
            replies.failed[client] = str(error)

    def _decode_upload(self, message: Message) -> Arrays:
        if message.arrays is None:
            raise ClientError("a training reply without an update")
        decoded = self._plan.uplink.decode(message.arrays, self._plan.upload_layout)
        for name, array in decoded.items():
            if not np.isfinite(array).all():
                raise ClientError(f"{name} of the update is not finite")
        return decoded

    def _encode_model(self, state: RunState, group: int, kind: str, round: int) -> bytes:
        plan, key = self._plan, str(group)
        model = plan.sharing.evaluated if kind == "evaluate" else plan.sharing.model
        if key not in state.downlink:
            state.downlink[key] = plan.downlink.init(plan.model_layout)
        g = seeds.generator(plan.seed, f"downlink-{kind}", round, group)
        arrays, state.downlink[key] = plan.downlink.encode(model(state.sharing, group), state.downlink[key], g)
        return wire.encode(Message(kind, round, arrays=arrays), plan.request_layouts[kind])

    # --- limits ------------------------------------------------------------------------------------------------------

    def _request_bytes(self, kind: str) -> int:
        return wire.message_bytes(self._plan.request_layouts[kind])

    def _reply_limit(self, kind: str) -> int:
        message = wire.message_bytes(self._plan.reply_layouts.get(kind), self._plan.names(kind))
        return max(message, wire.message_bytes() + wire.TEXT_BYTES)

    def _setup_limit(self, request_bytes: int, clients: int) -> int:
        if not self._budget_bytes:
            return REPLY_BYTES_UNLIMITED
        return max(0, self._budget_bytes // clients - request_bytes)

    def _afford(self, cost: int, what: str) -> None:
        if self._budget_bytes and self.ledger.total + cost > self._budget_bytes:
            raise BudgetError(
                f"budget.bytes = {self._budget_bytes} does not pay for one round: {what} alone needs {cost} bytes, "
                f"{self._budget_bytes - self.ledger.total} are left."
            )


def _header_bytes(answer: bytes | ClientFailed) -> int:
    """Header bytes of a reply; 0 for what is no message, which is charged to its purpose as a whole."""
    try:
        return 0 if isinstance(answer, ClientFailed) else wire.header_bytes(answer)
    except WireError:
        return 0
