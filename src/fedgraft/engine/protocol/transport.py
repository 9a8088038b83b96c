"""The way out of a node: all that it sends beside the messages of the gate, field by field, passes here.

A message of the protocol passes the gate (`protocol.gate`). It travels in an envelope. As a node joins, and as a run
ends, it says something of itself that is no message. What is said there is a field of the table below, or it does not
leave. A field that is made of data is keyed: who lacks the site's key cannot try data until they fit.
"""

import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple

from fedgraft import wire
from fedgraft.contracts.runtime import FINGERPRINT_BYTES, fingerprint
from fedgraft.engine.protocol.codes import is_code
from fedgraft.wire.layouts import Tree

ENVELOPE, JOINING, ENDING = "envelope", "joining", "ending"
"""What leaves a node: the envelope of each answer; what a node says of itself; its audit log's head as a run ends."""
WORD, KEYED, ECHO, GATED = "word", "keyed", "echo", "gated"
"""How a field may be made: of nothing but what the operators chose or a fixed list has; of data, under a key that the
server has not; of the server's own words; by the gate, or in a way that the policy of the site names."""


class Field(NamedTuple):
    """A field that may leave.

    Args:
        kind: type of its value.
        made: one of `WORD`, `KEYED`, `ECHO`, `GATED`.
        tells: what it tells, for people.
    """

    kind: type
    made: str
    tells: str


FIELDS: Final[Mapping[str, Mapping[str, Field]]] = {
    ENVELOPE: {
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
    },
    JOINING: {
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
    },
    ENDING: {
        "lines": Field(int, WORD, "how many lines the audit log has"),
        "head": Field(str, KEYED, "hash of its last line, which has random bits that stay at the site"),
    },
}
"""{what leaves: {name of a field: what it may be}}."""
REFUSED: Final = "refused"
"""Status of an envelope whose reply is a code."""


def leaving(what: str, content: Mapping[str, Tree]) -> bytes:
    """Return what leaves a node, one of `FIELDS`, as bytes.

    Raises `ValueError` for a field that is not declared, or of another type, and for a refusal that is no code.
    """
    declared = FIELDS[what]
    for name, value in content.items():
        if name not in declared:
            raise ValueError(f"{name!r} is no field of what leaves as {what}: {', '.join(declared)}")
        if type(value) is not declared[name].kind:
            raise ValueError(f"{name} of {what} must be of type {declared[name].kind.__name__}")
    if what == ENVELOPE and content["status"] == REFUSED and not is_code(bytes(content["reply"]).decode()):  # type: ignore[arg-type]
        raise ValueError("a refusal must be a code of `engine.protocol.codes`")
    return wire.pack({**content})


def keyed(secret: bytes, purpose: str, content: bytes) -> bytes:
    """Return 16 bytes by which content is known again, by nobody who lacks the secret. Raises `ValueError` without one.

    `purpose` says what for, and in which run where it is of one: equal content of two purposes looks different.
    """
    if not secret:
        raise ValueError(f"{purpose} would leave without a key, and whoever knows most of the data could try the rest")
    framed = purpose.encode()
    return hmac.digest(secret, len(framed).to_bytes(8, "big") + framed + content, "sha256")[:FINGERPRINT_BYTES]


def known_alike(secret: bytes, purpose: str, content: bytes) -> bytes:
    """Return 16 bytes that all sites have alike of equal content, as `keyed` under the secret that they have in common.

    Where they have none it is open: whoever knows most of the content can try the rest.
    """
    return keyed(secret, purpose, content) if secret else fingerprint(content)
