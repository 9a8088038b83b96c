"""A trained model of nodes as a module over tensors: what it makes of features, and what it reads of a graph."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedgraft.contracts.abilities.plain import USAGE, USAGE_OF_NUMBERS, PlainModel, network_text
from fedgraft.contracts.inputs import Inputs
from fedgraft.contracts.labels import Unit
from fedgraft.domains.edge_data.read_edges import ReadEdges
from fedgraft.domains.nodes.task.node_task import NodeTask
from fedgraft.domains.nodes.training.model import NodeModel
from fedgraft.domains.nodes.training.neighbour_sampling import Hop
from fedgraft.errors import InputError
from fedgraft.nn.listed_graphs import Given, GraphReader, block_of
from fedgraft.nn.propagate import Block


@dataclass(frozen=True)
class ReadFeatures:
    """How a model reads so many `features`.

    They are scaled to the length `scale`, 0 = as they are, and averaged over so many `hops`, which are `joined`.
    """

    features: int
    scale: float
    hops: int = 0
    joined: str = "concatenate"

    @classmethod
    def of(cls, features: int, inputs: Inputs) -> "ReadFeatures":
        """Return how these inputs are read. Raises `InputError` where a model that is exported cannot."""
        if not (inputs.raw or inputs.pooling):
            raise InputError(f"inputs {type(inputs).__name__} put hops together as no exported model does.")
        return cls(features, inputs.scale, inputs.hops, inputs.pooling)

    def prepared(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return what the first convolution reads, float32 [nodes, any], of features and edges."""
        if self.scale:
            x = x * (self.scale / x.norm(dim=1, keepdim=True).clamp(min=1e-30))
        if not self.hops:
            return x
        if edge_weight is None:
            edge_index = torch.unique(edge_index, dim=1)
            edge_weight = x.new_ones(edge_index.shape[1])
        source, target = edge_index
        count = x.new_ones(len(x)).index_add(0, target, edge_weight)[:, None]
        rows = [x]
        for _ in range(self.hops):
            rows.append(rows[-1].index_add(0, target, edge_weight[:, None] * rows[-1][source]) / count)
        if self.joined == "mean":
            return torch.stack(rows).mean(0)
        return rows[-1] if self.joined == "last" else torch.cat(rows, 1)

    @property
    def told(self) -> str:
        """Sentences about that, for people to read."""
        scaled = f" The model scales every row to the length {self.scale} itself." if self.scale else ""
        averaged = (
            f" It averages them over nodes and their neighbours itself, {self.hops} hops far, by the edges that "
            "it is given; each client's were those inside it."
        )
        return scaled + averaged * (self.hops > 0)


class NodeReader(GraphReader):
    """From features of nodes and edges to logits, float32 [nodes, classes], or numbers in the user's unit."""

    def __init__(self, model: NodeModel, read: ReadFeatures, edges: ReadEdges, unit: Unit | None) -> None:
        super().__init__(edges.names, unit)
        self.model, self.read = model, read

    def outputs(self, x: Tensor, edge_index: Tensor, given: Given) -> Tensor:
        """Return them before they are in a unit."""
        hops = hops_over(self.model.convolutions, block_of(edge_index, len(x), given, x.new_zeros(len(x))))
        logits: Tensor = self.model(self.read.prepared(x, edge_index, given.get("edge_weight")), hops, None)
        return logits


def hops_over(convolutions: nn.ModuleList, block: Block) -> list[Hop]:
    """Return a hop over all nodes for each convolution."""
    return [Hop((), (), (), block) for _ in convolutions]  # type: ignore[arg-type]


def plain_nodes(task: NodeTask, model: NodeModel, classes: Sequence[str], unit: Unit | None = None) -> PlainModel:
    """Return the plain model of a trained one of a task; of numbers with their unit."""
    read = ReadFeatures.of(task.features, task.inputs)
    edges = ReadEdges.of(task.encoder, task.input_width, task.edge_features, task.edge_weights, task.inputs.hops > 0)
    inputs = (
        f"- `x`: float32 [nodes, {read.features}], the nodes' features, columns in the order of the training data, as "
        f"they are there.{read.told}\n- `edge_index`: int64 [2, edges], source over target; an undirected edge both "
        f"ways, no loops, none twice.\n{edges.told}"
    )
    module, network = NodeReader(model, read, edges, unit), network_text(task.encoder, task.input_width)
    if unit is None:
        return PlainModel(module, inputs, edges.usage(USAGE), classes=classes, network=network)
    outputs = "a number for each node, in the unit of the labels"
    return PlainModel(module, inputs, edges.usage(USAGE_OF_NUMBERS), outputs, network=network)
