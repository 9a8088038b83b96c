"""The toy task with the parts and abilities that some sharing methods, selectors and samplers need."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from fedgraft.contracts import Batch, Indices, LocalGraph, Observations
from fedgraft.contracts.abilities.graph_network import GraphNetworkTask
from fedgraft.contracts.abilities.graphs import LocalGraphTask, StructuredTask
from fedgraft.contracts.abilities.tasks import SyntheticTask, VariantTask
from fedgraft.contracts.structure import WHOLE, Augmentation
from fedgraft.contracts.task import example_losses
from fedgraft.contracts.values import Losses
from fedgraft.nn import flops
from fedgraft.testing import runs
from fedgraft.testing.toy import Line, Lines, Plane, Points, errors_of, rows_of
from fedgraft.wire.layouts import Array

PARTED = "laws.parted:PartedLines"


def parted(**sections):
    """The toy experiment of `fedgraft.testing.runs`, its model with parts."""
    return runs.toy(data={"name": PARTED}, **sections)


@dataclass(frozen=True)
class PartedLines(Lines):
    """Points for the task whose model has parts."""

    task: ClassVar[str] = "laws.parted:PartedLine"


@dataclass(frozen=True)
class PartedLine(
    Line,
    GraphNetworkTask[Points, Points],
    LocalGraphTask[Points, Points],
    StructuredTask[Points, Points],
    SyntheticTask[Points, Points],
    VariantTask[Points, Points],
):
    """Least squares by a sum of three linear maps: one is called structure, one head, of one row per 40 points.

    Points of two classes, by the sign of what is to be told; a client's points are a path, in order. As a graph, points
    are joined to the next, and likely is the side of zero on which the model sees them. The third map has a `mask`, and
    a fourth, the `refinement`, joins the sum once it is active, if a method needs them.
    """

    offers: ClassVar[frozenset[str]] = frozenset(
        {"structure", "head", "mask", "refinement", "generator", "ensemble", "embeddings", "relations"}
    )
    mask: bool = False
    refinement: bool = False
    stochastic: ClassVar[bool] = True
    classes: ClassVar[int] = 2

    @property
    def linear(self) -> None:
        """Return None: a sum of linear maps has more parameters than one."""

    @property
    def hidden_width(self) -> int:
        """Width of the points."""
        return self.width

    @property
    def common_classes(self) -> int:
        """Return 2: above 0, or not."""
        return 2

    def loss(self, model: nn.Module, data: Points, draw: Batch, encoded: Tensor | None) -> Losses:
        """Return squared errors, and the hidden layer."""
        each = example_losses(super().loss(model, data, draw, encoded))
        assert isinstance(model, Parted)
        return Losses(each, hidden=model.hidden(torch.from_numpy(data.x[rows_of(data, 0)[draw.examples]])))

    def observe(self, model: nn.Module, data: Points) -> Observations:
        """Return what the model makes of training points: likely their class is what is near."""
        assert isinstance(model, Parted)
        rows = rows_of(data, 0)
        errors = errors_of(model, data, rows)
        near, above = torch.exp(-errors.abs()), torch.from_numpy(data.y[rows] > 0)
        first = torch.where(above, 1 - near, near)
        return Observations(
            losses=(errors**2).numpy(force=True),
            probabilities=torch.stack([first, 1 - first], 1).numpy(force=True),
            hidden=model.hidden(torch.from_numpy(data.x[rows])).numpy(force=True),
            correct=(near > 0.5).numpy(force=True),
            centrality=np.arange(1, len(rows) + 1, dtype=np.float32),
            labels=above.numpy().astype(np.int64),
        )

    def states(self, model: nn.Module, data: Points, left_out: Augmentation = WHOLE, seed: int = 0) -> Tensor:
        """Return the hidden layer of all points, without some coordinates."""
        assert isinstance(model, Parted)
        kept = np.random.default_rng(seed).random(data.x.shape[1]) >= left_out.features
        return model.hidden(torch.from_numpy(np.where(kept, data.x, np.float32(0))))

    def edges(self, data: Points) -> tuple[Indices, Indices]:
        """Return the training points, and each point's edges with the one before it and the one behind it."""
        one, next = np.arange(len(data.y) - 1), np.arange(1, len(data.y))
        return rows_of(data, 0), np.stack([np.concatenate([one, next]), np.concatenate([next, one])])

    def local_graph(self, model: nn.Module, data: Points) -> LocalGraph:
        """Return on which side of zero the model sees each point, and on which it is."""
        path = np.arange(len(data.y) - 1)
        edges = np.stack([np.append(path, path + 1), np.append(path + 1, path)])
        rows = rows_of(data, 0)
        told = self.on_graph(model, torch.from_numpy(data.x), edges).softmax(1).numpy(force=True)
        return LocalGraph(told, data.x, edges, rows, (data.y[rows] > 0).astype(np.int64))

    @property
    def given_width(self) -> int:
        """Width of the points."""
        return self.width

    def on_graph(self, model: nn.Module, features: Tensor, edges: Indices) -> Tensor:
        """Return how far above and below zero the model sees each point, whatever is joined."""
        height: Tensor = model(features)
        return torch.stack([-height, height], 1)

    @property
    def response_width(self) -> int:
        """Width of the points."""
        return self.width

    def synthetic(self, g: np.random.Generator) -> Points:
        """Draw points."""
        x = np.abs(g.standard_normal((8, self.width), np.float32))
        return Points(x, np.zeros(8, np.float32), np.full(8, -1))

    def response(self, model: nn.Module, data: Points) -> Array:
        """Return the mean of their hidden layer."""
        assert isinstance(model, Parted)
        return model.hidden(torch.from_numpy(data.x)).mean(0).numpy(force=True)

    def with_parts(self, parts: frozenset[str]) -> "PartedLine":
        """Return the task, with those that are needed of the parts that it has not got anyway."""
        return replace(self, mask=self.mask or "mask" in parts, refinement=self.refinement or "refinement" in parts)

    def together(self, models: Sequence[nn.Module]) -> nn.Module:
        """Return the mean of what models say."""
        return Mean(models)

    def personal(self, name: str) -> bool:
        """Return whether a parameter is the head's."""
        return name.startswith("head.")

    def variant(self, data: Points) -> Hashable:
        """Return the number of the head's rows."""
        return len(data.y) // 40

    def model(self, g: torch.Generator, variant: Hashable = None) -> nn.Module:
        """Draw the sum."""
        return Parted(self.width, variant if isinstance(variant, int) else 1, g, self.mask, self.refinement)


class Mean(nn.Module):
    """The mean of several models."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, x: Tensor) -> Tensor:
        """Return [n] of [n, width]."""
        return torch.stack([model(x) for model in self.models]).mean(0)


class Head(nn.Module):
    """The mean of so many linear maps."""

    def __init__(self, width: int, rows: int, g: torch.Generator) -> None:
        super().__init__()
        self.outer = nn.Linear(width, rows, bias=False, device="meta")  # torch's own generator is the round's
        self.outer.weight = nn.Parameter(torch.randn(rows, width, generator=g))

    def forward(self, x: Tensor) -> Tensor:
        """Return [n] of [n, width]."""
        rows: Tensor = self.outer(x)
        return rows.mean(1)


class Masked(Plane):
    """A plane whose weights may be scaled, each by one plus the `mask`."""

    def __init__(self, width: int, g: torch.Generator, masked: bool) -> None:
        super().__init__(width, g)
        self.mask = nn.Parameter(torch.zeros(width)) if masked else None

    def forward(self, x: Tensor) -> Tensor:
        """Return [n] of [n, width]."""
        flops.count(x.numel())
        return x @ (self.weight if self.mask is None else self.weight * (1 + self.mask)) + self.bias


class Refinement(Plane):
    """A plane that is 0 until it is active."""

    active: Tensor

    def __init__(self, width: int, g: torch.Generator) -> None:
        super().__init__(width, g)
        self.register_buffer("active", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """Return [n] of [n, width]."""
        return super().forward(x) * self.active


class Parted(nn.Module):
    """The sum of a structure, a base and a head."""

    def __init__(self, width: int, rows: int, g: torch.Generator, masked: bool = False, refined: bool = False) -> None:
        super().__init__()
        self.structure, self.base, self.head = Plane(width, g), Masked(width, g, masked), Head(width, rows, g)
        self.refinement = Refinement(width, g) if refined else None

    def hidden(self, x: Tensor) -> Tensor:
        """Return the structure's part of each coordinate, [n, width]."""
        return x * self.structure.weight

    def forward(self, x: Tensor) -> Tensor:
        """Return [n] of [n, width]."""
        total: Tensor = self.structure(x) + self.base(x) + self.head(x)
        return total if self.refinement is None else total + self.refinement(x)
