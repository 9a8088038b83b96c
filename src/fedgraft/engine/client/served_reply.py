"""The answer of a client to a request."""

from dataclasses import dataclass

from fedgraft.engine.client.client_memory import Kept


@dataclass(frozen=True)
class ServedReply:
    """The answer of a client to a request.

    Args:
        reply: an encoded message.
        memory: what the client remembers; the very object that was given if nothing changed.
        keep: whether the request must be kept, to be handed to whoever serves this client next (`set_up`).
        flops: operations that it took.
        waits: whether the client's round waits here for rows.
        reason: why the reply is an error, in words that stay on the client's machine; "" for any other.
    """

    reply: bytes
    memory: Kept
    keep: bool = False
    flops: int = 0
    waits: bool = False
    reason: str = ""
