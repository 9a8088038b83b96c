"""A trained model of the task `link` as a module over tensors."""

import torch
from torch import Tensor

from fedgraft.contracts.abilities.plain import PlainModel, network_text
from fedgraft.contracts.encoder import Encoder
from fedgraft.domains.edge_data.read_edges import ReadEdges
from fedgraft.domains.links.model import LinkModel
from fedgraft.domains.nodes.task.node_reader import ReadFeatures, hops_over
from fedgraft.nn.listed_graphs import Given, GraphReader, block_of

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
