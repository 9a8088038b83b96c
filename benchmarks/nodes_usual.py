"""Node classification: the usual loop / a round of ours, as most codes write it with PyTorch Geometric.

Per client a deep copy of the model and a new optimiser; graphs are PyG's `Data` with dense features, layers its
`SAGEConv` and `GCNConv`, which gather a row per edge and scatter; models are averaged as state dicts. `GCNConv`
computes its normalisation in every forward.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, SAGEConv

from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.halo_setup import inside
from fedgraft.engine.plan import Plan
from fedgraft.methods.models import gcn
from fedgraft.methods.selectors.random import Random
from fedgraft.nn.layers import RowLinear
from fedgraft.wire.layouts import Arrays
from nodes import COHORT, EPOCHS, WARM_UP, Training, sized
from timing import Apart, in_turns, ratio
from workloads import federation


class UsualModel(nn.Module):
    """Our model as a PyG user writes it."""

    def __init__(self, ours: Any) -> None:
        super().__init__()
        made = [(_gcn if isinstance(layer, gcn.Convolution) else _sage)(layer) for layer in ours.convolutions]
        self.convolutions = nn.ModuleList(made)

    def forward(self, graph: Data) -> Tensor:
        """Logits of all nodes."""
        state: Tensor = graph.x
        for number, layer in enumerate(self.convolutions):
            if number:
                state = torch.relu(state)
            state = layer(state, graph.edge_index)
        return state

    def arrays(self) -> Arrays:
        """Its parameters by our names."""
        found: Arrays = {}
        for number, layer in enumerate(self.convolutions):
            if isinstance(layer, GCNConv):
                parts = {"linear.weight": layer.lin.weight, "linear.bias": layer.bias}
            else:
                parts = {
                    "own.weight": layer.lin_r.weight,
                    "own.bias": layer.lin_l.bias,
                    "mean.weight": layer.lin_l.weight,
                }
            for name, values in parts.items():
                first = number == 0 and name.endswith("weight")  # ours are [inputs, outputs] there
                found[f"convolutions.{number}.{name}"] = (values.t() if first else values).detach().numpy()
        return found


class Usual(Training):
    """The usual loop over the same cohorts."""

    def __init__(self, plan: Plan, shards: Sequence[NodeShard]) -> None:
        super().__init__(plan, shards)
        self._graphs = [_graph(shard) for shard in shards]
        self.model = UsualModel(plan.build_model().module)

    def round(self, number: int) -> None:
        """One round."""
        states, shares = [], []
        for client, share in self.cohort(number):
            local = copy.deepcopy(self.model)
            self._train(local, self._graphs[client])
            states.append(local.state_dict())
            shares.append(share)
        mean = {
            name: sum(share * state[name] for share, state in zip(shares, states, strict=True)) for name in states[0]
        }
        self.model.load_state_dict(mean)

    def _train(self, model: UsualModel, graph: Data) -> None:
        training = self.plan.training
        optimizer = torch.optim.Adam(model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay)
        model.train()
        for _ in range(training.epochs):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(graph)[graph.train_mask], graph.y[graph.train_mask])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def s256_over_ours(epochs: int = EPOCHS, share: float = 1.0, repeats: int = 10) -> float:
    """Seconds of a round of the usual loop / seconds of ours; PubMed's size, SAGE of 256 and 128."""
    return _usual_over_ours("s256", epochs, share, repeats)


def g64_over_ours(epochs: int = EPOCHS, share: float = 1.0, repeats: int = 30) -> float:
    """Seconds of a round of the usual loop / seconds of ours; PubMed's size, GCN of 64."""
    return _usual_over_ours("g64", epochs, share, repeats)


def _usual_over_ours(model: str, epochs: int, share: float, repeats: int) -> float:
    plan, shards = sized(model, epochs, share=share)
    with federation(plan, shards, Random(clients=COHORT)) as ours, Apart(Usual, plan, shards) as usual:
        seconds = in_turns({"ours": ours.round, "usual": usual.round}, repeats, warm_up=WARM_UP)
    return ratio(seconds, "usual", "ours")


def _sage(ours: Any) -> SAGEConv:
    mean, own = _weight(ours.mean), _weight(ours.own)
    layer = SAGEConv(mean.shape[1], mean.shape[0])
    layer.lin_l.weight.data, layer.lin_l.bias.data = mean, ours.own.bias.detach().clone()
    layer.lin_r.weight.data = own
    return layer


def _gcn(ours: Any) -> GCNConv:
    weight = _weight(ours.linear)
    layer = GCNConv(weight.shape[1], weight.shape[0])
    layer.lin.weight.data, layer.bias.data = weight, ours.linear.bias.detach().clone()
    return layer


def _weight(ours: Any) -> Tensor:
    """Weights [outputs, inputs]."""
    weight: Tensor = ours.weight.detach()
    return (weight.t() if isinstance(ours, RowLinear) else weight).clone(memory_format=torch.contiguous_format)


def _graph(shard: NodeShard) -> Data:
    """A client's own nodes and the edges among them."""
    shard = inside(shard)
    ends = np.stack([shard.senders.astype(np.int64), np.repeat(np.arange(shard.own), shard.degree)])
    features = shard.features if isinstance(shard.features, np.ndarray) else shard.features.toarray()
    return Data(
        x=torch.from_numpy(features),
        edge_index=torch.from_numpy(ends),
        y=torch.from_numpy(shard.label),
        train_mask=torch.from_numpy(shard.split == 0),
    )
