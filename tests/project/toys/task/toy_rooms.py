"""Its data: rooms of lamps."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedgraft.contracts.data import Data
from fedgraft.domains.labelled.labels_of_data import LabelledShard
from fedgraft.wire.layouts import Array

SWITCHES = 3


@dataclass(frozen=True, eq=False)
class Room(LabelledShard):
    """A room, with float32 [lamps, SWITCHES] of its lamps."""

    seen: Array


@dataclass(frozen=True)
class Rooms(Data[Room]):
    """Two rooms of lamps, lit where the first switch is up."""

    task: ClassVar[str] = "toy_lamps:Lamps"

    def load(self, seed: int) -> list[Room]:
        """Draw both."""
        return [self._room(number, np.random.default_rng([seed, number])) for number in range(2)]

    @staticmethod
    def _room(number: int, g: np.random.Generator) -> Room:
        seen = g.standard_normal((40, SWITCHES)).astype(np.float32)
        ids, split = np.array([f"lamp {lamp}" for lamp in range(40)], object), np.arange(40) % 4 % 3
        label = (seen[:, 0] > 0).astype(np.int64)
        return Room(f"room {number}", ids, np.arange(40)[None], label, split.astype(np.int8), ("dark", "lit"), (), seen)
