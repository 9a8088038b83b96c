"""A trained model of the task `edge` as a module over tensors; it counts what came before an edge itself."""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from fedgraft.contracts.abilities.plain import OUTPUTS, USAGE, USAGE_OF_NUMBERS, PlainModel
from fedgraft.contracts.encoder import Encoder
from fedgraft.contracts.labels import Unit
from fedgraft.domains.edge_data.read_edges import ReadEdges
from fedgraft.domains.edges.model import EdgeModel
from fedgraft.domains.edges.unrolled import COUNTS
from fedgraft.domains.nodes.task.node_reader import ReadFeatures, hops_over
from fedgraft.nn.listed_graphs import Given, GraphReader, block_of

_NUMBERS: Final = "a number for each pair, in the unit of the labels."


class EdgeReader(GraphReader):
    """From features of nodes, edges and pairs of nodes to logits, float32 [pairs, classes], or numbers.

    `carried` says how many columns edges carry, which count in what came before; `edges` what messages read of them.
    """

    def __init__(
        self, model: EdgeModel, read: ReadFeatures, edges: ReadEdges, carried: int, columns: int, unit: Unit | None
    ) -> None:
        names = {"edge_attr": carried > 0, "edge_weight": edges.weighted, "pairs": True, "pair_attr": columns > 0}
        super().__init__(tuple(name for name, is_read in names.items() if is_read), unit)
        self.model, self.read, self.columns = model, read, edges.columns

    def outputs(self, x: Tensor, edge_index: Tensor, given: Given) -> Tensor:
        """Return them of `pairs`, int64 [2, pairs], before they are in a unit."""
        pairs, carried = given["pairs"], given.get("edge_attr", x.new_zeros(edge_index.shape[1], 0))
        along = torch.ones(edge_index.shape[1], dtype=torch.bool, device=x.device)
        counts = [x.new_zeros(len(x)).index_add(0, end, along.float()) for end in (edge_index[1], edge_index[0])]
        inputs = torch.cat([self.read.prepared(x, edge_index), torch.stack(counts, 1).log1p()], 1)
        both = {"edge_attr": carried[:, : self.columns].repeat(2, 1), "along": torch.cat([along, ~along])}
        if "edge_weight" in given:
            both["edge_weight"] = given["edge_weight"].repeat(2)
        block = block_of(torch.cat([edge_index, edge_index.flip(0)], 1), len(x), both)  # messages go along and back
        states = self.model.states(inputs, hops_over(self.model.convolutions, block), None)  # type: ignore[arg-type]
        states = torch.cat([states, states.new_zeros(1, states.shape[1])])  # the last is -1: nothing is known of it
        known = [given["pair_attr"]] if "pair_attr" in given else []
        told = torch.cat([*known, before_pairs(edge_index, carried, pairs, len(x))], 1)
        outputs: Tensor = self.model(states, pairs, told)
        return outputs


def before_pairs(edge_index: Tensor, edge_attr: Tensor, pairs: Tensor, nodes: int) -> Tensor:
    """Return what came before pairs as `history_of`, float32 [pairs, any], where all edges are before them."""
    source, target = edge_index
    rows = torch.cat([edge_attr.new_ones(len(source), 1), edge_attr], 1).double()
    both = torch.where((pairs >= 0).all(0), pairs[0] * nodes + pairs[1], -1)
    between = [summed_up(one * nodes + other, both, rows) for one, other in ((source, target), (target, source))]
    return torch.cat([*between, *(summed_up(end, asked, rows) for asked in pairs for end in (source, target))], 1)


def summed_up(key: Tensor, asked: Tensor, rows: Tensor) -> Tensor:
    """Return of the edges of keys that are asked for log(1 + how many there are) and means of columns; zeros of none.

    `rows`, float64 [edges, 1 + columns], begin with ones.
    """
    known, place = torch.unique(torch.cat([key, asked]), return_inverse=True)
    sums = rows.new_zeros(len(known), rows.shape[1]).index_add(0, place[: len(key)], rows)[place[len(key) :]]
    return torch.cat([sums[:, :1].log1p(), sums[:, 1:] / sums[:, :1].clamp(min=1)], 1).float()


def plain_edges(
    model: EdgeModel,
    encoder: Encoder,
    classes: Sequence[str],
    read: ReadFeatures,
    widths: tuple[int, int],
    weighted: bool,
    unit: Unit | None,
) -> PlainModel:
    """Return the plain model of a trained one.

    `widths` are columns of edges, and what is known of an edge that is told; `weighted` says whether edges have
    weights. `unit` is that of numbers, None for classes.
    """
    carried, columns = widths
    edges = ReadEdges.of(encoder, read.features + COUNTS, carried, weighted, averages=False)
    module = EdgeReader(model, read, edges, carried, columns, unit)
    texts = {
        "x": f"float32 [nodes, {read.features}], the nodes' features, columns in the order of the "
        f"training data; zeros of a new node.{read.told}".rstrip("."),
        "edge_index": "int64 [2, edges], source over target of all edges before those that are asked, each once, "
        "no loops",
        "edge_attr": f"float32 [edges, {carried}], what they carry, made as of the training data",
        "edge_weight": "float32 [edges], how much each counts, above 0",
        "pairs": "int64 [2, pairs], source over target of the edges that are asked; -1 for a node of which nothing "
        "is known, not even that it is new",
        "pair_attr": f"float32 [pairs, {columns}], what is known of these, made as of the training data",
    }
    arguments = ["x", "edge_index", *module.reads]
    inputs = "".join(f"- `{name}`: {texts[name]}.\n" for name in arguments)
    usage, outputs = (USAGE_OF_NUMBERS, _NUMBERS) if unit else (USAGE, OUTPUTS)
    return PlainModel(module, inputs, usage.replace("x, edge_index", ", ".join(arguments)), outputs, classes)
