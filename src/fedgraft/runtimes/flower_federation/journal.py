"""A node's journal: every answer is in the audit log before it leaves, and a round is served once."""

import hashlib
import math
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

from fedgraft import wire
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.spending import ANSWERED, NOISE, Spending
from fedgraft.engine.protocol.noise import told_by_kind
from fedgraft.engine.protocol.table import TABLE
from fedgraft.errors import WireError
from fedgraft.runtimes.flower_federation import envelope
from fedgraft.runtimes.flower_federation.audit import AuditLog

Place: TypeAlias = tuple[str, int, int]
"""Kind of a request, its round, and which segment, layer or stage it is about."""
SENT, REFUSED = "sent", "refused"
"""Decisions."""
MOST_HEAD_BYTES: Final = 1 << 10
"""Most bytes of a log's head, packed."""
OF_CLIENT: Final = ("serve", "measure")
"""Kinds of orders that bring a request to the client."""
OF_ORDERS: Final = {kind: row.purpose for kind, row in TABLE.items() if row.purpose}
"""{kind: purpose} of messages, and of what is no message: who a node is, and a run's end."""
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_WHY: Final = {
    envelope.STRANGE: "the node has not joined the run",
    envelope.LOST: "the memory that it names is lost",
    envelope.UNSET: "the set-up message that it names is lost",
}
"""{status of an answer that holds nothing: why}."""


class _Asked(NamedTuple):
    """What a server asks a client for.

    Args:
        place: of the request in the run.
        request: SHA-256 of the request, the model to score, and the memory that the client is to go on from.
    """

    place: Place
    request: str

    @classmethod
    def by(cls, order: envelope.Order) -> "_Asked":
        digest = hashlib.sha256()
        for part in (order.memory, order.scored, order.request):
            digest.update(len(part).to_bytes(8, "little") + part)
        return cls(wire.place_of(order.request), digest.hexdigest())


class Journal:
    """What has left a node in the run at hand, by the log of all.

    Requests of one place are answered once, by one request, or by as many as the site's policy has. Made again, it has
    the same answer, byte for byte; another one has none. A reply of kind "error" holds a code and may be followed by an
    answer. Hops of smoothing have no numbers but in sums: so many are answered in a round as the plan has. A node that
    has lost the message that set it up takes the one that it has served, and no other.
    """

    def __init__(self, log: AuditLog) -> None:
        self._log, self._hops, self._queries = log, 0, 1
        self._sent: dict[Place, dict[str, str]] = {}
        self._set_up = ""
        self._noise: Mapping[str, Mapping[str, float]] = {}
        self._spending: Spending | None = None

    def begin(self, run: str, plan: Plan) -> None:
        """Take up a run by its name.

        Of two requests of one sum, whose keys and noise are functions of the round, the second could undo the first.
        """
        added = plan.secure_sum.masked or plan.privacy.active
        self._noise, self._spending = told_by_kind(plan), None
        if self._noise:
            told = (line for key in (NOISE, ANSWERED) for line in self._log.holding(f'"{key}":'))
            self._spending = Spending(plan.policy, told)
        hops = 1 if plan.secure_sum.active else plan.hop_kinds.count("hop")  # those of sums have numbers
        queries = 1 if added else plan.policy.queries_per_round
        lines = [*self._log.holding(run)]
        self._hops, self._queries, self._sent = hops, queries, _sent(lines)
        self._set_up = next((line["set_up"] for line in reversed(lines) if "set_up" in line), "")

    def refusal(self, order: envelope.Order, answer: envelope.Answer | None = None) -> str:
        """Return why a request to the client is not served, or why its answer does not leave; "" where it may.

        Raises `WireError` where the request is no message.
        """
        asked = _Asked.by(order)
        (kind, round, _), sent = asked.place, self._sent.get(asked.place, {})
        if order.set_up_message and self._set_up not in ("", _sha256(order.set_up_message)):
            return f"round {round}: {kind!r} comes with another set-up message than was served"
        if asked.request in sent:
            same = answer is None or not _tells(answer) or _sha256(answer.reply) == sent[asked.request]
            return "" if same else f"round {round} was served: {kind!r} has another answer now, which is not sent"
        if len(sent) < (self._hops if kind == "hop" else 1) * self._queries:
            return self._spending.refusal(self._noise[kind]) if self._spending and kind in self._noise else ""
        return f"round {round} was served: {kind!r} was asked for by another request"

    def enter(self, order: envelope.Order, answer: envelope.Answer, tells: Collection[str] = ()) -> None:
        """Have an answer's line on disk before it leaves, with what it `tells` of the client.

        Raises `MachineError` where the disk does not take it.
        """
        kind, round, number = place = _place(order)
        sha256 = _sha256(answer.reply)
        line: dict[str, Any] = {"run": order.run, "kind": kind, "round": round, "number": number}
        line |= {"purpose": OF_ORDERS.get(kind, "unknown"), "bytes": len(answer.reply), "sha256": sha256}
        if answer.status != envelope.SERVED:
            why = _WHY.get(answer.status) or answer.reply.decode(errors="replace")
            self._log.add({**line, "decision": REFUSED, "why": why})
        elif order.kind not in OF_CLIENT:
            self._log.add({**line, "decision": SENT})
        else:
            request = _Asked.by(order).request
            line |= {"request": request, "reply": wire.kind_of(answer.reply), "tells": sorted(tells)}
            is_set_up = kind == "statistics" and _tells(answer)
            line |= {"set_up": _sha256(order.request)} if is_set_up else {}
            noise = self._noise.get(line["reply"])
            if self._spending and noise and request not in self._sent.get(place, {}):
                epsilon = self._spending.note(noise)
                line |= {**noise, "epsilon": epsilon if math.isfinite(epsilon) else None}
            self._log.add({**line, "decision": SENT})
            if _tells(answer):
                self._sent.setdefault(place, {})[request] = sha256
            self._set_up = line.get("set_up", self._set_up)

    def end(self) -> bytes:
        """Sign the log at the end of a run; return its head and how many lines it has, packed, for the server."""
        self._log.sign()
        return wire.pack({"lines": self._log.lines, "head": self._log.head})


def head_in(content: bytes) -> Mapping[str, Any]:
    """Return what `Journal.end` made, "lines" and "head"; {} for anything else, and for nothing."""
    with suppress(WireError):
        tree: Any = wire.unpack(content)
        if isinstance(tree, Mapping) and type(tree.get("lines")) is int and _HASH.fullmatch(str(tree.get("head"))):
            return {"lines": tree["lines"], "head": tree["head"]}
    return {}


def _sent(lines: Iterable[Mapping[str, Any]]) -> dict[Place, dict[str, str]]:
    """Return {place: {SHA-256 of the request: that of the reply}} of what has left, but for errors."""
    sent: dict[Place, dict[str, str]] = {}
    for line in lines:
        if line.get("decision") == SENT and line.get("reply", "error") != "error":
            sent.setdefault((line["kind"], line["round"], line["number"]), {})[line["request"]] = line["sha256"]
    return sent


def _place(order: envelope.Order) -> Place:
    """Return the place of an order's request, for the log; that of an order to the node itself is its kind."""
    if order.kind not in OF_CLIENT:
        return order.kind if order.kind in ("join", "model") else "unknown", 0, 0
    try:
        return wire.place_of(order.request)
    except WireError:
        return "unknown", 0, 0


def _tells(answer: envelope.Answer) -> bool:
    """Return whether an answer holds a reply of the client that is no error."""
    return answer.status == envelope.SERVED and wire.kind_of(answer.reply) != "error"


def _sha256(reply: bytes) -> str:
    return hashlib.sha256(reply).hexdigest()
