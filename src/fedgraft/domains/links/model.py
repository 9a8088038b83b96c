"""The model of the task `link`: embeddings of nodes, and what makes a score of two of them."""

from typing import Final

import torch
from torch import Tensor, nn

from fedgraft.contracts.abilities.plain import PlainModel, network_text
from fedgraft.contracts.encoder import Encoder
from fedgraft.domains.edge_data.read_edges import ReadEdges
from fedgraft.domains.nodes.task.node_reader import ReadFeatures, hops_over
from fedgraft.domains.nodes.training.model import NodeModel
from fedgraft.nn import flops
from fedgraft.nn.layers import linear
from fedgraft.nn.listed_graphs import Given, GraphReader, block_of

LIKENESS: Final = 10.0
"""Log odds that a cosine of 1 adds at first: cosines of nodes that have an edge are small, such as 0.2."""


class LinkModel(nn.Module):
    """A network from features to log odds that pairs of nodes have an edge; its weights are drawn from `g`.

    `nodes` makes embeddings, of so many numbers, `width`, as it has classes. The decoder is "product", their inner
    product and a bias; or "perceptron", of one hidden layer over their entrywise product. `likeness` says whether the
    cosine of the two nodes' features joins, by a weight that is learnt.
    """

    def __init__(self, nodes: NodeModel, width: int, decoder: str, likeness: bool, g: torch.Generator) -> None:
        super().__init__()
        self.nodes = nodes
        perceptron = decoder == "perceptron"
        self.inner = linear(width, width, g) if perceptron else None
        self.outer = linear(width, 1, g) if perceptron else None
        self.bias = None if perceptron else nn.Parameter(torch.zeros(1))
        self.likeness = nn.Parameter(torch.ones(1)) if likeness else None

    def forward(self, embeddings: Tensor, pairs: Tensor, cosines: Tensor | None) -> Tensor:
        """Return log odds, float32 [n], of `pairs`, int64 [2, n], rows of the embeddings, float32 [nodes, width].

        `cosines` are of their features, float32 [n]; None where these do not join.
        """
        odds = self._decoded(embeddings, pairs)
        if self.likeness is None or cosines is None:
            return odds
        flops.count((2 + 2 * torch.is_grad_enabled()) * len(cosines))
        return odds + LIKENESS * self.likeness * cosines

    def _decoded(self, embeddings: Tensor, pairs: Tensor) -> Tensor:
        joined = embeddings.index_select(0, pairs[0]) * embeddings.index_select(0, pairs[1])
        flops.count((1 + 2 * torch.is_grad_enabled()) * joined.numel())
        if self.bias is not None:
            return joined.sum(1) + self.bias
        assert self.inner is not None
        assert self.outer is not None
        odds: Tensor = self.outer(torch.relu(self.inner(joined)))
        return odds[:, 0]


_USAGE = """from model import load

odds = load()(x, edge_index, pairs)
score = odds.sigmoid()
"""
_OUTPUTS = (
    "log odds, float32 [pairs]; their sigmoid is how likely the model takes a pair to be an edge and no drawn one."
)


class LinkReader(GraphReader):
    """From features of nodes, edges and pairs of nodes to log odds, float32 [pairs]."""

    def __init__(self, model: LinkModel, read: ReadFeatures, edges: ReadEdges) -> None:
        super().__init__((*edges.names, "pairs"))
        self.model, self.read = model, read

    def outputs(self, x: Tensor, edge_index: Tensor, given: Given) -> Tensor:
        """Return the log odds of `pairs`, int64 [2, pairs]."""
        nodes, pairs = self.model.nodes, given["pairs"]
        hops = hops_over(nodes.convolutions, block_of(edge_index, len(x), given, x.new_zeros(len(x))))
        embeddings = nodes(self.read.prepared(x, edge_index, given.get("edge_weight")), hops, None)
        odds: Tensor = self.model(embeddings, pairs, torch.cosine_similarity(x[pairs[0]], x[pairs[1]]))
        return odds


def plain_links(model: LinkModel, encoder: Encoder, inputs: int, read: ReadFeatures, edges: ReadEdges) -> PlainModel:
    """Return the plain model of a trained one; `inputs` is the width of what the encoder reads."""
    texts = (
        f"- `x`: float32 [nodes, {read.features}], the nodes' features, columns in the order of the training data."
        f"{read.told}\n"
        "- `edge_index`: int64 [2, edges], source over target; an undirected edge both ways, no loops, none twice.\n"
        f"{edges.told}"
        "- `pairs`: int64 [2, pairs], the nodes to score.\n"
    )
    module, network = LinkReader(model, read, edges), network_text(encoder, inputs)
    return PlainModel(module, texts, edges.usage(_USAGE), _OUTPUTS, network=network)
