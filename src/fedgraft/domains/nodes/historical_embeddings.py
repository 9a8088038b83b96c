"""What a client remembers of hidden states: its own nodes' from when they were last computed, its halo's as told."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices, Mail
from fedgraft.errors import WireError
from fedgraft.wire.layouts import Tree


class States:
    """Hidden states by layer; memory is linear in nodes and does not depend on what is computed at a time.

    Args:
        own: own nodes.
        halo: nodes of others.
        widths: of the layers.

    Rows take memory only between `load` or the first that is written or heard and `load(None)`: a client that is not
    served has none beside its memory.

    Attributes:
        known: per layer, bool [own + halo], whether there is a state at all.
        untold: per layer, bool [own], whether it changed since it was last told.
    """

    def __init__(self, own: int, halo: int, widths: Sequence[int]) -> None:
        self.own, self.widths = own, tuple(widths)
        self._shapes = [(own + halo, width) for width in widths]
        self._rows: list[NDArray[np.float32]] = []
        self._lent = False
        self.known = [np.zeros(own + halo, bool) for _ in widths]
        self.untold = [np.zeros(own, bool) for _ in widths]

    @property
    def rows(self) -> list[NDArray[np.float32]]:
        """Per layer, float32 [own + halo, width]; zeros where no state is known."""
        if self._lent:
            self._rows, self._lent = [rows.copy() for rows in self._rows], False
        if not self._rows:
            self._rows = [np.zeros(shape, np.float32) for shape in self._shapes]
        return self._rows

    def write(self, layer: int, nodes: Indices, rows: NDArray[np.float32]) -> None:
        """Remember fresh states of own nodes."""
        self.rows[layer][nodes] = rows
        self.known[layer][nodes] = True
        self.untold[layer][nodes] = True

    def hear(self, mail: Sequence[Mail]) -> None:
        """Remember states of the halo. Raises `WireError`, taking nothing in, for nodes not in it."""
        halo = len(self.known[0]) - self.own if self.known else 0
        for slot, _ in mail:
            if len(slot) and slot[-1] >= halo:
                raise WireError(f"a row of halo node {slot[-1]} where there are {halo}")
        for layer, (slot, rows) in enumerate(mail):
            self.rows[layer][self.own + slot] = rows
            self.known[layer][self.own + slot] = True

    def tell(self, needed: Indices) -> list[Mail]:
        """States of the own nodes among `needed` that changed since the last call."""
        told = []
        for rows, untold in zip(self.rows, self.untold, strict=True):
            slot = needed[untold[needed]]
            untold[slot] = False
            told.append(Mail(slot, rows[slot]))
        return told

    def to_tree(self) -> Tree:
        """As a client's memory keeps it; a copy, made when rows are needed again."""
        rows, self._lent = self.rows, True
        return {
            "rows": [*rows],
            "known": [np.packbits(known) for known in self.known],
            "untold": [np.packbits(untold) for untold in self.untold],
        }

    def load(self, tree: Any) -> None:
        """Take up where `to_tree` was called; None forgets everything. Rows are copied when they are first needed."""
        # Rows that nobody reads are forgotten too: memories hold them, and must be equal.
        self._rows, self._lent = [] if tree is None else [*tree["rows"]], True
        for layer, (known, untold) in enumerate(zip(self.known, self.untold, strict=True)):
            if tree is None:
                known[:], untold[:] = False, False
                continue
            np.copyto(known, np.unpackbits(tree["known"][layer], count=len(known)).view(bool))
            np.copyto(untold, np.unpackbits(tree["untold"][layer], count=len(untold)).view(bool))
