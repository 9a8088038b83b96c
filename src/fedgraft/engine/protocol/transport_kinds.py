"""What leaves a client in place of an answer, and what leaves a node around its messages."""

from typing import Final

from fedgraft.engine.protocol.message_kind import ECHO, GATED, KEYED, WORD, Field, MessageKind, Rounds

_AROUND: Final = {
    "version": Field(int, WORD, "version of envelopes"),
    "id": Field(bytes, ECHO, "the order's"),
    "run": Field(str, ECHO, "the order's"),
    "client": Field(int, WORD, "which client answers"),
    "status": Field(str, WORD, "what came of the order"),
    "reply": Field(bytes, GATED, "a message that the gate has passed, a code, or what is said as below"),
    "memory": Field(bytes, KEYED, "whether what the client remembers is what it was before in this run"),
    "set_up": Field(bytes, ECHO, "which of the server's own messages has set the client up"),
    "flops": Field(int, WORD, "operations of the request; 0 where sums are masked or hold noise"),
    "head": Field(bytes, KEYED, "hash of the audit log's last line, which has random bits that stay at the site"),
}
_JOINING: Final = {
    "name": Field(str, WORD, "the site's name, as the operator gave it"),
    "python": Field(str, WORD, "version of Python"),
    "fedgraft": Field(str, WORD, "version of this package"),
    "torch": Field(str, WORD, "version of torch"),
    "numpy": Field(str, WORD, "version of NumPy"),
    "tables": Field(dict, KEYED, "whether tables that all sites have are the same; open where they have no secret"),
    "mark": Field(bytes, KEYED, "whether sites have the same secret"),
    "published": Field(bytes, GATED, "statistics of columns: 'columns' of a policy"),
    "claimed": Field(bytes, KEYED, "hashes or points of ids: 'ids' of a policy"),
    "data": Field(str, KEYED, "whether the site's data are what they were"),
}
_ENDING: Final = {
    "lines": Field(int, WORD, "how many lines the audit log has"),
    "head": Field(str, KEYED, "hash of its last line, which has random bits that stay at the site"),
}

ERROR: Final = MessageKind(
    "error",
    0,
    "",
    "a code of what went wrong: nothing of its data",
    rounds=Rounds.ANY,
    request=None,
)
JOIN: Final = MessageKind(
    "join",
    None,
    "joining",
    "who it is, a keyed fingerprint of its data, and what makes tables fit together",
    rounds=Rounds.BEFORE,
    fields=_JOINING,
)
ENVELOPE: Final = MessageKind(
    "envelope",
    None,
    "joining",
    "around each message: numbers, and keyed fingerprints of what it remembers",
    rounds=Rounds.ANY,
    request=None,
    fields=_AROUND,
)
REFUSAL: Final = MessageKind(
    "refusal",
    None,
    "joining",
    "a code of why an order is not served",
    rounds=Rounds.ANY,
    request=None,
)
HAND_OVER: Final = MessageKind(
    "model",
    None,
    "handing over",
    "at a run's end, hash and length of its audit log",
    rounds=Rounds.ANY,
    fields=_ENDING,
)
KINDS: Final = (ERROR, JOIN, ENVELOPE, REFUSAL, HAND_OVER)
