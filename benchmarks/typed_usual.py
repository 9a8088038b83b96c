"""HAN: PyG's layer / ours, a step of training on the same graph with the same parameters.

Forward, backward and a step of Adam, of HAN and a linear layer; on one client's part, and on the whole graph. Theirs
is `HANConv` on dense features, as it takes them, with `torch.optim.Adam`; that both tell the same is checked first.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import HANConv

from fedgraft.contracts import Batch
from fedgraft.domains.typed.client_data import feature_states
from fedgraft.domains.typed.metapath_graphs import metapath_matrix
from fedgraft.domains.typed.shards import TypedGraph
from fedgraft.engine.allocator import keep_freed
from fedgraft.engine.plan import Plan
from fedgraft.engine.training import Optimizer
from skipped import Skipped
from timing import Apart, in_turns, ratio
from typed import sized, step

STEPS = 10
"""Steps of a round on a client's part."""
GIBIBYTES = 14
"""Memory that a step of PyG's takes on the whole of ACM or DBLP, and some more."""
EQUAL = 1e-4
"""Largest difference of two logits."""


class Ours:
    """Steps as a client makes them.

    Args:
        name: "acm" or "dblp".
        whole: whether on the whole graph; else on the first client's part.
        share: see `typed.sized`.
    """

    def __init__(self, name: str, whole: bool, share: float = 1.0) -> None:
        self.plan, self.part = graph_of(name, whole, share)
        self._steps = 1 if whole else STEPS
        self.data: Any = self.plan.task.prepare(self.part, {})
        self.flat = self.plan.build_model()
        self._optimizer = Optimizer(self.plan.training, self.flat)
        self._draw = Batch(np.arange(self.plan.task.examples(self.data)))

    def round(self, number: int) -> None:
        """Some steps."""
        for _ in range(self._steps):
            step(self.plan, self.flat, self._optimizer, self.data, self._draw)

    def logits(self) -> Tensor:
        """Of all nodes."""
        with torch.no_grad():
            logits: Tensor = self.flat.module(self.data.features, self.data.graphs)
        return logits


class UsualModel(nn.Module):
    """Our model as a PyG user writes it."""

    def __init__(self, ours: Any, inputs: int, names: list[tuple[str, str, str]]) -> None:
        super().__init__()
        han, options = ours.encoder, ours.encoder.options
        self.han = HANConv(inputs, options.hidden, (["n"], names), heads=options.heads, negative_slope=options.slope)
        self.head = nn.Linear(options.hidden, ours.head["outer"].weight.shape[0])
        parts = [
            (self.han.proj["n"].weight, han.inputs.weight.t()),
            (self.han.proj["n"].bias, han.inputs.bias),
            (self.han.k_lin.weight, han.semantic.weight),
            (self.han.k_lin.bias, han.semantic.bias),
            (self.han.q, han.query[None]),
            (self.head.weight, ours.head["outer"].weight),
            (self.head.bias, ours.head["outer"].bias),
        ]
        for number, name in enumerate(names):
            parts.append((self.han.lin_dst["__".join(name)], han.receiver[number][None]))
            parts.append((self.han.lin_src["__".join(name)], han.sender[number][None]))
        for theirs, values in parts:
            theirs.data.copy_(values.detach())

    def forward(self, features: Tensor, edges: dict[tuple[str, str, str], Tensor]) -> Tensor:
        """Logits of all nodes."""
        logits: Tensor = self.head(self.han({"n": features}, edges)["n"])
        return logits


class Usual:
    """Steps with PyG's layer; arguments as `Ours`. Raises `AssertionError` where it does not begin as ours does."""

    def __init__(self, name: str, whole: bool, share: float = 1.0) -> None:
        plan, part = graph_of(name, whole, share)
        task: Any = plan.task
        names = [("n", f"path{number}", "n") for number in range(len(task.metapaths))]
        self._steps = 1 if whole else STEPS
        features = part.features if isinstance(part.features, np.ndarray) else part.features.toarray()
        self._features, self._edges = feature_states(features, task.inputs.scale), {}
        for kind, metapath in zip(names, task.metapaths, strict=True):
            entries = metapath_matrix(part, metapath, task.exchange.neighbours).tocoo()
            self._edges[kind] = torch.from_numpy(np.stack([entries.col, entries.row]).astype(np.int64))
        self.model = UsualModel(plan.build_model().module, part.width, names)
        self._label, self._rows = torch.from_numpy(part.label), torch.from_numpy(part.rows("train"))
        rate, decay = plan.training.learning_rate, plan.training.weight_decay
        self._optimizer = torch.optim.Adam(self.model.parameters(), lr=rate, weight_decay=decay)
        with torch.no_grad():
            apart = float((self.model(self._features, self._edges) - Ours(name, whole, share).logits()).abs().max())
        assert apart <= EQUAL, f"logits are {apart:.2g} apart"

    def round(self, number: int) -> None:
        """Some steps."""
        for _ in range(self._steps):
            self._optimizer.zero_grad()
            logits = self.model(self._features, self._edges)[self._rows]
            nn.functional.cross_entropy(logits, self._label[self._rows]).backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()


def graph_of(name: str, whole: bool, share: float = 1.0) -> tuple[Plan, TypedGraph]:
    """The plan, and the whole graph or the first client's part of it; over all neighbours, as HAN's paper has them."""
    plan, shards = sized(name, share)
    task: Any = plan.task
    task = replace(task, exchange=replace(task.exchange, neighbours=0))
    return replace(plan, task=task), task.pooled(shards) if whole else shards[0]


def acm_part(repeats: int = 20) -> float:
    """Seconds of PyG's steps / seconds of ours; one client's part of ACM."""
    return _over_ours("acm", False, repeats)


def dblp_part(repeats: int = 20) -> float:
    """Seconds of PyG's steps / seconds of ours; one client's part of DBLP."""
    return _over_ours("dblp", False, repeats)


def acm_whole(repeats: int = 2) -> float:
    """Seconds of a step of PyG's / seconds of ours; the whole of ACM."""
    return _over_ours("acm", True, repeats)


def dblp_whole(repeats: int = 2) -> float:
    """Seconds of a step of PyG's / seconds of ours; the whole of DBLP."""
    return _over_ours("dblp", True, repeats)


def _over_ours(name: str, whole: bool, repeats: int, share: float = 1.0) -> float:
    if whole and free_gibibytes() < GIBIBYTES:
        raise Skipped(f"PyG's layer takes {GIBIBYTES} GiB, and {free_gibibytes():.0f} are free")
    keep_freed()  # here, as every process of a run has it; not where theirs is
    with Apart(Usual, name, whole, share) as usual:
        seconds = in_turns({"ours": Ours(name, whole, share).round, "usual": usual.round}, repeats)
    return ratio(seconds, "usual", "ours")


def free_gibibytes() -> float:
    """Memory that is free, in GiB; endless where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            found = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return float("inf")
    return found / 2**20
