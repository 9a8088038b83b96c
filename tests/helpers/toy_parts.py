"""The toy task with the parts that some sharing methods need: a channel "structure", a head whose rows vary."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from helpers.toy import Line, Linear
from helpers.toy import Lines as Plain


@dataclass(frozen=True)
class Lines(Plain):
    """Points for the task with parts."""

    task: ClassVar[str] = "helpers.toy_parts:Parts"


class Head(nn.Module):
    """The mean of so many linear maps."""

    def __init__(self, width: int, classes: int, g: torch.Generator) -> None:
        super().__init__()
        self.outer = nn.Linear(width, classes, bias=False)
        self.outer.weight = nn.Parameter(torch.randn(classes, width, generator=g))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(x).mean(1)


class Model(nn.Module):
    def __init__(self, width: int, classes: int, g: torch.Generator) -> None:
        super().__init__()
        self.structure = Linear(width, g)
        self.base = Linear(width, g)
        self.head = Head(width, classes, g)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.structure(x) + self.base(x) + self.head(x)


@dataclass(frozen=True)
class Parts(Line):
    """Least squares by a sum of three; heads have one row for every 40 points."""

    variants = True

    @property
    def offers(self):
        return frozenset({"structure", "head", "generator"})

    def with_parts(self, parts):
        return self

    def personal(self, name):
        return name.startswith("head.")

    def variant(self, data):
        return len(data.y) // 40

    def model(self, g, variant=None):
        return Model(self.width, variant or 1, g)
