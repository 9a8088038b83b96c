"""Identity: send arrays as they are."""

from dataclasses import dataclass

import numpy as np

from fedgraft import wire
from fedgraft.contracts import Codec
from fedgraft.wire.layouts import Arrays, Layout


@dataclass(frozen=True)
class Identity(Codec[None]):
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
