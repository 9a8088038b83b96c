"""Graph classification: a round against a bare loop with the same kernels, and against the usual DataLoader loop.

All variants train the same batches by the same steps and end with the same shared parameters; the ratios are those of
the code alone.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, global_add_pool

from fedgraft.contracts import Batch, Stage, randomness
from fedgraft.contracts.task import example_losses
from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.engine.plan import Plan
from fedgraft.engine.training import Optimizer
from fedgraft.wire.layouts import Arrays
from timing import Apart, in_turns, ratio
from workloads import GRAPHS, assays, federation, prepare


class Training:
    """What every variant knows: the clients' data, their shares of the mean, and the batches of a round."""

    def __init__(self, plan: Plan, shards: Sequence[GraphShard]) -> None:
        self.plan, self.data = plan, prepare(plan, shards)
        examples = [plan.task.examples(data) for data in self.data]
        self.shares = [count / sum(examples) for count in examples]

    def draws(self, client: int, number: int) -> Sequence[Batch]:
        """A client's batches of a round."""
        g = randomness.generator(self.plan.seed, "train", number, client)
        blocks = self.plan.task.blocks(self.data[client])
        return [
            draw
            for index in g.permutation(len(blocks))
            for draw in self.plan.sampler.draw(None, blocks[index], Stage(), g)
        ]


class Floor(Training):
    """The same training without a federation: no messages, no memories, no checks, no ledger, no report."""

    def __init__(self, plan: Plan, shards: Sequence[GraphShard]) -> None:
        super().__init__(plan, shards)
        self._flats = [plan.build_model(plan.task.variant(data)) for data in self.data]
        self._optimizers = [Optimizer(plan.training, flat) for flat in self._flats]
        self.model: Arrays = dict(plan.first)

    def round(self, number: int) -> None:
        """One round of all clients."""
        total = {name: 0.0 * array for name, array in self.model.items()}
        for client, share in enumerate(self.shares):
            flat, optimizer = self._flats[client], self._optimizers[client]
            flat.load(self.model)
            optimizer.reset(self.plan.training.learning_rate)
            flat.module.train()
            for draw in self.draws(client, number):
                flat.gradient.zero_()
                losses = example_losses(self.plan.task.loss(flat.module, self.data[client], draw, None))
                losses.mean().backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            trained = flat.read(list(total))
            total = {name: array + share * trained[name] for name, array in total.items()}
        self.model = total


class UsualModel(nn.Module):
    """Our model as a PyG user writes it: one-hot columns as a matrix, `GINConv`, `global_add_pool`."""

    def __init__(self, ours: Any) -> None:
        super().__init__()
        self.inputs = nn.Linear(len(ours.inputs.kind) - 1, ours.inputs.kind.shape[1], bias=False)
        self.inputs.weight.data = ours.inputs.kind.detach()[:-1].t().clone()
        layers = [nn.Sequential(layer.inner, nn.ReLU(), layer.outer) for layer in ours.convolutions]
        # The layer draws what it is given anew.
        self.convolutions = nn.ModuleList(GINConv(copy.deepcopy(layer)) for layer in layers)
        for convolution, layer in zip(self.convolutions, layers, strict=True):
            convolution.nn.load_state_dict(layer.state_dict())
        self.norms = nn.ModuleList(nn.BatchNorm1d(len(norm.weight)) for norm in ours.norms)
        self.head = copy.deepcopy(ours.head)

    def forward(self, batch: Data) -> Tensor:
        """Logits."""
        state = torch.relu(self.inputs(batch.x))
        pooled = [global_add_pool(state, batch.batch)]
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            state = torch.relu(norm(convolution(state, batch.edge_index)))
            pooled.append(global_add_pool(state, batch.batch))
        logits: Tensor = self.head(torch.cat(pooled, 1))
        return logits


class Usual(Training):
    """Per client a deep copy, a DataLoader and a new optimiser; shared layers are averaged as state dicts."""

    def __init__(self, plan: Plan, shards: Sequence[GraphShard]) -> None:
        super().__init__(plan, shards)
        self._graphs = [_listed(shard) for shard in shards]
        drawn = [plan.build_model(plan.task.variant(data)).module for data in self.data]
        self.models = [UsualModel(module) for module in drawn]

    def round(self, number: int) -> None:
        """One round of all clients."""
        states = []
        for client, graphs in enumerate(self._graphs):
            model = copy.deepcopy(self.models[client])
            self._train(model, client, number, graphs)
            self.models[client] = model
            states.append(model.convolutions.state_dict())
        mean = {
            name: sum(share * state[name] for share, state in zip(self.shares, states, strict=True))
            for name in states[0]
        }
        for model in self.models:
            model.convolutions.load_state_dict(mean)

    def _train(self, model: UsualModel, client: int, number: int, graphs: list[Data]) -> None:
        training = self.plan.training
        optimizer = torch.optim.Adam(model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay)
        model.train()
        batches = [draw.examples.tolist() for draw in self.draws(client, number)]
        for batch in DataLoader(graphs, batch_sampler=batches):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(batch), batch.y).backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def over_floor(graphs: int = GRAPHS, repeats: int = 7) -> float:
    """Seconds of a round / seconds of the floor."""
    plan, shards = assays(graphs)
    floor = Floor(plan, shards)
    with federation(plan, shards) as ours:
        seconds = in_turns({"ours": ours.round, "floor": floor.round}, repeats)
    return ratio(seconds, "ours", "floor")


def usual_over_ours(graphs: int = GRAPHS, repeats: int = 5) -> float:
    """Seconds of a round of the usual loop / seconds of ours."""
    plan, shards = assays(graphs)
    with federation(plan, shards) as ours, Apart(Usual, plan, shards) as usual:
        seconds = in_turns({"ours": ours.round, "usual": usual.round}, repeats)
    return ratio(seconds, "usual", "ours")


def _listed(shard: GraphShard) -> list[Data]:
    """A client's training graphs, one by one."""
    first = [0, *shard.sizes.cumsum().tolist()]
    receiver, sender = torch.from_numpy(shard.edges.astype("int64"))
    graph_of = torch.arange(shard.graphs).repeat_interleave(torch.from_numpy(shard.sizes))
    x = nn.functional.one_hot(torch.from_numpy(shard.kind).long(), shard.kinds).float()
    listed = []
    for graph in shard.rows("train").tolist():
        own = graph_of[receiver] == graph
        ends = torch.stack([sender[own], receiver[own]]) - first[graph]
        label = torch.tensor([int(shard.label[graph])])
        listed.append(Data(x=x[first[graph] : first[graph + 1]], edge_index=ends, y=label))
    return listed
