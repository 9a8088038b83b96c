"""A task small enough for laws that need whole runs: fit points on a plane by gradient descent."""

import math
import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedgraft.contracts import SCORED_SPLITS, Batch, Indices, Linear, LinearTask, Loss, Regression, Sums, Task
from fedgraft.contracts.data import Data
from fedgraft.contracts.scores import root_mean_square
from fedgraft.nn import flops
from fedgraft.wire.layouts import Array, Arrays

SLEEP_SECONDS = 20.0
"""How long a client takes that is late."""


@dataclass(frozen=True, eq=False)
class Points:
    """One client's points: x float32 [n, width], y float32 [n], split int64 [n]."""

    x: Array
    y: Array
    split: Array


@dataclass(frozen=True)
class Lines(Data[Points]):
    """Clients with points on one noisy plane, the first client's slope off by `shift`; 40, 80 or 120 points each."""

    task: ClassVar[str] = "fedgraft.testing.toy:Line"

    clients: int = 5
    points: int = 40
    width: int = 3
    shift: float = 0.5

    def load(self, seed: int) -> list[Points]:
        """Draw every client's points, a quarter of them for validation, a quarter for the test."""
        return [self._drawn(client, np.random.default_rng([seed, client])) for client in range(self.clients)]

    def _drawn(self, client: int, g: np.random.Generator) -> Points:
        n = self.points * (1 + client % 3)
        x = g.standard_normal((n, self.width)).astype(np.float32)
        slope = np.arange(1, self.width + 1) + self.shift * (client == 0)
        y = (x @ slope + 0.1 * g.standard_normal(n)).astype(np.float32)
        return Points(x, y, np.array([0, 0, 1, 2])[np.arange(n) % 4])


@dataclass(frozen=True)
class Line(Task[Points, Points], LinearTask[Points, Points]):
    """Least squares.

    Args:
        width: of the points.
        fault: what goes wrong in training at clients with `faulty_points` points: "" for nothing, "raise" for an
            error, "sleep" for `SLEEP_SECONDS` of nothing.
        faulty_points: how many points such clients have.
    """

    sums: ClassVar[tuple[str, ...]] = ("squared_error", "count")
    stochastic: ClassVar[bool] = False
    metric: ClassVar[str] = "rmse"
    better: ClassVar[str] = "lower"

    width: int = 3
    fault: str = ""
    faulty_points: int = 0

    def prepare(self, shard: Points, shared: Arrays) -> Points:
        """Return the points as they are."""
        return shard

    def examples(self, data: Points) -> int:
        """Count training points."""
        return len(rows_of(data, 0))

    def model(self, g: torch.Generator, variant: Hashable = None) -> nn.Module:
        """Draw a plane."""
        return Plane(self.width, g)

    @property
    def linear(self) -> Linear | None:
        """Return the plane."""
        return Linear("weight", "bias", self.width, 1, classes=False)

    def regression(self, data: Points, examples: Indices) -> Regression:
        """Return training points and their values."""
        rows = rows_of(data, 0)[examples]
        return Regression(data.x[rows], data.y[rows, None], np.ones(len(rows), np.float32))

    def loss(self, model: nn.Module, data: Points, draw: Batch, encoded: Tensor | None) -> Loss:
        """Return squared errors."""
        if len(data.y) == self.faulty_points:
            self._fail()
        return errors_of(model, data, rows_of(data, 0)[draw.examples]) ** 2

    def evaluate(self, model: nn.Module, data: Points) -> dict[str, Sums]:
        """Return squared errors and numbers of points."""
        sums = {}
        for number, split in enumerate(SCORED_SPLITS, start=1):
            errors = errors_of(model, data, rows_of(data, number)).double()
            sums[split] = {"squared_error": float((errors**2).sum()), "count": float(len(errors))}
        return sums

    def score(self, sums: Sums) -> float:
        """Return the RMSE."""
        return root_mean_square(sums["squared_error"], sums["count"]) if sums else math.nan

    def _fail(self) -> None:
        if self.fault == "raise":
            raise ValueError("this client is broken")
        if self.fault == "sleep":
            time.sleep(SLEEP_SECONDS)


class Plane(nn.Module):
    """A linear map to one number."""

    def __init__(self, width: int, g: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, generator=g))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """Return [n] of [n, width]."""
        flops.count(x.numel())
        return x @ self.weight + self.bias


def rows_of(data: Points, number: int) -> NDArray[np.int64]:
    """Return the rows of a split."""
    return np.flatnonzero(data.split == number)


def errors_of(model: nn.Module, data: Points, rows: NDArray[np.int64]) -> Tensor:
    """Return by how much a model is wrong of some rows, float32 [rows]."""
    predicted: Tensor = model(torch.from_numpy(data.x[rows]))
    return predicted - torch.from_numpy(data.y[rows])
