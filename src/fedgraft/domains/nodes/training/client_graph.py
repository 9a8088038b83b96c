"""A client's part of a cut graph, ready to train on: what nodes are computed from, and what is remembered of them."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedgraft.contracts.encoder import Encoder, NetworkEncoder
from fedgraft.contracts.labels import Unit
from fedgraft.contracts.loss import ClassObjective, ClassShares
from fedgraft.contracts.task import LossesAndBackward
from fedgraft.contracts.values import HaloRows, Indices, Losses
from fedgraft.domains.labels.class_weights import weighted
from fedgraft.domains.nodes.base.features import FeatureRows
from fedgraft.domains.nodes.base.historical_embeddings import States
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.mended_graph import Mending, Part
from fedgraft.domains.nodes.training.neighbour_sampling import Hop, Neighbourhoods, Reach, Surroundings
from fedgraft.domains.nodes.training.neighbour_sums import Neighbours
from fedgraft.domains.nodes.training.neighgen import generator_of
from fedgraft.domains.nodes.training.refinement import View
from fedgraft.nn import flops, propagate
from fedgraft.nn.layers import device_of
from fedgraft.nn.propagate import Given
from fedgraft.wire.layouts import Array, Tree

RAREST: Final = 1e-4
"""Share of a class that has no training node, so that its log is finite; ours."""


@dataclass(eq=False)
class NodeData:
    """A client's own part of the graph, ready to train on, and what it remembers of hidden states.

    Args:
        features: of own nodes and of the halo.
        around: neighbourhoods; of a whole network, surroundings.
        own: how many own nodes.
        label: int64 [own], classes; or float32 [own], numbers.
        rows: {split: int64 [nodes], own nodes}.
        known: bool [own + halo], whose features are known.
        needed: int64 [needed], own nodes that others need.
        states: hidden states.
        sums: of the features of all neighbours of own nodes, where these were told; else None.
        degree: float32 [own], how many neighbours own nodes have, those elsewhere included, or their edges' weights.
        layers: how many convolutions.
        exchanges: whether hidden states are exchanged and remembered.
        alone: whether nodes are computed from their own features alone.
        neighbours: all edges, where answers are smoothed over them; else None.
        view: what networks that refine answers read, where there are any; else None.
        part: what neighbours are generated from, where they are; else None.
        unit: in which labels are that are numbers.
        weights: float32 [classes], by which losses of training nodes are multiplied; None for 1.
        shares: of classes among training nodes, where losses depend on them.
    """

    features: FeatureRows
    around: Neighbourhoods | Surroundings
    own: int
    label: Array
    rows: dict[str, Indices]
    known: NDArray[np.bool_]
    needed: Indices
    states: States
    sums: FeatureRows | None
    degree: NDArray[np.float32]
    layers: int
    exchanges: bool
    alone: bool = False
    neighbours: Neighbours | None = None
    view: View | None = None
    part: Part | None = None
    unit: Unit = field(default_factory=Unit)
    weights: Tensor | None = None
    shares: ClassShares | None = None
    memory: "Memory" = field(default_factory=lambda: Memory())

    @classmethod
    def of(
        cls,
        graph: NodeShard,
        known: NDArray[np.bool_],
        features: FeatureRows,
        around: Neighbourhoods | Surroundings,
        needed: Indices,
        widths: tuple[int, ...],
        layers: int,
        exchanges: bool,
        *,
        rows: dict[str, Indices] | None = None,
        sums: FeatureRows | None = None,
        degree: NDArray[np.float32] | None = None,
        alone: bool = False,
        weights: Tensor | None = None,
        shares: ClassShares | None = None,
    ) -> Self:
        """Return a client's part, without states yet, of `widths` of hidden layers; other arguments as of the class."""
        states = States(graph.own, graph.halo, widths)
        degree = graph.weighted_degree if degree is None else degree
        own = graph.own, graph.label, rows or {}, known, needed, states
        return cls(features, around, *own, sums, degree, layers, exchanges, alone, weights=weights, shares=shares)

    def answered(self) -> Neighbours:
        """Return the client's nodes and all their neighbours, as answers are smoothed over them."""
        assert self.neighbours is not None, "it was prepared by a task that betters answers"
        return self.neighbours

    def smoothed_over(self, shard: NodeShard, reads_inputs: bool) -> None:
        """Keep all edges of a part of the graph, by which answers are smoothed, which may read inputs of nodes."""
        self.neighbours = Neighbours(shard, self.features.first(self.own) if reads_inputs else None)

    @property
    def halo(self) -> int:
        """How many nodes of others there are."""
        return len(self.known) - self.own

    def of_training(self, examples: Indices, most: tuple[int, ...], deep: bool, seed: int) -> "Computed":
        """Return `computed` of training nodes, given their places among these.

        Where all blocks are whole, every step brings the same array, which is known without a look at its numbers.
        """
        if (latest := self.memory.latest.get(most)) is not None and latest[0] is examples:
            return latest[1]
        computed = self.computed(self.rows["train"][examples], most, deep, seed)
        if not self.exchanges and self._same(most):
            self.memory.latest[most] = examples, computed
        return computed

    def computed(
        self,
        nodes: Indices,
        most: Sequence[int],
        deep: bool,
        seed: int = 0,
        keep: str = "train",
        states: Sequence[NDArray[np.bool_]] | None = None,
    ) -> "Computed":
        """Return what some own nodes, each once, are computed from; `most`, `deep` and `seed` are as of `Reach`.

        It is kept under the name `keep` where it is sure to be the same the next time. `states` say per hidden layer,
        bool [own + halo], whose states are known; as remembered by default.
        """
        if states is None:
            states = self.states.known if self.exchanges else []
        sure = self._same(most)
        key = [nodes.tobytes(), *(known.tobytes() for known in states)] if sure else []
        if sure and keep in self.memory.kept and self.memory.kept[keep][0] == key:
            return self.memory.kept[keep][1]
        known = [self.known, *(states or [np.zeros_like(self.known)] * (self.layers - 1))]
        by_number = self.sums is None and self.around.by_number
        few = self.alone and len(nodes) < self.own  # picked once here, not in every step
        dense = self.features.dense if by_number and not few else None
        reach = Reach(known, most, deep, seed, whole=dense is not None, alone=self.alone)
        hops = self.around.around(nodes, self.layers, reach)
        if self.sums is not None:
            hops[0] = _given(hops[0], self.sums, self.degree)
        first = hops[0]
        inputs = self.features.rows(np.concatenate([first.fresh, first.stored])) if dense is None else dense
        computed = Computed(hops, inputs, torch.from_numpy(self.label[nodes]))
        if sure:
            self.memory.kept[keep] = key, computed
        return computed

    def _same(self, most: Sequence[int]) -> bool:
        """Return whether all neighbours take part, so that no draw decides."""
        return not any(each and each < self.around.most for each in most)

    def whole(self, received: int | None = None) -> "Computed":
        """Return what all own nodes are computed from, with all their neighbours.

        Halo states of `received` hidden layers were received, and later layers count as received in whole; None where
        there are no more to come.
        """
        known = None
        if received is not None and self.exchanges:
            halo = np.arange(self.own + self.halo) >= self.own
            known = [self.states.known[layer] if layer < received else halo for layer in range(self.layers - 1)]
        return self.computed(np.arange(self.own), (0,) * self.layers, True, keep="whole", states=known)

    def relay(self, model: nn.Module, layer: int) -> list[HaloRows]:
        """States of one hidden layer of all own nodes that others need, given the halo's of the layers before it.

        Those of all own nodes are kept in `relayed`, for the layers behind it.
        """
        del self.memory.relayed[layer:]
        computed = self.whole(received=layer).on(device_of(model))
        with torch.no_grad():
            for number in range(len(self.memory.relayed), layer + 1):
                hidden: Tensor = model.hidden(number, self._before(computed, number), computed.hops[number])  # type: ignore[operator]
                self.memory.relayed.append(hidden)
        sent = HaloRows(self.needed, self.memory.relayed[layer].numpy(force=True)[self.needed])
        nothing = [HaloRows(self.needed[:0], np.zeros((0, width), np.float32)) for width in self.states.widths]
        return [sent if number == layer else none for number, none in enumerate(nothing)]

    def scored(self, model: nn.Module) -> Tensor:
        """Logits [own, classes] of all own nodes, with all their neighbours, from the last layer that was relayed."""
        computed, begin = self.whole().on(device_of(model)), len(self.memory.relayed)
        with torch.no_grad():
            logits: Tensor = model(self._before(computed, begin), computed.hops[begin:], self.stored)
        return logits.cpu()

    def _before(self, computed: "Computed", layer: int) -> propagate.States:
        """Return the states of a layer's senders before it, where all own nodes are computed."""
        if not layer:
            return computed.inputs
        own, hop = self.memory.relayed[layer - 1], computed.hops[layer]
        return torch.cat([own, self.stored(layer - 1, hop).to(own.device)]) if len(hop.stored) else own

    def logits(self, model: nn.Module, computed: "Computed", notes: bool) -> Tensor:
        """Logits [targets, classes], where the model is; with `notes` fresh states are remembered."""
        return self.observed(model, computed, notes)[1]

    def observed(self, model: nn.Module, computed: "Computed", notes: bool) -> tuple[Tensor, Tensor]:
        """The last hidden layer [targets, width], and `logits`."""
        computed = computed.on(device_of(model))
        note = self.note if notes and self.exchanges else None
        return model.observed(computed.inputs, computed.hops, self.stored, note)  # type: ignore[operator, no-any-return]

    def hidden(self, model: nn.Module) -> Array:
        """Return the last hidden layer of all nodes that are computed, own ones first, float32 [nodes, width]."""
        with torch.no_grad():
            return self.represented(model, self.whole()).cpu().numpy()

    def represented(self, model: nn.Module, computed: "Computed") -> Tensor:
        """Return the last hidden layer of what is computed, [targets, width], where the model is."""
        computed = computed.on(device_of(model))
        hidden: Tensor = model.represent(computed.inputs, computed.hops, self.stored)  # type: ignore[operator]
        return hidden

    def opened(self, states: Tree) -> "NodeData":
        """Return the same part with these hidden states; None = none is known.

        Which generator the part was mended with is checked anew. States relayed so far are kept.
        """
        made = copy.copy(self)
        made.states = self.states.opened(states)
        made.memory = replace(self.memory, relayed=[*self.memory.relayed])
        if self.part is not None:
            self.part.sure = False
        return made

    def mended(self, model: nn.Module, mending: Mending | None) -> "NodeData":
        """This part with the neighbours that the model's generator makes; made anew once that has changed."""
        if mending is None or self.part is None:
            return self
        if not self.part.sure:  # to compare millions of numbers takes longer than a step
            generator = generator_of(model)
            edition = generator.edition
            if self.part.mended[0] is not edition:
                with flops.Meter() as meter:
                    fields = mending.mended(generator, self.part)
                states = self.states.opened(None)  # a mended part has none of its own
                memory = replace(self.memory, kept={})
                made = replace(self, **fields, states=states, part=None, memory=memory)
                self.part.mended = edition, made, meter.flops
            self.part.sure = not generator.learns
        mended: NodeData = self.part.mended[1]
        return mended

    def stored(self, layer: int, hop: Hop) -> Tensor:
        """Return the remembered states of a hop's stored nodes, float32 [stored, width]."""
        return torch.from_numpy(self.states.rows[layer][hop.stored])

    def note(self, layer: int, hop: Hop, fresh: Tensor) -> None:
        """Remember fresh states of a hidden layer, float32 [receivers, width]."""
        self.states.write(layer, hop.receivers, fresh.numpy(force=True))


@dataclass(eq=False)
class Memory:
    """What was computed from, so that it need not be found again, and what hidden layers are being scored.

    Args:
        kept: {name: (what decides on it, what some nodes are computed from)}.
        latest: {most neighbours of a layer: (training nodes, what they are computed from)}.
        relayed: states of own nodes under a model that is being scored, one hidden layer after another, float32
            [own, width] each.
    """

    kept: dict[str, tuple[list[bytes], "Computed"]] = field(default_factory=dict)
    latest: dict[tuple[int, ...], tuple[Indices, "Computed"]] = field(default_factory=dict)
    relayed: list[Tensor] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Computed:
    """The inputs of some nodes: the hops to them, and the features of the first one's senders or of all.

    Beside it their labels, [nodes].
    """

    hops: list[Hop]
    inputs: propagate.States
    label: Tensor
    _moved: "dict[str, Computed]" = field(default_factory=dict)

    def on(self, device: torch.device) -> "Computed":
        """Return the same on a device; moved there once."""
        if device == self.label.device:
            return self
        if str(device) not in self._moved:
            hops = [hop.to(device) for hop in self.hops]
            self._moved[str(device)] = Computed(hops, self.inputs.to(device), self.label.to(device))
        return self._moved[str(device)]


def around_of(
    shard: NodeShard,
    elsewhere: Array | None,
    known: NDArray[np.bool_],
    encoder: Encoder,
    features: int,
    columns: int,
) -> Neighbourhoods | Surroundings:
    """Return what nodes are computed from with an encoder, a stack of convolutions or a whole network.

    `elsewhere`, [halo], says how many neighbours, by weight, the nodes of others have; None = nobody knows.
    `known`, bool [own + halo], says whose features, so many each, are known; `columns` are how many edges are to carry.
    """
    if isinstance(encoder, NetworkEncoder):
        return Surroundings(shard, known, encoder.reach(features, columns))
    return Neighbourhoods(shard, elsewhere)


def _given(hop: Hop, sums: FeatureRows, degree: NDArray[np.float32]) -> Hop:
    """The hop whose receivers' sums are given, so that nobody but they need send."""
    nodes = hop.receivers
    block = Given(
        matrix=hop.block.matrix,
        place=torch.arange(len(nodes)),
        degree=torch.from_numpy(degree[nodes]),
        degree_from=torch.from_numpy(degree[nodes]),
        given=sums.rows(nodes),
    )
    return Hop(nodes, nodes, nodes[:0], block)


def losses_of(model: Any, data: NodeData, computed: Computed, objective: ClassObjective) -> Losses:
    """Losses of a `NodeModel` on what the nodes are computed from; in training, fresh states are remembered."""
    hidden, logits = data.observed(model, computed, model.training)
    return Losses(example_losses_of(logits, data, computed, objective), hidden=hidden)


def example_losses_of(logits: Tensor, data: NodeData, computed: Computed, objective: ClassObjective) -> Tensor:
    """Losses [nodes], given the logits [nodes, classes]."""
    label = computed.label.to(logits.device)
    return weighted(objective.losses(logits, label, data.shares), label, data.weights)


def by_hand(model: Any, data: NodeData) -> bool:
    """Return whether there is `losses_with_back`: not where sums are given, which are no products."""
    return data.sums is None and bool(model.by_hand)


def losses_with_back(model: Any, data: NodeData, computed: Computed, objective: ClassObjective) -> LossesAndBackward:
    """Return the same losses without autograd, and a function that sets all gradients, given that of the losses."""
    note = data.note if data.exchanges and model.training else None
    computed = computed.on(device_of(model))
    logits, back = model.with_back(computed.inputs, computed.hops, data.stored, note)
    losses, to_logits = objective.with_gradient(logits, computed.label, data.shares)
    if data.weights is None:
        return losses, lambda gradient: back(to_logits(gradient))
    weights = data.weights.to(losses.device)[computed.label]
    return losses * weights, lambda gradient: back(to_logits(gradient * weights))
