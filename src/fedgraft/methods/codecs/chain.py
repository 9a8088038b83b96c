"""Chain: several codecs one after another."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedgraft import wire
from fedgraft.contracts import Codec
from fedgraft.errors import require
from fedgraft.wire.layouts import Arrays, Layout, Tree


@dataclass(frozen=True)
class Chain(Codec[list[Tree]]):
    """Encode with each codec in order, decode in reverse.

    Source: after optax.chain; chaining is associative, and the empty chain is the identity.
    Differs: nothing known.

    Args:
        codecs: the codecs, first to encode first; each acts on the float32 arrays that the one before it made. A codec
            that makes other types of them (`float16`, `quantized`) leaves little for those behind it: it belongs last.

    State: list of the codecs' states, in the same order.
    Needs: nothing.
    Cost: that of the last layout. Errors add up.
    """

    codecs: tuple[Codec[Any], ...] = ()

    def __post_init__(self) -> None:
        fits = isinstance(self.codecs, tuple) and all(isinstance(codec, Codec) for codec in self.codecs)
        require(fits, "Chain.codecs", "a tuple of codecs", self.codecs)

    def init(self, layout: Layout) -> list[Tree]:
        """Return one state per codec."""
        return [codec.init(before) for codec, before in zip(self.codecs, self._layouts(layout), strict=False)]

    def encoded(self, layout: Layout) -> Layout:
        """The layout behind the last codec."""
        return self._layouts(layout)[-1]

    def bounds(self, layout: Layout, largest: Layout) -> Layout:
        """Through every codec's own bounds, in order."""
        for codec, before in zip(self.codecs, self._layouts(layout), strict=False):
            largest = codec.bounds(before, largest)
        return largest

    def encode(self, arrays: Arrays, state: list[Tree], g: np.random.Generator) -> tuple[Arrays, list[Tree]]:
        """Through every codec in order; all draw from `g` in that order."""
        arrays = dict(arrays)
        states: list[Tree] = []
        for codec, before in zip(self.codecs, state, strict=True):
            arrays, after = codec.encode(arrays, before, g)
            states.append(after)
        return arrays, states

    def decode(self, arrays: Arrays, layout: Layout) -> Arrays:
        """Through every codec in reverse, each with the layout that it was given to encode."""
        layouts = self._layouts(layout)
        wire.check(arrays, layouts[-1])
        for codec, before in zip(reversed(self.codecs), reversed(layouts[:-1]), strict=True):
            arrays = codec.decode(arrays, before)
        return {spec.name: arrays[spec.name] for spec in layout}

    def _layouts(self, layout: Layout) -> list[Layout]:
        """Return what each codec is given, and what the last one makes."""
        layouts = [layout]
        for codec in self.codecs:
            layouts.append(codec.encoded(layouts[-1]))
        return layouts
