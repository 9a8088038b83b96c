"""A task small enough to follow by hand: fit y = w x by SGD, for tests of the engine."""

import math
import os
import signal
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from torch import nn

from fedgraft.contracts import Batch, Questions, Sums, Task
from fedgraft.contracts.abilities.pooling import PooledTask
from fedgraft.contracts.abilities.predicting import PredictingTask
from fedgraft.contracts.data import Data
from fedgraft.wire.layouts import Arrays


@dataclass(frozen=True, eq=False)
class Points:
    """One client's points: x [n, d], y [n], split [n]."""

    x: np.ndarray
    y: np.ndarray
    split: np.ndarray


@dataclass(frozen=True)
class Lines(Data[Points]):
    """Clients with points on one noisy plane, the first client's slope off by `shift`."""

    task: ClassVar[str] = "helpers.toy:Line"

    clients: int = 5
    points: int = 40
    width: int = 3
    shift: float = 0.5

    def load(self, seed: int) -> list[Points]:
        shards = []
        for client in range(self.clients):
            g = np.random.default_rng([seed, client])
            n = self.points * (1 + client % 3)
            x = g.standard_normal((n, self.width)).astype(np.float32)
            slope = np.arange(1, self.width + 1) + self.shift * (client == 0)
            y = (x @ slope + 0.1 * g.standard_normal(n)).astype(np.float32)
            shards.append(Points(x, y, np.array([0, 0, 1, 2])[np.arange(n) % 4]))
        return shards


class Linear(nn.Module):
    def __init__(self, width: int, g: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, generator=g))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + self.bias


@dataclass(frozen=True)
class Line(Task[Points, Points], PooledTask[Points, Points], PredictingTask[Points, Points]):
    """Least squares. `fault` makes one client misbehave.

    Args:
        fault: "raise", "hang", "die", "kill", "memory" and "torch" (too little of it, as Python and torch tell), "nan".
        faulty_points: how many points the client has.
        at: when it does so, in "training" or "scoring".
        times: how often; 0 = always.
        tally: a file that counts the times.
    """

    metric: ClassVar[str] = "rmse"
    better: ClassVar[str] = "lower"
    asks: ClassVar[tuple[str, ...]] = ("points",)
    profile: ClassVar[frozenset[str]] = frozenset({f"label_{k}" for k in range(5)})

    width: int = 3
    fault: str = ""
    faulty_points: int = 0
    at: str = "training"
    times: int = 0
    tally: str = ""

    @property
    def sums(self) -> tuple[str, ...]:
        return "squared_error", "count"

    def prepare(self, shard: Points, shared: Arrays) -> Points:
        return shard

    def examples(self, data: Points) -> int:
        return int((data.split == 0).sum())

    def describe(self, data: Points) -> dict[str, float]:
        counts = np.histogram(data.y[data.split == 0], bins=[-math.inf, -3, -1, 1, 3, math.inf])[0]
        return {f"label_{k}": float(count / max(1, self.examples(data))) for k, count in enumerate(counts)}

    def pooled(self, shards: Sequence[Points]) -> Points:
        return Points(*(np.concatenate([getattr(s, name) for s in shards]) for name in ("x", "y", "split")))

    def model(self, g: torch.Generator, variant: Hashable = None) -> nn.Module:
        return Linear(self.width, g)

    def loss(self, model: nn.Module, data: Points, draw: Batch, encoded: torch.Tensor | None) -> torch.Tensor:
        if self._fails(data, "training"):
            return model(torch.from_numpy(data.x)) * math.nan
        rows = np.flatnonzero(data.split == 0)[draw.examples]
        return (model(torch.from_numpy(data.x[rows])) - torch.from_numpy(data.y[rows])) ** 2

    def evaluate(self, model: nn.Module, data: Points) -> dict[str, Sums]:
        self._fails(data, "scoring")
        return {split: self._sums(model, data, number) for number, split in enumerate(("validation", "test"), start=1)}

    def _fails(self, data: Points, at: str) -> bool:
        """Misbehave, if that is what this client does now; whether it is by numbers that are none."""
        if not self.fault or len(data.y) != self.faulty_points or at != self.at:
            return False
        if self.times:
            with Path(self.tally).open("ab") as file:
                if file.tell() == self.times:
                    return False
                file.write(b"x")
        if self.fault == "raise":
            raise ValueError("this client is broken")
        if self.fault == "hang":
            time.sleep(60)
        if self.fault == "die":
            os._exit(9)
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "memory":
            np.empty(1 << 60, np.uint8)
        if self.fault == "torch":
            torch.empty(1 << 60, dtype=torch.uint8)
        return self.fault == "nan"

    def _sums(self, model: nn.Module, data: Points, number: int) -> Sums:
        rows = data.split == number
        error = model(torch.from_numpy(data.x[rows])).numpy() - data.y[rows]
        return {"squared_error": float((error.astype(np.float64) ** 2).sum()), "count": float(rows.sum())}

    def score(self, sums: Sums) -> float:
        return math.sqrt(sums["squared_error"] / sums["count"]) if sums.get("count") else math.nan

    def questions(self, shards: Sequence[Points], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
        table = tables["points"]
        rows = {int(client): np.flatnonzero(table["client"] == client) for client in table["client"].unique()}
        wanted = [f"x{k}" for k in range(self.width)]
        return {c: Questions(r, table[wanted].to_numpy(np.float32)[r]) for c, r in rows.items()}

    def predict(self, model: nn.Module, shard: Points, shared: Arrays, asked: np.ndarray) -> dict[str, np.ndarray]:
        return {"y": model(torch.from_numpy(asked)).detach().numpy()}
