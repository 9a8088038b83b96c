"""Rounds over edges that carry columns, on AMLSim: ours beside a bare loop with the same kernels, and beside PyG's.

    python benchmarks/edge_rounds.py ROOT [--model gine] [--rounds 7]

ROOT is the folder above 20K_cycle200. All clients train, five epochs of one step each; `gine` has the layers of PyG's
`GINEConv`, `multigraph` other ones, which do more. The bare loop has everything but the kernels found beforehand, and
no messages, states of others or ledger. PyG's has a deep copy and a new optimiser per client, in a process of its own.
"""

import argparse
import copy
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GINEConv

from fedgraft.experiment import job as jobs
from fedgraft.experiment.job import Job
from timing import Apart, in_turns, ratio
from workloads import federation, prepare

WIDTH, RATE = 32, 0.03
WARM_UP = 3
"""Rounds after which each client has what it keeps."""


def built(root: str, model: str) -> tuple[Job, list]:
    """The recipe `graft_multigraph` with a model of two layers, and its clients' data."""
    changes = {"data.root": root, "model.name": model, "model.hidden": [WIDTH, WIDTH], "loss.dropout": 0.0}
    found = jobs.load("graft_multigraph", {**changes, "baselines": []})
    shards = list(found.shards())
    return found.fitted(shards), shards


class Bare:
    """The same steps without a federation."""

    def __init__(self, found: Job, shards: list) -> None:
        task, self._training = found.plan.task, found.plan.training
        self._data, self._model = prepare(found.plan, shards), found.plan.build_model().module
        known = [[np.ones(each.own + each.halo, bool)] * (task.layers - 1) for each in self._data]
        most = (0,) * task.layers
        self._computed = [
            each.computed(np.sort(each.rows["train"]), most, True, states=states)
            for each, states in zip(self._data, known, strict=True)
        ]

    def round(self, number: int) -> None:
        """One round."""
        self._model.train()
        for data, computed in zip(self._data, self._computed, strict=True):
            for _ in range(self._training.epochs):
                self._model.zero_grad()
                cross_entropy(data.logits(self._model, computed, False), computed.label).backward()
                with torch.no_grad():
                    for each in self._model.parameters():
                        each.sub_(each.grad, alpha=RATE)


class Gine(nn.Module):
    """Two layers of PyG's and a linear one."""

    def __init__(self, features: int, columns: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            GINEConv(nn.Sequential(nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)), edge_dim=columns)
            for inputs in (features, WIDTH)
        )
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, states: Tensor, edges: Tensor, values: Tensor) -> Tensor:
        """Return logits [nodes, classes]."""
        for layer in self.layers:
            states = layer(states, edges, values).relu()
        return self.head(states)


class Usual:
    """What one would write with PyG, on what each client has."""

    def __init__(self, root: str) -> None:
        found, shards = built(root, "gine")
        self._epochs, first = found.plan.training.epochs, shards[0]
        self._model = Gine(first.width, first.edge_width, len(first.classes))
        self._clients = []
        for shard in shards:
            receiver = np.repeat(np.arange(shard.own), shard.degree)
            features = np.concatenate([shard.features, np.zeros((shard.halo, shard.width), np.float32)])
            given = features, np.stack([shard.senders.astype(np.int64), receiver]), shard.edge_rows.values
            train = shard.rows("train")
            self._clients.append([*map(torch.from_numpy, (*given, train, shard.label[train]))])

    def round(self, number: int) -> None:
        """One round, without the mean of models."""
        for features, edges, values, train, label in self._clients:
            model = copy.deepcopy(self._model)
            optimizer = torch.optim.Adam(model.parameters(), RATE)
            for _ in range(self._epochs):
                optimizer.zero_grad()
                cross_entropy(model(features, edges, values)[train], label).backward()
                optimizer.step()


def main() -> None:
    """Print seconds of a round of each, and both ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--model", default="gine", choices=["gine", "multigraph"])
    parser.add_argument("--rounds", type=int, default=7, help="rounds that count (7)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    root = str(given.root)
    found, shards = built(root, given.model)
    bare = Bare(found, shards)
    with federation(found.plan, shards, found.selector) as ours, Apart(Usual, root) as usual:
        variants = {"ours": ours.round, "bare": bare.round, "usual": usual.round}
        seconds = in_turns(variants, given.rounds, warm_up=WARM_UP)
    print(", ".join(f"{name} {median(each):.3f} s" for name, each in seconds.items()))
    print(f"{given.model}: ours / bare {ratio(seconds, 'ours', 'bare'):.2f} (at most 1.5)")
    print(f"{given.model}: PyG's GINEConv / ours {ratio(seconds, 'usual', 'ours'):.2f} (at least 2 of gine)")


if __name__ == "__main__":
    main()
