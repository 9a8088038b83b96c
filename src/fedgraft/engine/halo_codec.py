"""Rows of other clients' nodes as arrays of a message: which nodes, a bit each, and their states through a codec."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedgraft.contracts.values import HaloRows, Indices
from fedgraft.engine.plan import HALO, Plan
from fedgraft.errors import WireError
from fedgraft.wire.layouts import Array, Arrays, Layout, finite


class HaloCodec:
    """Turn halo rows into arrays of a message and back, at both ends, by the plan's widths and codec of rows.

    Encrypted rows are uint8 [rows, bytes] here, as the server has them.
    """

    def __init__(self, plan: Plan) -> None:
        self._codec, self._layout = plan.rows, plan.halo_layout
        self._rows = [spec for spec in plan.halo_layout if spec.name.startswith(f"{HALO}rows.")]
        inner = plan.rows.encoded(plan.halo_layout) if self._rows else Layout(())
        self._names = {spec.name: coded.name for spec, coded in zip(inner, plan.coded_halo_layout, strict=True)}

    def encode(self, rows_by_layer: Sequence[HaloRows], g: np.random.Generator) -> Arrays:
        """Return arrays of `Plan.coded_halo_layout`; {} where no rows travel."""
        if not self._rows:
            return {}
        coded, _ = self._codec.encode(self.raw(rows_by_layer), self._codec.init(self._layout), g)
        return {self._names[name]: array for name, array in coded.items()}

    def decode(self, arrays: Mapping[str, Array]) -> list[HaloRows]:
        """Return [layers] rows from behind the codec. Raises `WireError` for arrays that `encode` cannot make."""
        if not self._rows:
            return []
        coded = {inner: arrays[outer] for inner, outer in self._names.items()}
        return self.read(self._codec.decode(coded, self._layout))

    def raw(self, rows_by_layer: Sequence[HaloRows]) -> Arrays:
        """Return arrays of `Plan.halo_layout`, or of `Plan.relayed_layout`: the rows as they are."""
        arrays: Arrays = {}
        for layer, (slot, rows) in enumerate(rows_by_layer or self.nothing()):
            arrays[f"{HALO}slots.{layer}"] = bits_of(slot)
            arrays[f"{HALO}rows.{layer}"] = np.ascontiguousarray(rows)
        return arrays

    def read(self, arrays: Mapping[str, Array]) -> list[HaloRows]:
        """Return [layers] rows from arrays of these layouts. Raises `WireError` for misfits."""
        rows_by_layer = []
        for layer in range(len(self._rows)):
            slot, rows = slots_of(arrays[f"{HALO}slots.{layer}"]), arrays[f"{HALO}rows.{layer}"]
            if len(slot) != len(rows):
                raise WireError(f"{len(rows)} rows for {len(slot)} nodes")
            if not finite(rows):
                raise WireError("a row is not finite")
            rows_by_layer.append(HaloRows(slot, rows))
        return rows_by_layer

    def nothing(self) -> list[HaloRows]:
        """Return an empty `HaloRows` for each layer."""
        return [HaloRows(np.zeros(0, np.int64), np.zeros((0, s.shape[1]), s.dtype)) for s in self._rows]


def bits_of(slot: Indices) -> Array:
    """Return uint8 [bytes]: a bit for each node up to the last of `slot`, int64 [slots]."""
    marks = np.zeros(int(slot[-1]) + 1 if len(slot) else 0, bool)
    marks[slot] = True
    return np.packbits(marks, bitorder="little")


def slots_of(bits: Array) -> Indices:
    """Return int64 [slots], ascending: the inverse of `bits_of`."""
    return np.flatnonzero(np.unpackbits(bits, bitorder="little"))


def asked_arrays(slots: Sequence[Indices], layout: Layout) -> Arrays:
    """Return the rows that a client asks for, int64 [rows] per layer, as arrays of `Plan.asked_layout`."""
    return {spec.name: bits_of(slot) for spec, slot in zip(layout, slots, strict=True)}
