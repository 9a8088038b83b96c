"""Identity: send arrays as they are."""

from dataclasses import dataclass

import numpy as np

from fedgraft import wire
from fedgraft.contracts import RowCodec
from fedgraft.wire.buffers import bytes_of_rows, rows_of_bytes
from fedgraft.wire.layouts import Array, Arrays, Layout


@dataclass(frozen=True)
class Identity(RowCodec[None]):
    """Send arrays as they are.

    Source: what every codec is compared with.
    Differs: nothing known.

    State: none.
    Needs: nothing.
    Cost: the arrays' own bytes, 4 per float32. Error: none, NaN included.
    """

    def init(self, layout: Layout) -> None:
        """Return no state."""

    def encoded(self, layout: Layout) -> Layout:
        """Return the same layout."""
        return layout

    def encode(self, arrays: Arrays, state: None, g: np.random.Generator) -> tuple[Arrays, None]:
        """Return the same arrays."""
        return dict(arrays), None

    def decode(self, arrays: Arrays, layout: Layout) -> Arrays:
        """Return the arrays as they are. Raises `WireError` unless they fit the layout."""
        wire.check(arrays, layout)
        return {spec.name: arrays[spec.name] for spec in layout}

    def row_bytes(self, width: int) -> int:
        """Return 4 for each value."""
        return 4 * width

    def encode_rows(self, rows: Array, g: np.random.Generator) -> Array:
        """The values' own bytes."""
        return bytes_of_rows(rows)

    def decode_rows(self, coded: Array, width: int) -> Array:
        """The values. Raises `WireError` for rows of another length."""
        return rows_of_bytes(coded, "float32", width)
