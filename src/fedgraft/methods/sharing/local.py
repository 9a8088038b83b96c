"""Local: every client trains by itself; nothing is ever sent."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedgraft.contracts import SilentSharing, Update
from fedgraft.wire.layouts import Arrays


@dataclass(frozen=True)
class Local(SilentSharing[None]):
    """Local: every client trains by itself; nothing is ever sent.

    What any federation has to beat. All start from the same drawn model, train each round as under any other method,
    and keep what was best on their own validation split.

    Source: "self-train" of Xie et al., "GCFL", NeurIPS 2021, section 5, and of CEFGL, section 5.1.
    Differs: nothing.

    State: none; a client's model is in its memory.
    Needs: nothing.
    Cost: no bytes.
    """

    def shares(self, name: str) -> bool:
        """Return False: nothing is shared."""
        return False

    def init(self, model: Arrays, clients: int) -> None:
        """Return the first state: nothing to remember."""
        return

    def collects(self, state: None, round: int, g: np.random.Generator) -> bool:
        """Return False: clients never send anything."""
        return False

    def model(self, state: None, group: int = 0) -> Arrays:
        """Return no arrays: nothing is shared."""
        return {}

    def merge(self, state: None, updates: Sequence[Update]) -> None:
        """Nothing comes of what nobody sent."""
        return
