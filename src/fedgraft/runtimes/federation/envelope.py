"""The envelope of a message: for whom it is, on what the client is to go on from, and what came of it.

A message of the protocol is what the ledger counts. Its envelope is the transport's: some 200 bytes each way.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, TypeVar, get_type_hints

from fedgraft import wire
from fedgraft.errors import WireError
from fedgraft.wire.layouts import Tree

VERSION: Final = 3
"""Of the envelopes; both ends must have the same."""
MOST_ENVELOPE_BYTES: Final = 1 << 12
"""Most bytes that an envelope adds to its message."""
SERVED, STRANGE, LOST, UNSET, REFUSED = "served", "strange", "lost", "unset", "refused"
"""What came of an order: a reply; the node has not joined the run; the memory that it names is not there; nor is the
set-up message; refused, with why."""

Kind = TypeVar("Kind", "Order", "Answer")


@dataclass(frozen=True)
class Order:
    """A request to a client, or to the node itself.

    Args:
        kind: "serve" and "measure" for the client; "join" tells a node what is run and asks who it is; "model" hands
            over a trained model.
        run: name of the run, 32 hexadecimal digits.
        id: 16 random bytes; the answer repeats them.
        client: whom it is for; -1 with "join".
        memory: name of what the client goes on from; b"" as new.
        set_up: fingerprint of the set-up message that the client keeps; b"" for none.
        set_up_message: that message, for a node that has not got it.
        keep: names of memories of the run's checkpoints, which the node keeps beside the newest.
        request: a message of the protocol, or what "join" and "model" bring.
        scored: with "measure" a message with the model to score.
        told: with "join" what the server has made of what the client has claimed; b"" for nothing yet.
        head: with "join" the last head that the server was told of the node's audit log; b"" for none.
    """

    kind: str
    run: str
    id: bytes
    client: int = -1
    memory: bytes = b""
    set_up: bytes = b""
    set_up_message: bytes = b""
    keep: bytes = b""
    request: bytes = b""
    scored: bytes = b""
    told: bytes = b""
    head: bytes = b""


@dataclass(frozen=True)
class Answer:
    """What came of an order.

    Args:
        id: the order's.
        run: the order's.
        client: who answers.
        status: one of `SERVED`, `STRANGE`, `LOST`, `UNSET`, `REFUSED`.
        reply: a message of the protocol; with `REFUSED` a code of `engine.protocol.codes`.
        memory: name of what the client remembers now, under a key of its site and the run.
        set_up: fingerprint of the set-up message that it keeps.
        flops: operations that the request took.
        head: SHA-256 of the last line of the node's audit log, 32 bytes; b"" where it keeps none.
    """

    id: bytes
    run: str
    client: int
    status: str
    reply: bytes = b""
    memory: bytes = b""
    set_up: bytes = b""
    flops: int = 0
    head: bytes = b""


def packed(envelope: Order | Answer) -> bytes:
    """Return an envelope as bytes. What a node answers goes through `transport.leaving` in place of this."""
    return wire.pack(tree(envelope))


def tree(envelope: Order | Answer) -> dict[str, Tree]:
    """Return the fields of an envelope."""
    return {"version": VERSION, **asdict(envelope)}


def opened(kind: type[Kind], data: bytes) -> Kind:
    """Return an envelope from its bytes. Raises `WireError` for anything else."""
    tree: Any = wire.unpack(data)
    if not isinstance(tree, Mapping) or tree.get("version") != VERSION:
        raise WireError(f"no envelope of version {VERSION}")
    hints = _HINTS[kind.__name__]
    values: dict[str, Any] = {field.name: tree.get(field.name) for field in fields(kind)}
    for name, value in values.items():
        if type(value) is not hints[name]:
            raise WireError(f"{name} of an envelope is no {hints[name].__name__}")
    return kind(**values)


_HINTS: Final = {kind.__name__: get_type_hints(kind) for kind in (Order, Answer)}
"""Types of each envelope's fields."""
