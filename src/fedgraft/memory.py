"""What a client remembers between requests, and its bytes."""

from typing import Any

from fedgraft import wire

Memory = dict[str, Any]
"""What a client remembers between requests; a key is absent until first used, and where there is nothing to remember.

    private     parameters that do not travel                sampler     the sampler's state of this client
    sharing     the sharing method's memory                  uplink      the uplink codec's state
    held        the model that it keeps                      probed      the model of a probe, until it trains
    states      hidden states of its nodes and its halo      best        its best model, those that answer with it,
    paused      a round that waits for rows                              and their choice and sums

What the server sent it before training is not among them: it may be most of what a client has, and never changes, so
the message is kept as it came (see `client.Client.serve`).
"""


def same(memory: Memory, before: Memory) -> bool:
    """Whether every value is the very object it was: handlers replace values, they never change them in place."""
    return all(memory.get(key) is before.get(key) for key in memory.keys() | before.keys())


def unpacked(memory: bytes) -> Memory:
    """What `packed` was given."""
    return dict(wire.unpack(memory, views=True)) if memory else {}  # type: ignore[arg-type]


def packed(memory: Memory) -> bytes:
    """The bytes of what there is to remember; none for nothing, which costs neither time nor a file of a checkpoint."""
    kept = {key: value for key, value in memory.items() if value is not None}
    return wire.pack(kept) if kept else b""
