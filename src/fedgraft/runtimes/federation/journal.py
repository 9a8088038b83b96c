"""A node's journal: every answer is in the audit log before it leaves, and a round is served once."""

import hashlib
import math
import re
import secrets
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

from fedgraft import wire
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.spending import ANSWERED, NOISE, Spending
from fedgraft.engine.protocol import codes, transport
from fedgraft.engine.protocol.sums import told_by_kind
from fedgraft.engine.protocol.table import TABLE
from fedgraft.errors import RefusedError, WireError
from fedgraft.runtimes.federation import envelope
from fedgraft.runtimes.federation.audit import AuditLog
from fedgraft.runtimes.federation.places import Place, Places, RevealedOrders
from fedgraft.wire.masking import points_in

Sent: TypeAlias = dict[Place, dict[str, str]]
"""{place: {SHA-256 of the request: that of the reply}}."""
SENT, REFUSED = "sent", "refused"
"""Decisions."""
BEGUN: Final = "begun"
"""Kind of the line with which a run begins in this log; it has the run's nonce."""
NONCE_BYTES: Final = 32
MOST_HEAD_BYTES: Final = 1 << 10
"""Most bytes of a log's head, packed."""
OF_CLIENT: Final = ("serve", "measure")
"""Kinds of orders that bring a request to the client."""
RAISE: Final = (
    "More may be told where the site says so: a larger policy.epsilon in the file of 'fedgraft node --policy FILE'. "
    "Without such a file it is the epsilon of the recipe in the node's folder"
)
FORGET: Final = """Where that is lost for good, the server's operator takes the site out of \
server/audits/heads.json: what was told before is not counted any more."""
"""What helps where a log is not the one of which the server was told."""
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_WHY: Final = {
    envelope.STRANGE: "the node has not joined the run",
    envelope.LOST: "the memory that it names is lost",
    envelope.UNSET: "the set-up message that it names is lost",
}
"""{status of an answer that holds nothing: why}."""


class Journal:
    """What has left a node in the run at hand, by the log of all.

    Requests of one place (`places.Places`) are answered once, by one request, or by as many as the site's policy has.
    Made again, it has the same answer, byte for byte; another one has none. A node that has lost the message that set
    it up takes the one that it has served, and no other.

    Where keys are signed no update is told at an order at which shares were revealed (`revealed.RevealedOrders`).

    An error tells something, too. Where a reply would be masked or hold noise, an error in place of it counts as the
    answer. Any other error holds a code, and may be followed by an answer.

    Args:
        log: of the node.
        most_points: of others' ids, that a run may have masked in private set intersection.
    """

    def __init__(self, log: AuditLog, most_points: int = 1 << 20) -> None:
        self._log, self._most_points = log, most_points
        self._places = Places()
        self._sent: Sent = {}
        self._revealed = RevealedOrders()
        self._set_up = ""
        self._noise: Mapping[str, Mapping[str, Any]] = {}
        self._spending: Spending | None = None

    def begin(self, run: str, plan: Plan) -> bytes:
        """Take up a run by its name; return its nonce in this log, 32 bytes.

        It is drawn as the run begins in this log, and is the same as long as the log is there. Masks and noise are
        functions of it: with another log they are others, and none is used for two requests.
        """
        self._noise, self._spending = told_by_kind(plan), None
        if self._noise:
            told = (line for key in (NOISE, ANSWERED) for line in self._log.holding(f'"{key}":'))
            self._spending = Spending(plan.policy, told)
        self._places = Places(plan)
        lines = [*self._log.holding(run)]
        self._sent, self._revealed = self._sent_by(lines), RevealedOrders(plan)
        self._revealed.note(lines)
        self._set_up = next((line["set_up"] for line in reversed(lines) if "set_up" in line), "")
        nonce = next((line["nonce"] for line in lines if line["kind"] == BEGUN), "")
        if not nonce:
            nonce = drawn_nonce().hex()
            self._log.add({"run": run, "kind": BEGUN, "nonce": nonce})
        return bytes.fromhex(nonce)

    # --- what may be answered ----------------------------------------------------------------------------------------

    def check(self, order: envelope.Order) -> None:
        """Raise `RefusedError` for a request to the client that is not served; `WireError` where it is no message."""
        kind, round, number = wire.place_of(order.request)
        if order.set_up_message and self._set_up not in ("", _sha256(order.set_up_message)):
            words = f"round {round}: {kind!r} comes with another set-up message than was served"
            raise RefusedError(words, codes.SET_UP)
        if words := self._places.outside(kind, round):
            raise RefusedError(words, codes.OUTSIDE)
        request, places = _request(order), self._places.taken(kind, round, number)
        if any(request in self._sent.get(place, {}) for place in places):
            return
        if any(len(self._sent.get(place, {})) >= self._places.most(place) for place in places):
            words = f"round {round} was served: {kind!r} was asked for by another request"
            raise RefusedError(words, codes.SERVED)
        if self._revealed.holds(kind, order.request):
            words = f"round {round}: shares were revealed at this model and these scales: another cohort's sum"
            raise RefusedError(words, codes.BEYOND)
        self._check_spent(kind)

    def _check_spent(self, kind: str) -> None:
        """Raise `RefusedError` where another reply with noise is more than the run, or the site, allows."""
        if kind not in self._noise or self._spending is None:
            return
        told = sum(place[0] == kind for place in self._sent)
        if (most := self._places.most_noised(kind)) and told >= most:
            words = f"noise lasts for {most} replies of kind {kind!r} in a run, of which the client has told all"
            raise RefusedError(words, codes.SPENT)
        if why := self._spending.refusal(self._noise[kind]):
            raise RefusedError(f"{why}. {RAISE}", codes.SPENT)

    def check_answer(self, order: envelope.Order, answer: envelope.Answer) -> None:
        """Raise `RefusedError` where a request that was answered has another answer now."""
        kind, round, number = wire.place_of(order.request)
        if not (_tells(answer) or (self.counts(order) and _came_of_data(answer))):
            return
        request = _request(order)
        before = {self._sent.get(place, {}).get(request) for place in self._places.taken(kind, round, number)} - {None}
        if before - {_sha256(answer.reply)}:
            words = f"round {round} was served: {kind!r} has another answer now, which is not sent"
            raise RefusedError(words, codes.CHANGED)

    def check_head(self, head: bytes) -> None:
        """Raise `RefusedError` where the log lacks a line of which the server was told; b"" is of none."""
        if head and not any(line["hash"] == head.hex() for line in self._log.holding(head.hex())):
            raise RefusedError(
                f"the log has no line with the hash {head.hex()}, which the server was told: it was put back from a "
                f"copy, or another one was begun. Put back the newest one. {FORGET}",
                codes.LOG,
            )

    @property
    def head(self) -> bytes:
        """Bytes, SHA-256 of the log's last line."""
        return bytes.fromhex(self._log.head)

    def check_points(self, told: bytes) -> None:
        """Raise `RefusedError` for ids of others that a run has not masked, and that are too many or not the first."""
        if (count := points_in(told)) is None:
            return
        if count > self._most_points:
            words = f"the server has sent {count} points to mask, of which limits.points allows {self._most_points}"
            raise RefusedError(words, codes.MATCHED)
        if _sha256(told) not in self._sent.get(MASKED_IDS, {_sha256(told): ""}):
            raise RefusedError("the server has sent other points to mask than before in this run", codes.MATCHED)

    def counts(self, order: envelope.Order) -> bool:
        """Return whether an error in place of a reply to the client's request counts as the reply."""
        return order.kind in OF_CLIENT and self._places.counts(_place(order)[0])

    # --- what has been answered --------------------------------------------------------------------------------------

    def enter(
        self,
        order: envelope.Order,
        answer: envelope.Answer,
        tells: Collection[str] = (),
        why: str = "",
        failed: bool = False,
    ) -> None:
        """Have an answer's line on disk before it leaves.

        Args:
            order: what was asked.
            answer: what leaves.
            tells: what it tells of the client.
            why: in words that stay here, where it is a refusal or an error.
            failed: whether the client tried to serve the request, and could not.

        Raises `MachineError` where the disk does not take it.
        """
        kind, round, number = _place(order)
        line: dict[str, Any] = {"run": order.run, "kind": kind, "round": round, "number": number}
        line |= {"purpose": (TABLE[kind].purpose if kind in TABLE else "") or "unknown", "bytes": len(answer.reply)}
        line |= {"sha256": _sha256(answer.reply), "decision": SENT if answer.status == envelope.SERVED else REFUSED}
        line |= {"code": answer.reply.decode()} if answer.status == envelope.REFUSED else {}
        line |= {"why": why or _WHY.get(answer.status, "")} if why or answer.status in _WHY else {}
        if order.kind == "join" and answer.status == envelope.SERVED and points_in(order.told) is not None:
            line |= {"request": _sha256(order.told), "reply": "points"}
        elif order.kind in OF_CLIENT and (answer.status == envelope.SERVED or failed):
            line |= self._of_client(order, answer, tells, (kind, round, number))
        self._log.add(line)
        self._note(line)

    def _of_client(
        self, order: envelope.Order, answer: envelope.Answer, tells: Collection[str], place: Place
    ) -> dict[str, Any]:
        """What a line says of an answer of the client, beside what all lines say."""
        request, reply = _request(order), "error"
        if answer.status == envelope.SERVED:
            reply = wire.kind_of(answer.reply)
        line: dict[str, Any] = {"request": request, "reply": reply, "tells": sorted(tells)}
        is_counted = reply != "error" or self._places.counts(place[0])
        line |= {"counts": True} if is_counted and reply == "error" else {}
        line |= {"set_up": _sha256(order.request)} if reply == "statistics" else {}
        line |= self._revealed.told(reply, order.request)
        noise, told = self._noise.get(place[0]), self._sent.get(self._places.taken(*place)[0], {})
        if self._spending and noise and is_counted and request not in told:
            epsilon = self._spending.note(noise)
            line |= {**noise, "epsilon": epsilon if math.isfinite(epsilon) else None}
        return line

    def _note(self, line: Mapping[str, Any]) -> None:
        for place, sent in self._sent_by([line]).items():
            self._sent.setdefault(place, {}).update(sent)
        self._revealed.note([line])
        self._set_up = line.get("set_up", self._set_up)

    def _sent_by(self, lines: Iterable[Mapping[str, Any]]) -> Sent:
        """What has left by the lines of a log, but for errors that do not count."""
        sent: Sent = {}
        for line in lines:
            if not line.get("counts") and (line.get("decision") != SENT or line.get("reply", "error") == "error"):
                continue
            for place in self._places.taken(line["kind"], line["round"], line["number"]):
                sent.setdefault(place, {})[line["request"]] = line["sha256"]
        return sent

    def end(self) -> bytes:
        """Sign the log at the end of a run; return its head and how many lines it has, packed, for the server."""
        self._log.sign()
        return transport.leaving(transport.ENDING, {"lines": self._log.lines, "head": self._log.head})


MASKED_IDS: Final = ("join", 0, 0)
"""Place of ids of others that a site has masked."""


def drawn_nonce() -> bytes:
    """Return a nonce for a run that begins in a log."""
    return secrets.token_bytes(NONCE_BYTES)


def head_in(content: bytes) -> Mapping[str, Any]:
    """Return what `Journal.end` made, "lines" and "head"; {} for anything else, and for nothing."""
    with suppress(WireError):
        tree: Any = wire.unpack(content)
        if isinstance(tree, Mapping) and type(tree.get("lines")) is int and _HASH.fullmatch(str(tree.get("head"))):
            return {"lines": tree["lines"], "head": tree["head"]}
    return {}


def _request(order: envelope.Order) -> str:
    """SHA-256 of the memory that the client is to go on from, the model to score, and the request."""
    digest = hashlib.sha256()
    for part in (order.memory, order.scored, order.request):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


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


def _came_of_data(answer: envelope.Answer) -> bool:
    """Return whether an answer may depend on the client's data."""
    return answer.status in (envelope.SERVED, envelope.REFUSED)


def _sha256(reply: bytes) -> str:
    return hashlib.sha256(reply).hexdigest()
