"""Statistics that clients add up before the first round: the server learns their sum, and all get the same back."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.abilities.summing import SumCoding
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.secure_sum import CODES, MOST_BITS, TOTAL
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.protocol.sums import STATISTICS
from fedgraft.engine.server.exchange import Exchange, Replies, together
from fedgraft.engine.server.limits import Limits
from fedgraft.engine.server.sums.sum_codes import codes_in, masks_of, signed, total_of
from fedgraft.errors import AllClientsFailedError, ClientError, InputError, printable
from fedgraft.wire import Message, encode, message_bytes, packing
from fedgraft.wire.layouts import Arrays, Layout, Spec

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
