"""Hidden states that a client remembers: its own nodes' from when they were last computed, its halo's as received."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import HaloRows, Indices
from fedgraft.errors import WireError
from fedgraft.wire.layouts import Tree


class States:
    """Hidden states by layer; memory is linear in nodes and does not depend on what is computed at a time.

    Rows, of so many own nodes and nodes of others, take memory only from the first that is written or received. `tree`
    is what `to_tree` returned; None = no state is known. Its rows are copied when they are first needed.

    Attributes:
        known: per layer, bool [own + halo], whether there is a state at all.
        unpublished: per layer, bool [own], whether it changed since `changed` last returned it.
    """

    def __init__(self, own: int, halo: int, widths: Sequence[int], tree: Any = None) -> None:
        self.own, self.halo, self.widths = own, halo, tuple(widths)
        count = own + halo
        self._rows: list[NDArray[np.float32]] = []
        self._shared = tree is not None
        if tree is None:
            self.known = [np.zeros(count, bool) for _ in widths]
            self.unpublished = [np.zeros(own, bool) for _ in widths]
            return
        self._rows = [*tree["rows"]]
        self.known = [np.unpackbits(bits, count=count).view(bool) for bits in tree["known"]]
        self.unpublished = [np.unpackbits(bits, count=own).view(bool) for bits in tree["untold"]]

    def opened(self, tree: Any) -> "States":
        """Return states of the same nodes and widths, as `to_tree` returned them; None = no state is known."""
        return States(self.own, self.halo, self.widths, tree)

    @property
    def rows(self) -> list[NDArray[np.float32]]:
        """Per layer, float32 [own + halo, width]; zeros where no state is known."""
        if self._shared:
            self._rows, self._shared = [rows.copy() for rows in self._rows], False
        if not self._rows:
            self._rows = [np.zeros((self.own + self.halo, width), np.float32) for width in self.widths]
        return self._rows

    def write(self, layer: int, nodes: Indices, rows: NDArray[np.float32]) -> None:
        """Remember fresh states of own nodes."""
        self.rows[layer][nodes] = rows
        self.known[layer][nodes] = True
        self.unpublished[layer][nodes] = True

    def receive(self, received: Sequence[HaloRows]) -> None:
        """Remember states of the halo. Raises `WireError`, taking nothing in, for nodes that are not in it."""
        for slot, _ in received:
            if len(slot) and slot[-1] >= self.halo:
                raise WireError(f"a row of halo node {slot[-1]} where there are {self.halo}")
        for layer, (slot, rows) in enumerate(received):
            self.rows[layer][self.own + slot] = rows
            self.known[layer][self.own + slot] = True

    def changed(self, needed: Indices) -> list[HaloRows]:
        """Return states of the own nodes among `needed`, int64, that changed since the last call."""
        states = []
        for rows, unpublished in zip(self.rows, self.unpublished, strict=True):
            slot = needed[unpublished[needed]]
            unpublished[slot] = False
            states.append(HaloRows(slot, rows[slot]))
        return states

    def to_tree(self) -> Tree:
        """Return the states as a client's memory keeps them; rows are copied only if they change afterwards."""
        rows, self._shared = self.rows, True
        return {
            "rows": [*rows],
            "known": [np.packbits(known) for known in self.known],
            "untold": [np.packbits(unpublished) for unpublished in self.unpublished],
        }
