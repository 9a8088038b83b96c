"""The server's post office: what is asked of clients, kind by kind, and what it may cost.

How one exchange of messages is trusted and charged is `exchange`; how rounds go on where clients wait for rows of
nodes is `halo_exchange`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedgraft import wire
from fedgraft.contracts import Probe, Runtime, Sums, randomness
from fedgraft.contracts.scores import merge
from fedgraft.engine.allocator import give_back
from fedgraft.engine.halo_codec import part_of
from fedgraft.engine.plan import PROGRESS_STEPS, SPLITS, Plan
from fedgraft.engine.server.exchange import Exchange, Replies, check_finite
from fedgraft.engine.server.halo_exchange import Segments
from fedgraft.engine.server.ledger import Ledger
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import AllClientsFailedError, BudgetError, ClientError, WireError
from fedgraft.wire import Message
from fedgraft.wire.layouts import VARIABLE, Arrays, Made, MadeOnce

REPLY_BYTES_UNLIMITED = 1 << 30
"""The most a set-up reply may hold when there is no byte budget."""
NO_GROUP = -1
"""Of clients that hold the model already."""


@dataclass(frozen=True)
class Introduction:
    """What came of asking who is there.

    Args:
        profiles: what each client said of itself: "examples", and the profile that the selector needs; empty for one
            that failed.
        halos: as `RunState.halos`.
        failed: {client: reason}.
    """

    profiles: list[dict[str, float]]
    halos: list[dict[str, Any]]
    failed: dict[int, str]


@dataclass(frozen=True)
class Scoring:
    """What came of scoring a model.

    Args:
        sums: {split: merged sums of those that answered}.
        clients: {client: {split: sums}}.
        failed: {client: reason}.
    """

    sums: dict[str, Sums]
    clients: dict[int, dict[str, Sums]]
    failed: dict[int, str]


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
        self._budget_bytes = budget_bytes
        self._exchange = Exchange(plan, runtime, ledger, deadline_seconds)
        self._segments = Segments(plan, self._exchange)
        self._most: dict[str, int] = {}

    def open(self, state: RunState) -> None:
        """Serve a run from its start, or from where it was stored."""
        give_back()  # what clients published, and what they were told of each other, may be most of the graph
        self._segments.open(state)

    def most_bytes(self, kind: str) -> int:
        """The most that one client's request and reply of this kind can cost, without rows of nodes."""
        if kind not in self._most:
            self._most[kind] = self.request_bytes(kind) + self._reply_limit(kind)
        return self._most[kind]

    def most_training_bytes(self, client: int) -> int:
        """The most that a client's round can cost."""
        return self.most_bytes("train") + self._segments.most_bytes(client)[1]

    def introduce(self, clients: Sequence[int]) -> Introduction:
        """Round 0: every client says how much it has and publishes its statistics; the server answers with the sums."""
        hello = wire.encode(Message("hello", 0))
        limit = self._hello_limit(len(hello), len(clients))
        replies = self._send("hello", 0, dict.fromkeys(clients, hello), limit, self._introduces)
        published: dict[int, Arrays] = {}
        for client, message in list(replies.messages.items()):
            if not _is_count(message.report["examples"]):
                replies.refuse(client, f"claims to have {message.report['examples']} training examples")
            elif message.arrays:
                try:
                    arrays = self._plan.rows.decode(message.arrays, self._plan.task.statistics_layout())
                    check_finite(arrays)
                    self._plan.task.check(arrays)
                    published[client] = arrays
                except (WireError, ClientError) as error:
                    replies.refuse(client, str(error))
        if not replies.messages:
            if self._hello_varies and self._budget_bytes and max(replies.bytes.values()) == len(hello) + limit:
                raise self._too_small(f"clients have {limit} bytes each for what they publish, which is not enough")
            raise AllClientsFailedError(0, replies.failed)
        halos = self._segments.introduce(published, replies, len(clients))
        if not replies.messages:
            raise AllClientsFailedError(0, replies.failed)
        published = {client: arrays for client, arrays in published.items() if client in replies.messages}
        if published:
            combined = self._plan.task.combine(published)
            requests = {client: self._combined(client, combined[client]) for client in sorted(combined)}
            cost = sum(map(len, requests.values())) + self._reply_limit("statistics") * len(requests)
            self._afford(cost, "sending every client the combined statistics")
            for client, reason in self._send("statistics", 0, requests).failed.items():
                replies.refuse(client, reason)
            if not replies.messages:
                raise AllClientsFailedError(0, replies.failed)
        profiles = [dict(replies.messages[c].report) if c in replies.messages else {} for c in clients]
        return Introduction(profiles, halos, replies.failed)

    def probe(self, state: RunState, probe: Probe, round: int) -> Replies:
        """Ask clients about the current model."""
        replies = self._send("probe", round, self._requests(state, probe.clients, "probe", round, 0))
        self._note_held(state, replies)
        return replies

    def train(
        self,
        state: RunState,
        clients: Sequence[int],
        probed: Iterable[int],
        round: int,
        progress: float,
        told: Mapping[int, Mapping[str, float]],
    ) -> Replies:
        """Have a cohort train, to the end of its round; those that were probed this round hold the model already.

        `progress` is how much of the run is over, in [0, 1]; clients' learning rates follow it. `told` is what each
        client's sampler is told.
        """
        flags = int(progress * PROGRESS_STEPS)
        requests = self._requests(state, clients, "train", round, flags, probed, told)
        limits = {client: self._reply_limit("train") + self._segments.most_bytes(client)[0] for client in clients}
        replies = self._exchange.send("train", round, requests, limits)
        self._segments.finish(state, replies, round, limits)
        self._segments.forget(state, replies.failed)
        self._note_held(state, replies)
        if not self._plan.sharing.holds:
            state.published.clear()  # it will not be sent again
        return replies

    def lacking(self, state: RunState, clients: Iterable[int]) -> list[int]:
        """Those of some clients that must be sent the current model."""
        if not self._plan.sharing.holds:
            return list(clients)
        return [client for client in clients if state.held.get(str(client), 0) != state.version]

    def train_alone(
        self, state: RunState, clients: Sequence[int], lacking: Sequence[int], round: int, progress: float
    ) -> Replies:
        """Have a cohort train by itself. Nothing travels but the current model, to those who lack it.

        Clients need no order for this, and their replies are but what the experimenter sees of them: both are free.
        """
        flags, holding = int(progress * PROGRESS_STEPS), frozenset(clients) - frozenset(lacking)
        requests = self._requests(state, clients, "alone", round, flags, holding)
        for client in lacking:
            self._exchange.charge(round, client, "down", "alone", requests[client], len(requests[client]))
        replies = self._send("alone", round, requests, charged=False)
        replies.bytes = {client: len(requests[client]) if client in lacking else 0 for client in clients}
        self._note_held(state, replies, lacking)
        return replies

    def uploads(self, replies: Replies) -> dict[int, Arrays]:
        """The decoded uploads of a training; clients whose cannot be decoded or is not finite move to `failed`."""
        decoded: dict[int, Arrays] = {}
        for client, message in list(replies.messages.items()):
            try:
                decoded[client] = self._decode_upload(message)
            except (WireError, ClientError) as error:
                replies.refuse(client, str(error))
        return decoded

    def evaluate(self, state: RunState, clients: Sequence[int], round: int, charged: bool) -> Scoring:
        """Merged sums of every split for the model that the clients would keep."""
        sharing = self._plan.sharing
        if charged and sharing.holds:
            replies = self._send("evaluate", round, self._requests(state, clients, "evaluate", round, 0))
            self._note_held(state, replies)
        elif charged:
            encoded = {group: self._encode_scored(state, group, round) for group in self._groups(state, clients)}
            requests = {client: encoded[sharing.group(state.sharing, client)] for client in clients}
            replies = self._send("evaluate", round, requests)
        else:
            give_back()  # rows of all nodes go to and fro: what rounds have left is of no use to them
            replies = self._measure(state, clients, round)
            give_back()
        for client, message in list(replies.messages.items()):
            if any((array < 0).any() for array in (message.arrays or {}).values()):
                replies.refuse(client, "scored a negative sum")
        names = self._plan.task.sums
        parts = {
            client: {split: dict(zip(names, array.tolist(), strict=True)) for split, array in message.arrays.items()}
            for client, message in sorted(replies.messages.items())
            if message.arrays
        }
        nothing = dict.fromkeys(names, 0.0)
        sums = {split: merge([nothing, *(part[split] for part in parts.values())]) for split in SPLITS}
        return Scoring(sums, parts, replies.failed)

    def _combined(self, client: int, arrays: Arrays) -> bytes:
        plan, g = self._plan, randomness.generator(self._plan.seed, "rows-combined", 0, client)
        coded, _ = plan.rows.encode(arrays, plan.rows.init(plan.task.combined_layout()), g)
        return wire.encode(Message("statistics", 0, arrays=coded), plan.request_layouts["statistics"])

    def _measure(self, state: RunState, clients: Sequence[int], round: int) -> Replies:
        """What the experimenter sees of a model without a word of it in the protocol."""
        sharing, layout = self._plan.sharing, self._plan.request_layouts["scored"]
        if sharing.holds and state.version:  # what is scored is what clients would hold
            for group in self._groups(state, clients):
                self._publish(state, group)
        encoded = {
            group: wire.encode(Message("scored", round, arrays=self._plan.scored(state.sharing, group)), layout)
            for group in self._groups(state, clients)
        }
        models = {client: encoded[sharing.group(state.sharing, client)] for client in clients}
        replies = Replies()
        if state.halos:
            mail, replies.failed = self._segments.relayed(self._runtime, state, models, round)
            give_back()
            layout = self._plan.request_layouts["measure"]
            requests: Mapping[int, bytes] = Made(
                clients, lambda client: wire.encode(Message("measure", round, arrays=mail[client]), layout)
            )
        else:
            requests = dict.fromkeys(clients, wire.encode(Message("measure", round)))
        answers = self._runtime.measure(requests, models)
        for client in clients:
            self._exchange.accept(replies, "measure", round, client, answers[client])
        return replies

    def _send(
        self, kind: str, round: int, requests: Mapping[int, bytes], limit: int | None = None, charged: bool = True
    ) -> Replies:
        """An exchange in which one limit holds for all replies."""
        most = self._reply_limit(kind) if limit is None else limit
        return self._exchange.send(kind, round, requests, dict.fromkeys(requests, most), charged)

    def _decode_upload(self, message: Message) -> Arrays:
        coded = part_of(message.arrays or {}, self._plan.coded_upload_layout)
        decoded = self._plan.uplink.decode(coded, self._plan.upload_layout)
        check_finite(decoded)
        return decoded

    # --- models ------------------------------------------------------------------------------------------------------

    def _requests(
        self,
        state: RunState,
        clients: Iterable[int],
        kind: str,
        round: int,
        flags: int,
        probed: Iterable[int] = (),
        told: Mapping[int, Mapping[str, float]] | None = None,
    ) -> Mapping[int, bytes]:
        """A request for each client, with the current model for those who lack it; equal ones are encoded once.

        Those that differ from client to client are encoded when they are sent: others are at work by then.
        """
        layout, names = self._plan.request_layouts[kind], self._plan.told.get(kind, ())
        clients, holding = list(clients), frozenset(probed)
        lacking = frozenset(self.lacking(state, clients)) - holding
        groups = {c: self._plan.sharing.group(state.sharing, c) if c in lacking else NO_GROUP for c in clients}
        models = {group: None if group == NO_GROUP else self._publish(state, group) for group in groups.values()}

        def request(arrays: Arrays | None, report: Mapping[str, float]) -> bytes:
            return wire.encode(Message(kind, round, dict(report), arrays, flags), layout, names)

        def order(client: int) -> bytes:
            model = models[groups[client]]
            arrays = None if model is None else {**model, **self._segments.orders(state, client, round)}
            return request(arrays, (told or {}).get(client, {}))

        if kind == "train" and (names or state.halos):
            return MadeOnce(clients, order)
        encoded = {group: request(model, {}) for group, model in models.items()}
        return {client: encoded[group] for client, group in groups.items()}

    def _publish(self, state: RunState, group: int) -> Arrays:
        """The encoded model of a group, encoded once per version; the sharing method hears what clients make of it."""
        plan, key = self._plan, str(group)
        if state.published.get(key, {}).get("version") != state.version:
            if key not in state.downlink:
                state.downlink[key] = plan.downlink.init(plan.download_layout)
            g = randomness.generator_where(plan.downlink.chancy, plan.seed, "downlink", state.version, group)
            model = plan.sharing.model(state.sharing, group)
            arrays, state.downlink[key] = plan.downlink.encode(model, state.downlink[key], g)
            state.published[key] = {"version": state.version, "arrays": arrays}
            state.sharing = plan.sharing.sent(state.sharing, group, plan.downlink.decode(arrays, plan.download_layout))
        published: Arrays = state.published[key]["arrays"]
        return published

    def _encode_scored(self, state: RunState, group: int, round: int) -> bytes:
        """What is sent to be scored; it leaves no trace in training."""
        plan, key = self._plan, f"evaluate-{group}"
        if key not in state.downlink:
            state.downlink[key] = plan.downlink.init(plan.model_layout)
        g = randomness.generator(plan.seed, "downlink-evaluate", round, group)
        model = plan.scored(state.sharing, group)
        arrays, state.downlink[key] = plan.downlink.encode(model, state.downlink[key], g)
        return wire.encode(Message("evaluate", round, arrays=arrays), plan.request_layouts["evaluate"])

    def _groups(self, state: RunState, clients: Iterable[int]) -> list[int]:
        return sorted({self._plan.sharing.group(state.sharing, client) for client in clients})

    def _note_held(self, state: RunState, replies: Replies, among: Iterable[int] | None = None) -> None:
        """Remember who keeps the current model: those that answered."""
        if self._plan.sharing.holds:
            got = replies.messages if among is None else replies.messages.keys() & frozenset(among)
            state.held.update({str(client): state.version for client in got})

    # --- limits ------------------------------------------------------------------------------------------------------

    def request_bytes(self, kind: str) -> int:
        """The most that one request of this kind can cost, without rows of nodes."""
        plan = self._plan
        if kind not in plan.request_bounds:
            return wire.message_bytes(plan.request_layouts[kind])
        layout = plan.request_layouts["evaluate"] if kind == "evaluate" else plan.coded_download_layout
        return wire.message_bytes(layout, plan.told.get(kind, ()), plan.request_bounds[kind])

    def _reply_limit(self, kind: str) -> int:
        """The most that one reply of this kind can cost, without rows of nodes."""
        plan = self._plan
        if kind == "train":
            message = wire.message_bytes(plan.coded_upload_layout, plan.names(kind), plan.upload_bounds)
        else:
            message = wire.message_bytes(plan.reply_layouts.get(kind), plan.names(kind))
        return max(message, wire.message_bytes() + wire.TEXT_BYTES)

    @property
    def _introduces(self) -> bool:
        """Whether asking who is there takes messages: not of clients that never hear of each other in any way."""
        return not self._plan.sharing.alone or bool(self._plan.reply_layouts["hello"].specs)

    @property
    def _hello_varies(self) -> bool:
        return any(VARIABLE in spec.shape for spec in self._plan.reply_layouts["hello"])

    def _hello_limit(self, request_bytes: int, clients: int) -> int:
        """The longest reply to a hello: as long as the layout says, or an equal share of the budget where it varies."""
        if not self._introduces:
            return self._reply_limit("hello")
        layout = None if self._hello_varies else self._plan.reply_layouts["hello"]
        least = wire.message_bytes(layout, self._plan.names("hello"))
        self._afford((request_bytes + least) * clients, "asking every client what it has")
        most = REPLY_BYTES_UNLIMITED if self._hello_varies else self._reply_limit("hello")
        return min(most, self._budget_bytes // clients - request_bytes) if self._budget_bytes else most

    def _afford(self, cost: int, what: str) -> None:
        if self._budget_bytes and self.ledger.total + cost > self._budget_bytes:
            raise self._too_small(f"{what} takes {cost} bytes, {self._budget_bytes - self.ledger.total} are left")

    def _too_small(self, why: str) -> BudgetError:
        return BudgetError(f"budget.bytes = {self._budget_bytes} does not pay for one round: {why}.")


def _is_count(value: float) -> bool:
    return 0 <= value < 2**31 and value == int(value)
