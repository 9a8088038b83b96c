"""A simulated clock: what a round would last on the clients' links and devices.

The digest of a run may not depend on how busy a machine is, so selectors and time budgets see these seconds, never
measured ones. Measured seconds are only reported.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedgraft.contracts import randomness
from fedgraft.errors import require


@dataclass(frozen=True)
class Clock:
    """Seconds of a client's round = latency + bytes down / link + training examples x epochs / speed + bytes up / link.

    A client that waits for rows of others in the round waits as many latencies more.

    All training examples count, whatever share of them `training.blocks` takes: the server does not know that share.

    Args:
        mbit_per_second: the median client's link, both directions, > 0 (10: a metered line of a small shop).
        examples_per_second: the median device's training speed, > 0.
        latency_seconds: per client and request, >= 0.
        spread: standard deviation of the log of links and speeds over clients, in [0, 10]; 0 makes all equal.
    """

    mbit_per_second: float = 10.0
    examples_per_second: float = 100_000.0
    latency_seconds: float = 0.1
    spread: float = 0.5

    def __post_init__(self) -> None:
        require(self.mbit_per_second > 0, "clock.mbit_per_second", "> 0", self.mbit_per_second)
        require(self.examples_per_second > 0, "clock.examples_per_second", "> 0", self.examples_per_second)
        require(self.latency_seconds >= 0, "clock.latency_seconds", ">= 0", self.latency_seconds)
        require(0 <= self.spread <= 10, "clock.spread", "in [0, 10]", self.spread)

    def devices(self, clients: int, seed: int) -> "Devices":
        """The clients' links and speeds, drawn once per experiment."""
        g = randomness.generator(seed, "devices")
        return Devices(
            bytes_per_second=self.mbit_per_second * 125_000.0 * np.exp(self.spread * g.standard_normal(clients)),
            examples_per_second=self.examples_per_second * np.exp(self.spread * g.standard_normal(clients)),
            latency_seconds=self.latency_seconds,
        )


@dataclass(frozen=True)
class Devices:
    """Links and speeds of all clients, float64 [N] each."""

    bytes_per_second: NDArray[np.float64]
    examples_per_second: NDArray[np.float64]
    latency_seconds: float

    def seconds(self, client: int, bytes: int, examples: float, waits: int = 0) -> float:
        """Simulated seconds for a client to move `bytes`, to train on `examples` and to wait so often in between."""
        moving = bytes / float(self.bytes_per_second[client])
        return self.latency_seconds * (1 + waits) + moving + examples / float(self.examples_per_second[client])

    def all_seconds(self, bytes: ArrayLike, examples: ArrayLike, waits: int = 0) -> NDArray[np.float64]:
        """Return the seconds of all clients, float64 [N]; `bytes` and `examples` are [N], or one number for all."""
        moving = np.asarray(bytes) / self.bytes_per_second
        training = np.asarray(examples, np.float64) / self.examples_per_second
        return self.latency_seconds * (1 + waits) + moving + training
