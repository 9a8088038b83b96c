"""Halo rows that the server keeps: by address, with who has been sent which; what they say does not matter here."""

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypedDict

import numpy as np

from fedgraft.contracts.values import Halo, HaloRows, Indices
from fedgraft.errors import WireError
from fedgraft.wire.layouts import Array, Layout

PLACE = (1 << 32) - 1
"""The bits of an address that tell the place; those above tell the owner."""


class State(TypedDict):
    """The store's state, as a checkpoint keeps it; lists have one entry per hidden layer.

    time: how often rows were published.
    rows: [needed, width], float32 or, of encrypted rows, uint8, of the nodes that anybody needs, by owner and place.
    published: int64 [needed], when each row was last published, 0 = never.
    seen: int64 [clients], when each client last pulled.
    """

    time: int
    rows: list[Array]
    published: list[Indices]
    seen: list[Indices]


class HaloStore:
    """Moves rows of hidden layers from those who own nodes to those who need them.

    A client is sent a row again only when its owner has published it since the client last pulled.

    Args:
        nodes: how many each client has.
        halos: of each client. Raises `WireError` for addresses of nodes that no other client has.
        widths: of the hidden layers that travel.
        dtype: of rows.
    """

    def __init__(
        self, nodes: Sequence[int], halos: Sequence[Halo], widths: Sequence[int], dtype: str = "float32"
    ) -> None:
        self._widths, self._dtype, clients = tuple(widths), dtype, len(nodes)
        for client, halo in enumerate(halos):
            if reason := misfit(client, halo, nodes):
                raise WireError(reason)
        addresses = [halo.owner.astype(np.int64) << 32 | halo.place for halo in halos]
        # Only what is needed has a row: how many nodes a client claims to have costs the server nothing.
        self._needed = np.unique(np.concatenate([np.zeros(0, np.int64), *addresses]))
        self._first = np.searchsorted(self._needed, np.arange(clients + 1, dtype=np.int64) << 32)
        self._rows: list[Indices] = [np.searchsorted(self._needed, each) for each in addresses]

    @classmethod
    def of(cls, halos: Sequence[Mapping[str, Any]], layout: Layout) -> Self:
        """Return a store of rows of a layout such as `Plan.halo_layout`; `halos` are {"nodes", "owner", "place"}."""
        rows = [spec for spec in layout if len(spec.shape) == 2]
        addresses = [Halo(halo["owner"], halo["place"]) for halo in halos]
        widths, dtypes = [spec.shape[1] for spec in rows], [spec.dtype for spec in rows]
        return cls([halo["nodes"] for halo in halos], addresses, widths, *dtypes[:1])

    def start(self) -> State:
        """Return the state before any row was published."""
        needed = len(self._needed)
        return {
            "time": 0,
            "rows": [np.zeros((needed, width), self._dtype) for width in self._widths],
            "published": [np.zeros(needed, np.int64) for _ in self._widths],
            "seen": [np.zeros(len(self._rows), np.int64) for _ in self._widths],
        }

    def needed(self, client: int) -> Indices:
        """Return the numbers of a client's nodes that anybody else needs, int64 [needed], ascending."""
        return self._needed[self._first[client] : self._first[client + 1]] & PLACE

    def publish(self, state: State, client: int, rows_by_layer: Sequence[HaloRows]) -> None:
        """Take rows of a client's own nodes in, per layer; `slot` is a place among them.

        Raises `WireError`, before anything is taken in, for rows of nodes that nobody needs or of a wrong width.
        """
        own, places = self.needed(client), []
        for (place, rows), width in zip(rows_by_layer, self._widths, strict=True):
            if rows.shape != (len(place), width):
                raise WireError(f"rows of shape {list(rows.shape)} for {len(place)} nodes and width {width}")
            at = np.searchsorted(own, place)
            if len(place) and (at.max() >= len(own) or (own[at] != place).any()):
                raise WireError(f"rows of nodes that nobody needs, among {place.min()}..{place.max()}")
            places.append(self._first[client] + at)
        state["time"] += 1
        for layer, ((_, rows), at) in enumerate(zip(rows_by_layer, places, strict=True)):
            state["rows"][layer][at] = rows
            state["published"][layer][at] = state["time"]

    def pull(self, state: State, client: int) -> list[HaloRows]:
        """Return the rows of a client's halo that were published since it last pulled, per layer."""
        rows_by_layer, own = [], self._rows[client]
        for rows, published, seen in zip(state["rows"], state["published"], state["seen"], strict=True):
            slot = np.flatnonzero(published[own] > seen[client])
            rows_by_layer.append(HaloRows(slot, rows[own[slot]]))
            seen[client] = state["time"]
        return rows_by_layer

    def look_up(self, state: State, client: int, slots: Sequence[Indices]) -> list[HaloRows]:
        """Return rows of some of a client's halo, [layers]; rows that were never published are left out."""
        rows_by_layer, own = [], self._rows[client]
        for rows, published, slot in zip(state["rows"], state["published"], slots, strict=True):
            there = slot[published[own[slot]] > 0]
            rows_by_layer.append(HaloRows(there, rows[own[there]]))
        return rows_by_layer


def misfit(client: int, halo: Halo, nodes: Sequence[int | None]) -> str:
    """Return what is wrong with the addresses of a client's halo; "" for nothing.

    `nodes` says how many each client has; None where that is not known.
    """
    owner, place = halo
    if owner.shape != place.shape:
        return f"client {client} needs nodes of {len(owner)} clients at {len(place)} places"
    most = np.array([np.iinfo(np.int64).max if count is None else count for count in nodes])
    other = (owner >= 0) & (owner < len(nodes)) & (owner != client) & (place >= 0)
    other[other] &= place[other] < most[owner[other]]
    if other.all():
        return ""
    slot = int(np.flatnonzero(~other)[0])
    return f"client {client} needs node {place[slot]} of client {owner[slot]}, where there is none"
