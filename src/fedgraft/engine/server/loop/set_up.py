"""Round 0: every client says how much data it has and publishes statistics; the server answers with combined ones."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedgraft import wire
from fedgraft.contracts import randomness
from fedgraft.engine.plan import Plan
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.beginning import Beginning
from fedgraft.engine.server.exchange import Exchange, Replies, check_finite
from fedgraft.engine.server.halo import halos_of
from fedgraft.engine.server.ledger import Ledger
from fedgraft.engine.server.limits import Limits
from fedgraft.engine.server.rounds.safeguards import Safeguards
from fedgraft.engine.server.sums.code_sums import SummedStatistics, units_of
from fedgraft.errors import AllClientsFailedError, BudgetError, ClientError, WireError, printable
from fedgraft.wire import Message
from fedgraft.wire.layouts import VARIABLE, Arrays, Layout
from fedgraft.wire.messages import at_most, check_decoded

LOG = logging.getLogger("fedgraft.engine.server.loop.set_up")
LARGEST_PUBLISHED = 2.0**60
"""Of numbers that clients publish, such as features: sums and products of many stay finite."""


@dataclass(frozen=True)
class SetUpResult:
    """The clients' answers at the start: profiles, halos as `ExchangeState.halos`, and {client: reason} of who failed.

    A profile is {name: scalar}: "examples", and what the selector needs to know; empty for a client that failed.
    """

    profiles: list[dict[str, float]]
    halos: list[dict[str, Any]]
    failed: Mapping[int, str]


class SetUp:
    """The messages before the first round, at most so many bytes each by `limits`; the ledger is charged with them.

    `budget_bytes` is the run's byte budget; 0 = none. `safeguards` say how much clients may publish, each and together,
    and what was done `before` of which nodes of others.
    """

    def __init__(
        self,
        plan: Plan,
        exchange: Exchange,
        limits: Limits,
        ledger: Ledger,
        budget_bytes: int,
        safeguards: Safeguards,
        before: Beginning,
    ) -> None:
        self._plan, self._exchange, self._limits, self._before = plan, exchange, limits, before
        self._ledger, self._budget_bytes, self._safeguards = ledger, budget_bytes, safeguards

    def run(self, clients: Sequence[int]) -> SetUpResult:
        """Ask every client what it has. Raises `BudgetError` and `AllClientsFailedError`."""
        hello = wire.encode(Message("hello", 0))
        limit = self._hello_limit(len(hello), len(clients))
        requests = dict.fromkeys(clients, hello)
        replies = self._exchange.send("hello", 0, requests, dict.fromkeys(clients, limit), self._charged)
        replies = replace(replies, failed=self._explained(replies, limit))
        published, refused = self._published(replies)
        replies = replies.without(refused)
        if not replies.messages:
            raise self._nobody(replies, replies, limit if self._hello_varies else 0)
        halos, refused = halos_of(self._plan, published, len(clients))
        replies = replies.without(refused)
        self._check_units(replies)
        replies = self._added(replies, len(clients)) if self._plan.summed else self._combine(replies, published)
        profiles = [dict(replies.messages[c].report) if c in replies.messages else {} for c in clients]
        return SetUpResult(profiles, halos, replies.failed)

    def _check_units(self, replies: Replies) -> None:
        """Raise `InputError` where noise is meant for fewer units than there are."""
        privacy = self._plan.privacy
        privacy.check_units(units_of(replies) if privacy.of_examples else len(replies.messages))

    def _added(self, replies: Replies, clients: int) -> Replies:
        """Have clients add statistics up, and send every client what comes of it; those that have failed are left."""
        statistics = SummedStatistics(self._plan, self._exchange, self._limits, clients)
        most = statistics.most_bytes(units_of(replies))
        self._afford(most * len(replies.messages), "adding statistics up")
        combined, replies = statistics.asked(replies)
        return self._answered(replies, dict.fromkeys(replies.messages, combined))

    def _published(self, replies: Replies) -> tuple[dict[int, Arrays], dict[int, str]]:
        """{client: what it published}, and {client: why its reply is refused}."""
        published: dict[int, Arrays] = {}
        refused: dict[int, str] = {}
        for client, message in replies.messages.items():
            if not _is_count(message.report["examples"]):
                refused[client] = f"claims to have {message.report['examples']} training examples"
            elif message.arrays and self._plan.publishing:
                try:
                    arrays = self._decoded(message.arrays, self._plan.statistics_layout)
                    self._plan.publishing.check(arrays)
                    self._check_named(client, arrays)
                    published[client] = arrays
                except (WireError, ClientError) as error:
                    refused[client] = printable(str(error))
                refused |= self._too_much(published)
        return published, refused

    def _check_named(self, client: int, arrays: Arrays) -> None:
        """Raise `WireError` where a client names nodes of others that none of its edges was joined to."""
        for named in self._plan.naming.named(arrays) if self._plan.naming else ():
            if reason := self._before.misfit(client, named):
                LOG.warning("Client %d takes no part: it %s.", client, reason)
                raise WireError(reason)

    def _decoded(self, coded: Arrays, layout: Layout) -> Arrays:
        """What a client published, of a layout, sound so far. Raises `WireError` and `ClientError`."""
        with at_most(self._safeguards.hello_bytes, "safeguards.hello_bytes"):
            arrays = self._plan.rows.decode(coded, layout)
            check_decoded(_size(arrays))
        check_finite(arrays)
        _check_sizes(arrays)
        return arrays

    def _too_much(self, published: dict[int, Arrays]) -> dict[int, str]:
        """{client: reason} of the largest, which are dropped here while all together are beyond their limit."""
        refused: dict[int, str] = {}
        most, sizes = self._safeguards.set_up_bytes, {client: _size(arrays) for client, arrays in published.items()}
        while (total := sum(sizes.values())) > most:
            largest = max(sizes, key=lambda client: sizes[client])
            refused[largest] = (
                f"left out: what all publish takes {total} bytes once decoded, of which its own {sizes.pop(largest)}, "
                f"safeguards.set_up_bytes = {most}"
            )
            del published[largest]
        return refused

    def _explained(self, replies: Replies, limit: int) -> dict[int, str]:
        """Why clients failed, with the option that limits a reply where that is why."""
        most = self._safeguards.hello_bytes
        if not self._hello_varies or limit < most:
            return dict(replies.failed)
        note = f" (safeguards.hello_bytes = {most})"
        return {c: why + note * (replies.bytes[c].up >= most) for c, why in replies.failed.items()}

    def _combine(self, replies: Replies, published: Mapping[int, Arrays]) -> Replies:
        """Send every client the combined statistics, if any were published."""
        if not replies.messages:
            raise AllClientsFailedError(0, dict(replies.failed))
        published = {client: arrays for client, arrays in published.items() if client in replies.messages}
        if not published or self._plan.publishing is None:
            return replies
        return self._answered(replies, self._plan.publishing.combine(published))

    def _answered(self, replies: Replies, combined: Mapping[int, Arrays]) -> Replies:
        """Send every client the combined statistics; those that cannot take them have failed."""
        requests = {client: self._request(client, combined[client]) for client in sorted(combined)}
        limit = self._limits.reply_bytes("statistics")
        self._afford(
            sum(map(len, requests.values())) + limit * len(requests), "sending every client the combined statistics"
        )
        answers = self._exchange.send("statistics", 0, requests, dict.fromkeys(requests, limit))
        replies = replies.without(answers.failed)
        if not replies.messages:
            raise AllClientsFailedError(0, dict(replies.failed))
        return replies

    def _request(self, client: int, arrays: Arrays) -> bytes:
        """The message with combined statistics."""
        plan = self._plan
        g = randomness.lazy(plan.seed, "rows-combined", 0, client)
        coded, _ = plan.rows.encode(arrays, plan.rows.init(plan.combined_layout), g)
        return wire.encode(Message("statistics", 0, {}, coded), Protocol.of(plan).request_layouts["statistics"])

    # --- what it costs -----------------------------------------------------------------------------------------------

    @property
    def _charged(self) -> bool:
        """True where asking takes messages: clients that share and publish nothing hear of nobody."""
        plan = self._plan
        return plan.connected or plan.summed is not None or bool(plan.statistics_layout.specs)

    @property
    def _hello_varies(self) -> bool:
        return any(VARIABLE in spec.shape for spec in Protocol.of(self._plan).reply_layouts["hello"])

    def _hello_limit(self, request_bytes: int, clients: int) -> int:
        """The longest reply to a hello: as long as the layout says, or an equal share of the budget where it varies."""
        if not self._charged:
            return self._limits.reply_bytes("hello")
        layout = None if self._hello_varies else Protocol.of(self._plan).reply_layouts["hello"]
        least = wire.message_bytes(layout, Protocol.of(self._plan).report("hello"))
        self._afford((request_bytes + least) * clients, "asking every client what it has")
        most = self._safeguards.hello_bytes if self._hello_varies else self._limits.reply_bytes("hello")
        return min(most, self._budget_bytes // clients - request_bytes) if self._budget_bytes else most

    def _nobody(self, replies: Replies, last: Replies, limit: int) -> Exception:
        """The error where all have failed, the `last` time with at most `limit` bytes each; 0 = as long as they are."""
        longest = max(traffic.up for traffic in last.bytes.values())
        if self._budget_bytes and limit and longest == limit < self._safeguards.hello_bytes:
            return self._too_small(f"clients have {limit} bytes each for what they publish, which is not enough")
        return AllClientsFailedError(0, dict(replies.failed))

    def _afford(self, cost: int, what: str) -> None:
        if self._budget_bytes and self._ledger.total + cost > self._budget_bytes:
            left = self._budget_bytes - self._ledger.total
            raise self._too_small(f"{what} takes {cost} bytes, {left} are left")

    def _too_small(self, why: str) -> BudgetError:
        return BudgetError(f"budget.bytes = {self._budget_bytes} does not pay for one round: {why}.")


def _check_sizes(arrays: Arrays) -> None:
    """Raise `ClientError` for numbers with which nobody could compute, nor a codec of the server."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and array.size and (largest := float(np.abs(array).max())) > LARGEST_PUBLISHED:
            raise ClientError(f"{name} of the reply holds {largest:.3g}; at most {LARGEST_PUBLISHED:.3g} can be")


def _size(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays.values())


def _is_count(value: float) -> bool:
    return 0 <= value < 2**31 and value == int(value)
