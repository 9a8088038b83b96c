"""Rows of other clients' nodes as arrays of a message: which nodes, a bit each, and their states through a codec."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedgraft.contracts.values import Indices, Mail
from fedgraft.engine.plan import MAIL, Plan
from fedgraft.errors import WireError
from fedgraft.wire.layouts import Array, Arrays, Layout, finite


class Courier:
    """Both ends' way from rows to arrays and back.

    Args:
        plan: gives widths and the codec of rows.
    """

    def __init__(self, plan: Plan) -> None:
        self._codec, self._layout = plan.rows, plan.mail_layout
        self._tables = plan.task.tables
        inner = plan.rows.encoded(plan.mail_layout) if self._tables else Layout(())
        self._names = {spec.name: coded.name for spec, coded in zip(inner, plan.coded_mail_layout, strict=True)}

    def encode(self, mail: Sequence[Mail], g: np.random.Generator) -> Arrays:
        """Arrays of `Plan.coded_mail_layout`; nothing where no rows travel."""
        if not self._tables:
            return {}
        coded, _ = self._codec.encode(self.raw(mail), self._codec.init(self._layout), g)
        return {self._names[name]: array for name, array in coded.items()}

    def decode(self, arrays: Mapping[str, Array]) -> list[Mail]:
        """What `encode` was given, as the codec leaves it. Raises `WireError` for what it cannot have made."""
        if not self._tables:
            return []
        coded = {inner: arrays[outer] for inner, outer in self._names.items()}
        return self.read(self._codec.decode(coded, self._layout))

    def raw(self, mail: Sequence[Mail]) -> Arrays:
        """Arrays of `Plan.mail_layout`, exact."""
        arrays: Arrays = {}
        for layer, (slot, rows) in enumerate(mail or self.nothing()):
            arrays[f"{MAIL}slots.{layer}"] = bits_of(slot)
            arrays[f"{MAIL}rows.{layer}"] = np.ascontiguousarray(rows, np.float32)
        return arrays

    def read(self, arrays: Mapping[str, Array]) -> list[Mail]:
        """The inverse of `raw`."""
        mail = []
        for layer in range(len(self._tables)):
            slot, rows = slots_of(arrays[f"{MAIL}slots.{layer}"]), arrays[f"{MAIL}rows.{layer}"]
            if len(slot) != len(rows):
                raise WireError(f"{len(rows)} rows for {len(slot)} nodes")
            if not finite(rows):
                raise WireError("a row is not finite")
            mail.append(Mail(slot, rows))
        return mail

    def nothing(self) -> list[Mail]:
        """No rows of any layer."""
        return [Mail(np.zeros(0, np.int64), np.zeros((0, width), np.float32)) for width in self._tables]


def bits_of(slot: Indices) -> Array:
    """Uint8 [bytes]: a bit for each node up to the last of them."""
    marks = np.zeros(int(slot[-1]) + 1 if len(slot) else 0, bool)
    marks[slot] = True
    return np.packbits(marks, bitorder="little")


def slots_of(bits: Array) -> Indices:
    """Int64 [slots], ascending: the inverse of `bits_of`."""
    return np.flatnonzero(np.unpackbits(bits, bitorder="little"))


def asked_arrays(asked: Sequence[Indices], layout: Layout) -> Arrays:
    """Which rows a client asks for, as arrays of `Plan.asked_layout`."""
    return {spec.name: bits_of(slot) for spec, slot in zip(layout, asked, strict=True)}


def part_of(arrays: Mapping[str, Array], layout: Layout) -> Arrays:
    """The arrays of a message that belong to one layout."""
    return {spec.name: arrays[spec.name] for spec in layout}
