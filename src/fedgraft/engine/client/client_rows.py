"""A client's end of what clients tell each other of nodes: coded rows, encrypted if the task has it so."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from fedgraft import wire
from fedgraft.contracts.values import Halo, HaloRows, Indices
from fedgraft.engine.halo_codec import HaloCodec
from fedgraft.engine.plan import HALO, Plan
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.row_coding import EXACT
from fedgraft.errors import WireError
from fedgraft.nn import flops
from fedgraft.wire.buffers import bytes_of_rows
from fedgraft.wire.encrypted_rows import RowSeal
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Layout, Spec, finite

OPEN = RowSeal()
"""Of rows whose tags are zeros: as encrypted ones travel where all clients are on one machine, and stay at a site."""
RELAYED: Final = "relayed."
"""What relayed rows are encrypted as: others than those of training, `HALO`, though of one place."""
_NOWHERE: Final = np.zeros((0, 0), np.int64)


class ClientRows:
    """Code and encrypt what clients publish and push, and open and decode what they are sent.

    Args:
        plan: what both ends agreed on.
        shards: of the clients that are served, {client: shard}.
        seal: what rows are encrypted with, if the task has them so.
    """

    def __init__(self, plan: Plan, shards: Mapping[int, Any] | Sequence[Any], seal: RowSeal) -> None:
        self._plan, self._shards, self._seal = plan, shards, seal
        self._codec = HaloCodec(plan)
        self._halos: dict[int, Halo] = {}

    # --- set-up ------------------------------------------------------------------------------------------------------

    def published(self, client: int, statistics: Arrays, g: np.random.Generator) -> Arrays:
        """Return what a client publishes as it travels."""
        plan, task, published = self._plan, self._plan.encrypted, self._plan.publishing
        if task and published:
            places = self._places(lambda: task.sent_places(client, statistics))
            specs = _named(published.statistics_layout, task.handed_on)
            coded = {name: plan.row_coding.encode(spec, statistics[name], g) for name, spec in specs.items()}
            encrypted = {
                name: self._seal.encrypted(name, places.get(name, _NOWHERE), rows) for name, rows in coded.items()
            }
            statistics = {**statistics, **encrypted}
        return plan.rows.encode(statistics, plan.rows.init(plan.statistics_layout), g)[0]

    def received(self, client: int, coded: Arrays) -> Arrays:
        """Return what a client got back. Raises `WireError` for what nobody can have sent it."""
        plan, task, published = self._plan, self._plan.encrypted, self._plan.publishing
        shared = plan.rows.decode(self.opened(client, coded), plan.combined_layout)
        for name, spec in _named(published.combined_layout, task.handed_on).items() if task and published else ():
            shared[name] = plan.row_coding.decode(spec, OPEN.opened(name, _NOWHERE, shared[name]))
            if not finite(shared[name]):
                raise WireError(f"a row of {name} is not finite")
        return shared

    def opened(self, client: int, coded: Arrays) -> Arrays:
        """Return the same, still coded, with open rows: what a site may keep."""
        task = self._plan.encrypted
        if not task or not self._seal.secret:
            return coded
        places = task.received_places(client, self._shards[client], coded)
        rows = {name: self._seal.opened(name, places[name], coded[name]) for name in task.handed_on}
        return {**coded, **{name: OPEN.encrypted(name, _NOWHERE, each) for name, each in rows.items()}}

    # --- its message ------------------------------------------------------------------------------------------------

    def shared_in(self, client: int, set_up: bytes | memoryview) -> Arrays:
        """Return what a client got back, from the message that brought it; {} for none."""
        if not set_up:
            return {}
        coded = wire.decode(set_up, Protocol.of(self._plan).request_layouts).arrays or {}
        with flops.Meter():  # these operations were counted when the message came
            return self.received(client, coded)

    def opened_message(self, client: int, set_up: bytes) -> bytes:
        """Return that message with open rows; b"" for none."""
        if not set_up or not self._plan.encrypted:
            return set_up
        layouts = Protocol.of(self._plan).request_layouts
        message = wire.decode(set_up, layouts)
        return wire.encode(replace(message, arrays=self.opened(client, message.arrays or {})), layouts[message.kind])

    # --- hidden states -----------------------------------------------------------------------------------------------

    def encode(self, client: int, rows_by_layer: Sequence[HaloRows], g: np.random.Generator) -> Arrays:
        """Return rows of own nodes as arrays of `Plan.coded_halo_layout`."""
        rows = self._encrypted(
            client, rows_by_layer, HALO, lambda spec, rows: self._plan.row_coding.encode(spec, rows, g)
        )
        return self._codec.encode(rows, g)

    def decode(self, client: int, arrays: Mapping[str, Array]) -> list[HaloRows]:
        """Return [layers] rows of the halo from such arrays. Raises `WireError` for what nobody can have sent."""
        rows = self._codec.decode(arrays)
        return self._opened(client, rows, HALO, lambda spec, rows: self._plan.row_coding.decode(spec, rows))

    def raw(self, client: int, rows_by_layer: Sequence[HaloRows]) -> Arrays:
        """Return rows of own nodes as arrays of `Plan.relayed_layout`, exact."""
        return self._codec.raw(self._encrypted(client, rows_by_layer, RELAYED, lambda spec, rows: bytes_of_rows(rows)))

    def read(self, client: int, arrays: Mapping[str, Array]) -> list[HaloRows]:
        """Return [layers] rows of the halo from such arrays, as `decode`."""
        return self._opened(client, self._codec.read(arrays), RELAYED, EXACT.decode)

    def _encrypted(
        self, client: int, rows_by_layer: Sequence[HaloRows], what: str, coded: Callable[[Spec, Array], Array]
    ) -> Sequence[HaloRows]:
        if not self._plan.encrypted:
            return rows_by_layer
        made = []
        for layer, (slot, rows) in enumerate(rows_by_layer):
            place = np.stack([np.full(len(slot), client), slot], axis=1)
            content = coded(_spec(rows.shape[1]), rows)
            made.append(HaloRows(slot, self._seal.encrypted(f"{what}{layer}", place, content)))
        return made

    def _opened(
        self, client: int, encrypted: list[HaloRows], what: str, decoded: Callable[[Spec, Array], Array]
    ) -> list[HaloRows]:
        if not self._plan.encrypted:
            return encrypted
        made = []
        for layer, ((slot, rows), width) in enumerate(zip(encrypted, self._plan.halo_widths, strict=True)):
            place = self._place(client, slot) if self._seal.secret else _NOWHERE
            states = decoded(_spec(width), self._seal.opened(f"{what}{layer}", place, rows))
            if not finite(states):
                raise WireError("a row is not finite")
            made.append(HaloRows(slot, states))
        return made

    def _place(self, client: int, slot: Indices) -> Indices:
        """Whose nodes of the halo are, and which of theirs, int64 [rows, 2]."""
        if client not in self._halos:
            assert self._plan.encrypted is not None, "somebody seals"
            self._halos[client] = self._plan.encrypted.halo_of(self._shards[client])
        owner, place = self._halos[client]
        if len(slot) and slot[-1] >= len(owner):
            raise WireError(f"a row of halo node {slot[-1]} where there are {len(owner)}")
        return np.stack([owner[slot], place[slot]], axis=1).astype(np.int64)

    def _places(self, found: Callable[[], Mapping[str, Indices]]) -> Mapping[str, Indices]:
        """Places of rows where somebody seals by them."""
        return found() if self._seal.secret else {}


def _spec(width: int) -> Spec:
    return Spec("rows", "float32", (VARIABLE, width))


def _named(layout: Layout, names: Sequence[str]) -> dict[str, Spec]:
    return {spec.name: spec for spec in layout if spec.name in names}


def shared_in(plan: Plan, set_up: bytes | memoryview) -> Arrays:
    """Return what a client was sent before training, from its message with open rows; {} for none."""
    return ClientRows(plan, {}, OPEN).shared_in(0, set_up)


def common_in(plan: Plan, set_up: bytes | memoryview) -> Arrays:
    """Return those of the arrays that all clients got alike, for who may not open what was for one of them."""
    if not set_up or not plan.publishing:
        return {}
    coded = wire.decode(set_up, Protocol.of(plan).request_layouts).arrays or {}
    return plan.publishing.common(plan.rows.decode(coded, plan.combined_layout))
