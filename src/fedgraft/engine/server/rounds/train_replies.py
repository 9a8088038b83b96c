"""What comes of a training at the clients."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fedgraft.engine.server.exchange import Traffic
from fedgraft.wire.layouts import Arrays

TOGETHER: Final = -1
"""In place of a client: all whose updates were added up before the server saw them."""


@dataclass(frozen=True)
class TrainReplies:
    """Results of a training at the clients.

    `uploads` are {client: decoded upload}, finite; empty where nothing is sent, and of `TOGETHER` alone where updates
    are added up. `reports` are {client: {name: scalar}} of those that answered, `failed` {client: reason}, `bytes`
    {client: `Traffic` of its messages}, `waits` {client: number of pauses for halo rows}, of those that paused. `norms`
    are {client: norm of its upload's parameters}, where it is known: the look at each number gives it, too. `weights`
    are {`TOGETHER`: what they weigh}, or empty.
    """

    uploads: Mapping[int, Arrays] = field(default_factory=dict)
    reports: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    failed: Mapping[int, str] = field(default_factory=dict)
    bytes: Mapping[int, Traffic] = field(default_factory=dict)
    waits: Mapping[int, int] = field(default_factory=dict)
    norms: Mapping[int, float] = field(default_factory=dict)
    weights: Mapping[int, float] = field(default_factory=dict)
