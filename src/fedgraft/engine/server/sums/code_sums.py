"""Codes of clients that are added up: read from replies, added modulo a power of two, unmasked.

Statistics are added up before the first round, and all get the sum back. In hops of smoothing the sum is that of the
rows of each node's neighbours, and of tallies.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from fedgraft import wire
from fedgraft.contracts.abilities.smoothing import STEPS
from fedgraft.contracts.abilities.summing import SumCoding
from fedgraft.contracts.values import Indices
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.halo_sums import COUNTS, DEGREES, MOST, PLACED, PLACES, ROWS, bits_of, placed
from fedgraft.engine.privacy.secure_sum import BOXES, CODES, MOST_BITS, PRESENT, SCORE_BITS, TOTAL, numbers_of
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.protocol.sums import STATISTICS, segment_of
from fedgraft.engine.server.exchange import Exchange, Replies, together
from fedgraft.engine.server.limits import Limits
from fedgraft.engine.server.smoothing import CrossClientEdges, Hops, Means
from fedgraft.errors import AllClientsFailedError, ClientError, InputError, WireError, printable
from fedgraft.secrets.sizes import BOX_BYTES
from fedgraft.wire import Message, encode, message_bytes, packing
from fedgraft.wire.layouts import Arrays, Layout, Spec
from fedgraft.wire.packing import Codes

if TYPE_CHECKING:
    from fedgraft.engine.server.sums.masked_exchange import Masked, MaskedExchange


def masks_of(plan: Plan, exchange: Exchange, clients: int) -> "MaskedExchange | None":
    """Return what has clients agree on masks, where there are any: its cryptography takes its time to import."""
    if not plan.collection.assurance:
        return None
    from fedgraft.engine.server.sums.masked_exchange import MaskedExchange

    return MaskedExchange(plan, exchange, clients)


def codes_in(replies: Replies, count: int, bits: int) -> tuple[dict[int, Codes], dict[int, str]]:
    """Return {client: what it adds}, so many codes, and {client: why its reply is refused}."""
    codes, refused = {}, {}
    for client, message in sorted(replies.messages.items()):
        try:
            codes[client] = packing.unpack((message.arrays or {})[CODES], count, bits)
        except WireError as error:
            refused[client] = printable(str(error))
    return codes, refused


def wide_codes_in(replies: Replies, count: int) -> tuple[dict[int, Codes], dict[int, str]]:
    """The same of codes of `SCORE_BITS`."""
    told = {client: (message.arrays or {})[CODES] for client, message in sorted(replies.messages.items())}
    codes = {
        client: content.view("<u8").astype(np.uint64)
        for client, content in told.items()
        if len(content) == SCORE_BITS // 8 * count
    }
    return codes, dict.fromkeys(told.keys() - codes.keys(), f"tells other than {count} numbers")


def total_of(
    plan: Plan, masks: "MaskedExchange | None", masked: "Masked | None", codes: Mapping[int, Codes], bits: int
) -> tuple[Codes, Replies]:
    """Return the sum of codes, {client: they}, modulo 2**bits, and the replies that unmasked it.

    Raises `ClientError` where there is none.
    """
    if len(codes) < (least := plan.collection.least):
        raise ClientError(f"{len(codes)} clients are fewer than the {least} that a sum must be of")
    if masks and masked:
        return masks.unmasked(masked, codes, bits)
    return np.stack(list(codes.values())).sum(0, dtype=np.uint64) & np.uint64(2**bits - 1), Replies()


def signed(total: Codes, bits: int) -> NDArray[np.int64]:
    """Return sums modulo 2**bits whose upper half stands for negative numbers."""
    whole = total.astype(np.int64)
    return whole - (whole >> (bits - 1) << bits)


class SummedHops(Hops):
    """Ask clients for what is added up before anybody sees it, masked where updates are.

    Raises `InputError` where so many neighbours elsewhere take more bits than a sum may have.
    """

    def __init__(
        self,
        plan: Plan,
        exchange: Exchange,
        limits: Limits,
        joined: CrossClientEdges,
        round: int,
        clients: Iterable[int],
    ) -> None:
        super().__init__(plan, exchange, limits, joined, round, clients)
        self._masks = masks_of(plan, exchange, len(joined.own))
        self._done = 0
        self._most_counts = int((joined.whole @ np.ones(len(self._rows), np.int64)).max(initial=0))
        self._bits = bits_of(self._most_counts)
        if self._bits > MOST_BITS:
            raise InputError(
                f"answers.smoothing: sums over the neighbours of one node take {self._bits} bits a number."
            )
        self._codes = self._rows.size if len(joined.senders) else 0

    def means(self, kind: str, orders: Mapping[int, Arrays]) -> Means:
        """Send {client: arrays}; return the means that follow from the sums of rows."""
        joined, total = self._joined, np.zeros((len(self._rows), self._plan.row_width), np.int64)
        if (found := self._added(kind, orders)) is not None:
            total = signed(found, self._bits).reshape(total.shape)
        self._note_known()
        count = joined.whole @ self._known.astype(np.int64)
        means = np.clip(total / np.maximum(count, 1)[:, None], -STEPS, STEPS)
        return means, count > 0

    def tallies(self, orders: Mapping[int, Arrays]) -> Indices:
        """Send {client: arrays}; return the sum of tallies, int64 [choices, 2], or [0, 2] where there is none."""
        found = self._added("tally", orders)
        told = np.zeros(0) if found is None else numbers_of(found)
        return np.rint(told).astype(np.int64).reshape(-1, 2)

    def most_bytes(self, client: int) -> int:
        """Return the most bytes, those for masks included, and for where rows go."""
        masks = self._masks.most_bytes.total if self._masks else 0
        sizes = self._sizes("smooth", client)
        most = Layout(tuple(replace(spec, shape=sizes[spec.name]) for spec in PLACED))
        places = wire.message_bytes(PLACED, (), most) - wire.message_bytes()
        return super().most_bytes(client) + places + (len(self._plan.hop_kinds) + 1) * masks

    def _added(self, kind: str, orders: Mapping[int, Arrays]) -> Codes | None:
        """The sum of what is asked for; None where there is none, and where there are no rows to add."""
        wide, empty = kind == "tally", kind != "tally" and not self._codes
        masked = None
        if self._masks and not empty:
            masked = self._masks.agreed([*orders], self._round, segment_of(kind, self._done))
            orders = {client: orders[client] for client in masked.peers}
        requests = {}
        for client, arrays in orders.items():
            encrypted = masked.order(client) if masked else self._nothing_encrypted()
            requests[client] = self._order(kind, client, {**arrays, **encrypted})
        replies = self._sent(kind, requests)
        self._done += 1
        if empty:
            return None
        count = 2 * self._plan.smoothing.choices if wide and self._plan.smoothing else self._codes
        codes, refused = wide_codes_in(replies, count) if wide else codes_in(replies, count, self._bits)
        replies = replies.without(refused)
        self._lost(together(masked.before, replies) if masked else replies)
        try:
            return total_of(self._plan, self._masks, masked, codes, SCORE_BITS if wide else self._bits)[0]
        except ClientError as error:
            self._lost(Replies(failed=dict.fromkeys(self.clients, f"answers have no sum: {printable(str(error))}")))
            return None

    def _order(self, kind: str, client: int, arrays: Arrays) -> bytes:
        report, plan = {}, self._plan
        if kind == "smooth":
            arrays |= placed(self._joined.whole, self._joined.of_client(client))
            report = {ROWS: float(len(self._rows) if self._codes else 0), MOST: float(self._most_counts)}
        segment = self._done if kind == "hop" else 0
        names = Protocol.of(plan).request_names.get(kind, ())
        return wire.encode(
            Message(kind, self._round, report, arrays, segment=segment), Protocol.of(plan).request_layouts[kind], names
        )

    def _nothing_encrypted(self) -> Arrays:
        """What an order says of masks where there are none."""
        if not self._masks:
            return {}
        return {PRESENT: np.zeros(0, np.uint8), BOXES: np.zeros((0, BOX_BYTES), np.uint8)}

    def _sizes(self, kind: str, client: int) -> dict[str, tuple[int, ...]]:
        nodes, edges = int(self._joined.sizes[client]), self._edges(client)
        wide = SCORE_BITS // 8 * 2 * (self._plan.smoothing.choices if self._plan.smoothing else 0)
        codes = wide if kind == "tally" else packing.packed_bytes(self._codes, self._bits)
        encrypted = {PRESENT: (0,), BOXES: (0, BOX_BYTES)}  # masks are counted by themselves
        return super()._sizes(kind, client) | {
            CODES: (codes,),
            DEGREES: (nodes,),
            PLACES: (edges,),
            COUNTS: (edges,),
            **encrypted,
        }

    def _edges(self, client: int) -> int:
        part = self._joined.of_client(client)
        return int(self._joined.pointers[part.stop] - self._joined.pointers[part.start])


_ROUND: Final = 0


class SummedStatistics:
    """Have clients publish statistics that are added up, as `SummedTask` has them.

    Args:
        plan: what both ends agreed on; it has such statistics.
        exchange: sends requests.
        limits: of messages.
        clients: how many there are in all.
    """

    def __init__(self, plan: Plan, exchange: Exchange, limits: Limits, clients: int) -> None:
        self._plan, self._exchange, self._limits = plan, exchange, limits
        self._masks = masks_of(plan, exchange, clients)

    @property
    def _coding(self) -> SumCoding:
        assert self._plan.summed_coding is not None, "the plan has statistics"
        return self._plan.summed_coding

    def most_bytes(self, units: int) -> int:
        """Return the most bytes that it takes with a client, and its messages for masks."""
        masks = self._masks.most_bytes.total if self._masks else 0  # the order's arrays among them
        order = message_bytes(None, Protocol.of(self._plan).request_names["publish"])
        return order + self._reply_bytes(self._bits(units)) + masks

    def asked(self, replies: Replies) -> tuple[Arrays, Replies]:
        """Return what comes of the sum over those that have said how much they have, and who is left of these.

        Raises `AllClientsFailedError` where there is no sum.
        """
        plan, units, clients = self._plan, units_of(replies), sorted(replies.messages)
        bits = self._bits(units)
        masked = self._masks.agreed(clients, _ROUND, STATISTICS) if self._masks else None
        orders = {client: masked.order(client) for client in masked.peers} if masked else dict.fromkeys(clients)
        layout, names = Protocol.of(plan).request_layouts.get("publish"), Protocol.of(plan).request_names["publish"]
        requests = {
            client: encode(Message("publish", _ROUND, {TOTAL: float(units)}, arrays), layout, names)
            for client, arrays in orders.items()
        }
        limits = dict.fromkeys(requests, self._reply_bytes(bits))
        answers = self._exchange.send("publish", _ROUND, requests, limits)
        codes, refused = codes_in(answers, self._coding.codes, bits)
        answers = answers.without(refused)
        if masked:
            answers = together(masked.before, answers)
        lost = {client: "has no part in the sum of statistics" for client in clients if client not in codes}
        replies = replies.without({**lost, **answers.failed})
        try:
            total = total_of(plan, self._masks, masked, codes, bits)[0]
        except ClientError as error:
            why = dict.fromkeys(codes, f"statistics have no sum: {printable(str(error))}")
            raise AllClientsFailedError(_ROUND, {**replies.failed, **why}) from None
        return self._combined(signed(total, bits), len(codes)), replies

    def _combined(self, total: NDArray[np.int64], clients: int) -> Arrays:
        task, privacy = self._plan.summed, self._plan.privacy
        assert task is not None, "the plan has statistics"
        arrays = self._coding.mean(total, 1, np.zeros(0, np.float32))
        return task.from_sum(arrays, privacy.unit, privacy.clip, self._coding.noise(clients))

    def _bits(self, units: int) -> int:
        """How many bits a number of the sum has. Raises `InputError` where these are too many."""
        bits = self._coding.sum_bits(units)
        if bits > MOST_BITS:
            raise InputError(
                f"statistics of {units} examples in all would take {bits} bits a number; {MOST_BITS} are most."
            )
        return bits

    def _reply_bytes(self, bits: int) -> int:
        bound = Layout((Spec(CODES, "uint8", (packing.packed_bytes(self._coding.codes, bits),)),))
        return max(
            message_bytes(Protocol.of(self._plan).reply_layouts["publish"], (), bound),
            self._limits.reply_bytes("error"),
        )


def units_of(replies: Replies) -> int:
    """Return how many examples clients say that they have in all, at least one."""
    return max(1, sum(int(message.report["examples"]) for message in replies.messages.values()))
