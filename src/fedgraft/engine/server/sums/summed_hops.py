"""What clients tell in the hops of smoothing, added up: of each node the sum of its neighbours' rows, and tallies."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from fedgraft import wire
from fedgraft.contracts.abilities.smoothing import STEPS
from fedgraft.contracts.values import Indices
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.halo_sums import COUNTS, DEGREES, MOST, PLACED, PLACES, ROWS, bits_of, placed
from fedgraft.engine.privacy.secure_sum import BOXES, CODES, MOST_BITS, PRESENT, SCORE_BITS, numbers_of
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.protocol.sums import segment_of
from fedgraft.engine.server.exchange import Exchange, Replies, together
from fedgraft.engine.server.limits import Limits
from fedgraft.engine.server.smoothing.cross_client import CrossClientEdges
from fedgraft.engine.server.smoothing.hops import Hops, Means
from fedgraft.engine.server.sums.sum_codes import codes_in, masks_of, signed, total_of, wide_codes_in
from fedgraft.errors import ClientError, InputError, printable
from fedgraft.secrets.sizes import BOX_BYTES
from fedgraft.wire import Message, packing
from fedgraft.wire.layouts import Arrays, Layout
from fedgraft.wire.packing import Codes


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
