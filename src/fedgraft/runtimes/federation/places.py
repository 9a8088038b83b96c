"""Where requests belong in a run, by the protocol's table, and the orders at which a node has revealed shares."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from fedgraft import wire
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.secure_sum import Assurance
from fedgraft.engine.protocol.protocol import Protocol, digest_of
from fedgraft.engine.protocol.sums import UPDATES
from fedgraft.engine.protocol.table import TABLE

Place: TypeAlias = tuple[str, int, int]
"""Kind of a request, its round, and which segment, layer or stage it is about; or a sum (`SUM`), its round and pad."""
SUM: Final = "sum"


class Places:
    """Places of the requests of a plan.

    Of two requests of one sum, whose keys and noise are functions of the round, the second could undo the first. So a
    request that adds something to a masked sum takes the place of that sum, too.

    Args:
        plan: of the run at hand; None = no run has begun.
    """

    def __init__(self, plan: Plan | None = None) -> None:
        self._plan = plan
        self._protocol = Protocol.of(plan) if plan else None
        self._masked = plan is not None and plan.collection.assurance > Assurance.NONE

    def taken(self, kind: str, round: int, number: int) -> list[Place]:
        """Return the places that a request takes, at least one: its own, and that of the sum that it adds to."""
        own = (kind, 0, 0) if self._is_once(kind) else (kind, round, number)
        pad = self._pad(kind, number)
        return [own] if pad is None else [own, (SUM, round, pad)]

    def _is_once(self, kind: str) -> bool:
        return self._plan is not None and kind in TABLE and TABLE[kind].once(self._plan)

    def _pad(self, kind: str, number: int) -> int | None:
        """Which masked sum of its round a request adds to; None for none."""
        added = TABLE[kind].added if self._masked and kind in TABLE else None
        if added is None:
            return None
        return added.segment + (number if TABLE[kind].detail == "segment" else 0)

    def most(self, place: Place) -> int:
        """Return how many different requests of a place are answered."""
        kind = place[0]
        if kind == SUM or self._plan is None or self._is_once(kind):
            return 1
        several = self._protocol.several(kind) if self._protocol else 1
        return several * (1 if self._plan.collection.hides else self._plan.policy.queries_per_round)

    def outside(self, kind: str, round: int) -> str:
        """Return why a round is none of the run; "" where it is one."""
        row = TABLE.get(kind)
        if row is None or self._plan is None or row.within(round, self._plan):
            return ""
        return f"round {round} is none of the run: a message of kind {kind!r} is for rounds: {row.rounds.words}"

    def most_noised(self, kind: str) -> int:
        """Return how many replies of a kind with noise a run has; 0 = not known."""
        return self._protocol.spends.get(kind, 0) if self._protocol else 0

    def counts(self, kind: str) -> bool:
        """Return whether an error in place of a reply of this kind counts as the reply."""
        return self.most_noised(kind) > 0 or self._pad(kind, 0) is not None


ORDER: Final = "order"
"""Key of a log's line of an update that was masked: digest of the order."""


class RevealedOrders:
    """Know the orders of a run at which shares were revealed.

    Args:
        plan: of the run; None = no run has begun.
    """

    def __init__(self, plan: Plan | None = None) -> None:
        self._plan = plan if plan and plan.collection.assurance is Assurance.SIGNED else None
        self._orders: dict[int, str] = {}
        self._revealed: set[str] = set()

    def told(self, kind: str, request: bytes) -> dict[str, str]:
        """Return what the line of an answer says of its order; {} where that does not matter."""
        return {ORDER: self._digest(request)} if self._plan and kind == "train" else {}

    def note(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Take up lines of the log, of answers that have left."""
        for line in lines:
            if ORDER in line:
                self._orders[line["round"]] = line[ORDER]
            elif (line["kind"], line.get("reply"), line.get("number")) == ("unmask", "unmask", UPDATES):
                self._revealed |= {self._orders[line["round"]]} if line["round"] in self._orders else set()

    def holds(self, kind: str, request: bytes) -> bool:
        """Return whether shares were revealed at the order that a request brings."""
        return bool(self._revealed) and kind == "train" and self._digest(request) in self._revealed

    def _digest(self, request: bytes) -> str:
        assert self._plan is not None, "orders are known where keys are signed"
        protocol = Protocol.of(self._plan)
        return digest_of(self._plan, wire.decode(request, protocol.request_layouts, protocol.request_names)).hex()
