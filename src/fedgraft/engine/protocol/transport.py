"""The way out of a node: all that it sends beside the messages of the gate, field by field, passes here.

A message of the protocol passes the gate (`protocol.gate`). It travels in an envelope. As a node joins, and as a run
ends, it says something of itself that is no message. What is said there is a field of a row of `transport_kinds`, or it
does not leave. A field that is made of data is keyed: who lacks the site's key cannot try data until they fit.
"""

import hmac
from collections.abc import Mapping
from typing import Final

from fedgraft import wire
from fedgraft.contracts.runtime import FINGERPRINT_BYTES, fingerprint
from fedgraft.engine.protocol import transport_kinds
from fedgraft.engine.protocol.codes import is_code
from fedgraft.wire.layouts import Tree

ENVELOPE, JOINING, ENDING = (
    kind.name for kind in (transport_kinds.ENVELOPE, transport_kinds.JOIN, transport_kinds.HAND_OVER)
)
"""What leaves a node: the envelope of each answer; what a node says of itself; its audit log's head as a run ends."""
FIELDS: Final = {row.name: row.fields for row in transport_kinds.KINDS if row.fields}
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
