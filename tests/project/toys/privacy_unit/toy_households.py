"""A unit of privacy: two training nodes that follow each other are a household, which noise hides as a whole."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedgraft.contracts import part
from fedgraft.domains.nodes.task.variants import ClippedNodes
from fedgraft.engine.privacy import spending
from fedgraft.methods.tasks.node import Node

spending.INSIDE.add(("node", "household"))


class ClippedHouseholds(ClippedNodes):
    """The gradients of households, each shortened as a whole."""

    example: ClassVar[str] = "household"

    def clipped(self, model, data, examples, longest):
        """Return the sum over households."""
        total = {}
        for house in np.unique(examples // 2):
            each = super().clipped(model, data, examples[examples // 2 == house], 1e12)
            length = np.sqrt(sum(np.square(array).sum() for array in each.values()))
            for name, array in each.items():
                total[name] = total.get(name, 0.0) + array * min(1.0, longest / max(length, 1e-12))
        return total


@dataclass(frozen=True)
class Houses(Node):
    __doc__ = Node.__doc__

    @part
    def clipping(self) -> ClippedHouseholds:
        """The gradients of households."""
        return ClippedHouseholds(**vars(super().clipping))
