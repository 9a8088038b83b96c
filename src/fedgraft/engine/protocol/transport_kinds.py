"""What leaves a client in place of an answer, and what leaves a node around its messages."""

from typing import Final

from fedgraft.engine.protocol.message_kind import MessageKind, Rounds

ERROR: Final = MessageKind(
    "error",
    0,
    "",
    "a code of what went wrong: nothing of its data",
    rounds=Rounds.ANY,
    requested=False,
)
JOIN: Final = MessageKind(
    "join",
    None,
    "joining",
    "who it is, a keyed fingerprint of its data, and what makes tables fit together",
    rounds=Rounds.BEFORE,
)
ENVELOPE: Final = MessageKind(
    "envelope",
    None,
    "joining",
    "around each message: numbers, and keyed fingerprints of what it remembers",
    rounds=Rounds.ANY,
    requested=False,
)
REFUSAL: Final = MessageKind(
    "refusal",
    None,
    "joining",
    "a code of why an order is not served",
    rounds=Rounds.ANY,
    requested=False,
)
HAND_OVER: Final = MessageKind(
    "model",
    None,
    "handing over",
    "at a run's end, hash and length of its audit log",
    rounds=Rounds.ANY,
)
KINDS: Final = (ERROR, JOIN, ENVELOPE, REFUSAL, HAND_OVER)
