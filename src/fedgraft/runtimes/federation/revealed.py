"""Orders at which a node has revealed shares of a sum of updates, by its log, where keys of masks are signed.

Two sums at one model whose cohorts differ by one client tell that one's update. A client marks such an order in its
memory (`engine.client.masking`), but a server names the memory to go on from. The log is the site's own.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fedgraft import wire
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.secure_sum import Assurance
from fedgraft.engine.protocol.orders import digest_of
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.protocol.sums import UPDATES

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
