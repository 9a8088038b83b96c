"""A trained model of tasks about whole graphs as a module over tensors."""

import torch
from torch import Tensor, nn

from fedgraft.contracts.abilities.plain import USAGE, USAGE_OF_NUMBERS, PlainModel, network_text
from fedgraft.contracts.encoder import Encoder
from fedgraft.contracts.labels import Unit
from fedgraft.domains.edge_data.read_edges import ReadEdges
from fedgraft.domains.graphs.batches import GraphBatch, Layer
from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.nn.listed_graphs import Given, GraphReader, ListedMatrix, block_of


class WholeGraphReader(GraphReader):
    """From features of nodes, edges and graphs of nodes to logits, float32 [graphs, classes], or numbers.

    The first `kinds` features are one-hot columns; of nodes' `places`, if they are read, walks have so many steps, and
    degrees so many columns. The model has so many `layers`. `with_places` and `with_structure` say where places go.
    """

    def __init__(
        self,
        model: nn.Module,
        kinds: int,
        layers: int,
        places: tuple[int, int],
        where: tuple[bool, bool],
        edges: ReadEdges,
        unit: Unit | None,
    ) -> None:
        super().__init__((*edges.names, "batch"), unit)
        self.model, self.kinds, self.layers, self.places = model, kinds, layers, places
        self.with_places, self.with_structure = where

    def outputs(self, x: Tensor, edge_index: Tensor, given: Given) -> Tensor:
        """Return them before they are in a unit; `batch`, int64 [nodes], is the graph of each node, one by default."""
        nodes, every = len(x), torch.arange(len(x), device=x.device)
        graph = given.get("batch", 0 * every)
        one_hot, attributes, structure = x[:, : self.kinds], x[:, self.kinds :], x[:, :0]
        kind = torch.cat([one_hot, 1 - one_hot.sum(1, keepdim=True)], 1).argmax(1)
        if self.with_places or self.with_structure:
            place = places_of(edge_index, nodes, *self.places)
            attributes = torch.cat([attributes, place], 1) if self.with_places else attributes
            structure = place if self.with_structure else structure
        counts = ListedMatrix(graph, every, x.new_ones(nodes), (int(graph.max()) + 1 if nodes else 0, nodes))
        layers = (Layer(block_of(edge_index, nodes, given, graph), every, counts),) * self.layers  # type: ignore[arg-type]
        outputs: Tensor = self.model(GraphBatch(kind, attributes, structure, counts, layers, graph))  # type: ignore[arg-type]
        return outputs


def places_of(edge_index: Tensor, nodes: int, walks: int, degrees: int) -> Tensor:
    """Return nodes' places as `batches.places`, float32 [nodes, walks + degrees], by a dense matrix."""
    source, target = edge_index
    degree = torch.bincount(target, minlength=nodes)
    step = torch.zeros(nodes, nodes, dtype=torch.float64, device=edge_index.device)
    step[target, source] = 1.0 / degree[source].double()
    back, power = [], step
    for _ in range(walks):
        back.append(power.diagonal())
        power = power @ step
    clipped = nn.functional.one_hot(degree.clamp(1, degrees) - 1, degrees)
    return torch.cat([torch.stack(back, 1), clipped], 1).float()


def plain_graphs(
    model: nn.Module,
    encoder: Encoder,
    shard: GraphShard,
    layers: int,
    places: tuple[int, int],
    where: tuple[bool, bool],
    edges: ReadEdges,
    inputs: int,
    unit: Unit | None,
) -> PlainModel:
    """Return the model of a client, whose shard tells its kinds, attributes and classes; of numbers with their unit.

    `inputs` is the width of what the encoder reads; other arguments are those of `WholeGraphReader`.
    """
    module = WholeGraphReader(model, shard.kinds, layers, places, where, edges, unit)
    texts, network = _inputs(shard, edges), network_text(encoder, inputs)
    if unit is None:
        return PlainModel(module, texts, edges.usage(USAGE), classes=shard.classes, network=network)
    told = "a number for each graph, in the unit of the labels"
    return PlainModel(module, texts, edges.usage(USAGE_OF_NUMBERS), told, network=network)


def _inputs(shard: GraphShard, edges: ReadEdges) -> str:
    kinds = "".join(f"  - {number}: {name}\n" for number, name in enumerate(shard.kind_names))
    columns = "".join(f"  - {number}: {name}\n" for number, name in enumerate(shard.edge_names[: edges.columns]))
    kind = "their degrees" if shard.degrees else "their kinds; a row of zeros for none"
    first = f"- `x`: float32 [nodes, {shard.kinds + shard.attributes.shape[1]}]: one-hot columns of {kind}"
    more = f", then attributes: {', '.join(shard.attribute_names) or 'as in the training data'}"
    return (
        f"{first}{more if shard.attributes.shape[1] else ''}.\n{kinds}- `edge_index`: int64 [2, edges], source over "
        "target; an undirected edge both ways, no loops, none twice.\n- `batch`: int64 [nodes], the graph of each "
        f"node, ascending; None = one graph.\n{edges.told}{columns}"
    )
