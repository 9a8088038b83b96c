"""Neighbours that a client makes up, in a model with a generator (FedSage+, Zhang et al., NeurIPS 2021)."""

from dataclasses import dataclass, fields

import torch
from torch import nn

from fedgraft.contracts.encoder import LayeredEncoder
from fedgraft.contracts.task import Loss
from fedgraft.contracts.values import Batch, HaloRows, Indices
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.extensions.extension import NodeExtension
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.domains.nodes.training.exchange import NodeExchange
from fedgraft.domains.nodes.training.mended_graph import Mending, Part
from fedgraft.domains.nodes.training.model import NodeModel
from fedgraft.domains.nodes.training.neighbour_sampling import Neighbourhoods
from fedgraft.domains.nodes.training.neighgen import Generator, generator_of
from fedgraft.nn import flops
from fedgraft.wire.layouts import Array, Arrays


@dataclass(frozen=True)
class Generated(NodeExtension):
    """A generator of neighbours of raw features, with which a client mends its part of the graph.

    Args:
        mending: how it is trained and used.
        encoder: of its own convolutions.
        features: width of what it makes.
    """

    seeds_draws = True

    mending: Mending
    encoder: LayeredEncoder
    features: int

    def exchange(self, exchange: NodeExchange) -> NodeExchange:
        """Clients tell each other embeddings of nodes, and nothing else."""
        told = {each.name: getattr(exchange, each.name) for each in fields(exchange) if each.init}
        return MendedExchange(**{**told, "set_up": self.mending, "halo_widths": self.mending.widths})

    def extend(self, model: NodeModel, g: torch.Generator) -> None:
        """Add the generator."""
        model.generator = Generator(self.encoder, self.features, self.mending.most, g)

    def prepare(self, data: NodeData, shard: NodeShard, seen: NodeShard, shared: Arrays) -> None:
        """Add what neighbours are generated from."""
        assert isinstance(data.around, Neighbourhoods), "a generator is made of convolutions"
        data.part, data.states, data.needed = self.mending.begun(seen, data.features, data.around, shared)

    def view(self, model: nn.Module, data: NodeData) -> NodeData:
        """Return the mended part of the graph."""
        return data.mended(model, self.mending)

    def losses(self, model: nn.Module, data: NodeData, nodes: Indices, most: tuple[int, ...], seed: int) -> Loss | None:
        """Return the generator's losses, as long as it learns."""
        part = learning(model, data)
        return None if part is None else self.mending.losses(model, part, data.states, nodes, most, seed)

    def answers(self, model: nn.Module) -> bool:
        """Return whether a generator learns."""
        return generator_of(model).learns


@dataclass(frozen=True, eq=False)
class MendedExchange(NodeExchange):
    """Exchange embeddings of nodes, by which generators learn to make those of others; `set_up` is a `Mending`."""

    def look(self, model: nn.Module, data: NodeData, seed: int, losses: bool) -> Array:
        """Note embeddings of own nodes that others want; return losses of training nodes, float32 [nodes]."""
        if (part := data.part) is not None:
            generator = generator_of(model)
            self.set_up.note(generator, part, data.states, data.needed, self.draws.neighbours, seed)
            if losses or learning(model, data) is None:
                data = data.mended(model, self.set_up)
                flops.count(part.mended[2] // 2)  # as if it were mended in every round, wherever it was
        return super().look(model, data, seed, losses)

    def read(self, data: NodeData, draw: Batch) -> list[Indices]:
        """Return those whose embeddings train the generator."""
        nodes = data.rows["train"][draw.examples if draw.ahead is None else draw.ahead]
        return [self.set_up.read(data.states, len(nodes), draw.seed)]

    def relay(self, model: nn.Module, data: NodeData, layer: int) -> list[HaloRows]:
        """Return nothing: embeddings have no part in a score."""
        return []


def learning(model: nn.Module, data: NodeData) -> Part | None:
    """Return what a step trains the model's generator on; None once that has learnt."""
    return data.part if data.part is not None and generator_of(model).learns else None
