"""The model of the task `edge`: convolutions over nodes, and what tells of an edge by its ends and its columns."""

import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from fedgraft.contracts.abilities.plain import OUTPUTS, USAGE, USAGE_OF_NUMBERS, PlainModel
from fedgraft.contracts.encoder import Encoder, LayeredEncoder
from fedgraft.contracts.inputs import Inputs
from fedgraft.contracts.labels import Unit
from fedgraft.contracts.loss import ClassShares
from fedgraft.contracts.values import HaloRows, Indices
from fedgraft.domains.edge_data.read_edges import ReadEdges
from fedgraft.domains.edges.shards import COUNTS
from fedgraft.domains.labels.smoothing import Apart
from fedgraft.domains.nodes.task.node_reader import ReadFeatures, hops_over
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.domains.nodes.training.model import Note, Stored, stack_of
from fedgraft.domains.nodes.training.neighbour_sampling import Hop
from fedgraft.nn.layers import device_of, linear
from fedgraft.nn.listed_graphs import Given, GraphReader, block_of
from fedgraft.nn.propagate import States
from fedgraft.wire.layouts import Tree


class EdgeModel(nn.Module):
    """A network from features of nodes to outputs of edges; its weights are drawn from `g`.

    The encoder's convolutions, of inputs of so many `features` over messages of so many columns, make states of nodes.
    Of an edge a perceptron of one hidden layer, `readout` wide, reads the states of its source and of its target, and
    so many `columns` of its own; it gives so many `outputs`. `dropout` is the share of each hidden layer dropped in
    training.
    """

    def __init__(
        self,
        encoder: LayeredEncoder,
        features: int,
        edge_width: int,
        columns: int,
        readout: int,
        outputs: int,
        dropout: float,
        g: torch.Generator,
    ) -> None:
        super().__init__()
        width = encoder.widths[-1]
        self.convolutions = stack_of(encoder, [features, *encoder.widths], g, edge_width)
        self.inner = linear(2 * width + columns, readout, g)
        self.outer = linear(readout, outputs, g)
        self.dropout = dropout

    def states(self, inputs: States, hops: Sequence[Hop], stored: Stored, note: Note | None = None) -> Tensor:
        """Return states of the last hop's receivers, float32 [receivers, width]; arguments as of `NodeModel.forward`.

        Those of the last layer are noted, too.
        """
        state = inputs
        for layer, (hop, after) in enumerate(itertools.zip_longest(hops, hops[1:])):
            fresh = self.hidden(layer, state, hop)
            if note is not None:
                note(layer, hop, fresh.detach())
            state = self._dropped(fresh)
            if after is not None and len(after.stored):
                state = torch.cat([state, stored(layer, after).to(state.device)])
        assert isinstance(state, Tensor), "there is a convolution"
        return state

    def hidden(self, layer: int, inputs: States, hop: Hop) -> Tensor:
        """States [receivers, width] of one layer, from what its hop's senders are before it."""
        return torch.relu(self.convolutions[layer](inputs, hop.block))

    def forward(self, states: Tensor, ends: Tensor, columns: Tensor) -> Tensor:
        """Return outputs, float32 [edges, outputs].

        Args:
            states: float32 [nodes + 1, width]; the last is that of nodes of which nothing is known.
            ends: int64 [2, edges], source and target; -1 for that.
            columns: float32 [edges, columns].
        """
        outputs: Tensor = self.outer(self._dropped(self.represent(states, ends, columns)))
        return outputs

    def represent(self, states: Tensor, ends: Tensor, columns: Tensor) -> Tensor:
        """Return the hidden layer, float32 [edges, readout]."""
        ends = ends % len(states)
        read = [states.index_select(0, ends[0]), states.index_select(0, ends[1]), columns]
        return torch.relu(self.inner(torch.cat(read, dim=1)))

    def _dropped(self, state: Tensor) -> Tensor:
        return nn.functional.dropout(state, self.dropout, self.training) if self.dropout else state


@dataclass(eq=False)
class EdgeData:
    """A client's part of a graph, ready to train on its edges.

    Args:
        nodes: copies of nodes, what they are computed from, and their states.
        ends: int64 [2, examples], copies that each edge joins; -1 = a node of which nothing is known.
        columns: float32 [examples, columns], what is known of each.
        label: [examples], in training's unit.
        rows: {split: int64 [examples]}.
        unit: in which labels are that are numbers.
        weights: float32 [classes], by which losses of training edges are multiplied; None for 1.
        shares: of classes among training edges, where losses depend on them.
    """

    nodes: NodeData
    ends: Tensor
    columns: Tensor
    label: Tensor
    rows: dict[str, Indices]
    unit: Unit
    weights: Tensor | None
    shares: ClassShares | None

    def states(self, model: EdgeModel, notes: bool = False) -> Tensor:
        """Return states of all copies, float32 [own + halo + 1, width], where the model is; the last one is zero.

        Own ones are computed, or what was relayed last; of others they are as they were told. With `notes` fresh ones
        are remembered.
        """
        device, nodes = device_of(model), self.nodes
        if len(nodes.memory.relayed) == nodes.layers:
            own = nodes.memory.relayed[-1]
        else:
            computed = nodes.whole().on(device)
            note = nodes.note if notes and nodes.exchanges else None
            own = model.states(computed.inputs, computed.hops, nodes.stored, note)
        told = [own]
        if nodes.exchanges:
            told.append(torch.from_numpy(nodes.states.rows[-1][nodes.own :]).to(device))
        else:
            told.append(own.new_zeros(nodes.halo, own.shape[1]))
        return torch.cat([*told, own.new_zeros(1, own.shape[1])])

    def outputs(self, model: EdgeModel, states: Tensor, rows: Indices) -> Tensor:
        """Return what the model tells of some edges, float32 [n, outputs], where it is."""
        outputs: Tensor = model(states, self.ends[:, rows].to(states.device), self.columns[rows].to(states.device))
        return outputs

    def opened(self, states: Tree) -> "EdgeData":
        """Return the same part with these states; None = none is known."""
        made = copy.copy(self)
        made.nodes = self.nodes.opened(states)
        return made

    def answered(self) -> Apart:
        """Return a client's own edges, each by itself."""
        return Apart(self.label.numpy(), self.rows)

    def changed(self) -> list[HaloRows]:
        """Return states of own copies that others need, those that changed."""
        return self.nodes.states.changed(self.nodes.needed)


def all_slots(data: EdgeData) -> Indices:
    """Return the halo's slots, int64 [halo]."""
    return np.arange(data.nodes.halo)


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
    inputs: Inputs,
    widths: tuple[int, int, int],
    weighted: bool,
    unit: Unit | None,
) -> PlainModel:
    """Return the plain model of a trained one.

    `widths` are features of nodes, columns of edges, and what is known of an edge that is told; `weighted` says
    whether edges have weights. `unit` is that of numbers, None for classes.
    """
    features, carried, columns = widths
    read = ReadFeatures.of(features, inputs)
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
    listed = "".join(f"- `{name}`: {texts[name]}.\n" for name in arguments)
    usage, outputs = (USAGE_OF_NUMBERS, _NUMBERS) if unit else (USAGE, OUTPUTS)
    return PlainModel(module, listed, usage.replace("x, edge_index", ", ".join(arguments)), outputs, classes)
