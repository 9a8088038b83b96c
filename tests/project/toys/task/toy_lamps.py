"""A task of its own: tell whether a lamp is lit, from what its own switches show."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn
from toy_rooms import SWITCHES, Room

from fedgraft.contracts.loss import ClassObjective
from fedgraft.domains.labelled.task import Inputs, LabelTask
from fedgraft.methods.losses.cross_entropy import CrossEntropy


class Network(nn.Module):
    """One linear layer."""

    def __init__(self, seen, width, g):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(seen, width, generator=g))

    def forward(self, seen):
        """Return float32 [lamps, width]."""
        return seen @ self.weight


@dataclass(frozen=True)
class Lamps(LabelTask[Room]):
    """Tell whether a lamp is lit.

    Args:
        class_names, label_names, ends, judged, positive_class: taken from the data.
        objective: the loss.
    """

    network: ClassVar[type[nn.Module]] = Network

    objective: ClassObjective = CrossEntropy()

    @property
    def sizes(self) -> tuple[int, int]:
        """Width of what is seen, and of a lamp's state."""
        return SWITCHES, 4

    def inputs(self, shard: Room) -> Inputs:
        """Return the switches."""
        return (torch.from_numpy(shard.seen),)
