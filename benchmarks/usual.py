"""Usual loop / ours: federated training as most codes write it, with PyTorch Geometric.

Per client a deep copy of the model and a new optimiser; graphs are PyG's `Data`, layers its `MessagePassing` (gather a
row per edge, multiply, scatter); models are averaged as state dicts. Batches, and what they share, are as ours: it
ends with the same model, and the ratio is that of the code alone. To its advantage, normalisation is computed
beforehand and absent edges are left out.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from fedgraft.contracts import Stage, randomness
from fedgraft.engine.plan import Plan
from fedgraft.nn.propagate import GraphView
from timing import Apart, in_turns, ratio
from workloads import ciao_sized, federation, prepare


class Convolution(MessagePassing):  # type: ignore[misc]
    """A graph convolution with weights from edge features, as a PyG user writes it."""

    def __init__(self, linear: nn.Linear, scale: Tensor, edge: Tensor) -> None:
        super().__init__(aggr="add")
        self.linear, self.scale, self.edge = linear, nn.Parameter(scale), nn.Parameter(edge)

    def forward(self, x: Tensor, graph: Data) -> Tensor:
        """Embeddings of the next layer."""
        weight = graph.norm * (self.scale + graph.edge_attr @ self.edge)
        out: Tensor = self.linear(x + self.propagate(graph.edge_index, x=x, weight=weight))
        return out

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:
        """One row per edge."""
        return weight[:, None] * x_j


class Encoder(nn.Module):
    """The stack of layers, from the parameters of `fedgraft.methods.models.gcn.Layers`."""

    def __init__(self, ours: Any) -> None:
        super().__init__()
        scales, edges = ours.scale.detach(), ours.edge.detach()
        parts = zip(ours.linear, scales, edges, strict=True)
        self.layers = nn.ModuleList(Convolution(linear, scale.clone(), edge.clone()) for linear, scale, edge in parts)

    def forward(self, graph: Data) -> Tensor:
        """Embeddings of all nodes."""
        x: Tensor = graph.x
        for number, layer in enumerate(self.layers):
            x = layer(x, graph)
            if number < len(self.layers) - 1:
                x = torch.relu(x)
        return x


class Usual:
    """The usual loop over the same clients."""

    def __init__(self, plan: Plan, shards: Sequence[Any]) -> None:
        self._plan = plan
        self._data = prepare(plan, shards)
        self._blocks = [plan.task.blocks(data) for data in self._data]
        examples = [plan.task.examples(data) for data in self._data]
        self._shares = [count / sum(examples) for count in examples]
        self._graphs: dict[tuple[int, int], Data] = {}
        self.model: Any = plan.task.model(randomness.torch_generator(plan.seed, "model"))
        self.model.encoder = Encoder(self.model.encoder)

    def build_graphs(self, number: int) -> None:
        """The graphs of a round, which a usual code has loaded before it begins."""
        for client, data in enumerate(self._data):
            for index in self._order(client, number)[0]:
                if (client, index) not in self._graphs:
                    self._graphs[client, index] = _graph(data.folds[index].view)

    def round(self, number: int) -> None:
        """One round of all clients."""
        states = []
        for client in range(len(self._data)):
            local = copy.deepcopy(self.model)
            self._train(local, client, number)
            states.append(local.state_dict())
        mean = {
            name: sum(share * state[name] for share, state in zip(self._shares, states, strict=True))
            for name in states[0]
        }
        self.model.load_state_dict(mean)

    def _order(self, client: int, number: int) -> tuple[list[int], Any]:
        g = randomness.generator(self._plan.seed, "train", number, client)
        order = g.permutation(len(self._blocks[client]))
        return order[: self._plan.training.blocks or None].tolist(), g

    def _train(self, model: Any, client: int, number: int) -> None:
        training, task, data = self._plan.training, self._plan.task, self._data[client]
        optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=training.learning_rate,
            betas=(0.9, training.second_moment),
            weight_decay=training.weight_decay,
        )
        order, g = self._order(client, number)
        for index in order:
            draws = self._plan.sampler.draw(None, self._blocks[client][index], Stage(), g)
            nodes = model.encoder(self._graphs[client, index])
            shared = nodes.detach().requires_grad_()
            for draw in draws:
                optimizer.zero_grad()
                task.loss(model, data, draw, shared).mean().backward()  # type: ignore[no-untyped-call]
                if draw is draws[-1]:
                    nodes.backward(shared.grad / len(draws))
                optimizer.step()


def usual_over_ours(share: float = 1.0, repeats: int = 5) -> float:
    """Seconds of a round of the usual loop / seconds of ours."""
    plan, shards = ciao_sized(share)
    with federation(plan, shards) as ours, Apart(_loaded, plan, shards, repeats + 1) as usual:
        seconds = in_turns({"ours": ours.round, "usual": usual.round}, repeats)
    return ratio(seconds, "usual", "ours")


def _loaded(plan: Plan, shards: Sequence[Any], rounds: int) -> Usual:
    """The loop with its graphs of so many rounds."""
    usual = Usual(plan, shards)
    for number in range(1, rounds + 1):
        usual.build_graphs(number)
    return usual


def _graph(view: GraphView) -> Data:
    present = view.norm > 0
    ends = torch.stack([view.graph.columns[present], view.graph.rows[present]])
    return Data(x=view.nodes, edge_index=ends, edge_attr=view.edges[present], norm=view.norm[present])
