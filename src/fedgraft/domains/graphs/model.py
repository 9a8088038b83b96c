"""The model of the task `graph`: a client's own ends around convolutions that may be shared."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import LayeredEncoder
from fedgraft.domains.graphs.batches import Batch
from fedgraft.domains.graphs.weighted_batch_norm import SharedNorm
from fedgraft.nn.layers import linear, normal
from fedgraft.nn.propagate import Block

PERSONAL = ("inputs.", "norms.", "head.")
"""Parameters that never travel begin like this."""


class Variant(NamedTuple):
    """Sizes that the shapes of a client's own parameters depend on."""

    kinds: int
    attributes: int
    classes: int


class GraphModel(nn.Module):
    """From batches of graphs to logits.

    Args:
        encoder: gives the convolutions.
        variant: widths of features, number of classes.
        places: width of the features of nodes' places; 0 for no channel of structure.
        normalise: whether a batch normalisation follows each convolution.
        dropout: share of the head's inputs dropped in training.
        g: what is shared is drawn from it first, and so alike for all variants.
    """

    def __init__(
        self,
        encoder: LayeredEncoder,
        variant: Variant,
        places: int,
        normalise: bool,
        dropout: float,
        g: torch.Generator,
    ) -> None:
        super().__init__()
        width, depth = encoder.width, encoder.depth
        both = 2 * width if places else width
        self.convolutions = nn.ModuleList(encoder.convolution(both, width, g) for _ in range(depth))
        self.structure = Structure(places, width, depth, g) if places else None
        self.inputs = Inputs(variant.kinds, variant.attributes, width, g)
        self.norms = nn.ModuleList(SharedNorm(width) for _ in range(depth if normalise else 0))
        self.head = Head((depth + 1) * width + (both - width), width, variant.classes, dropout, g)

    def forward(self, batch: Batch) -> Tensor:
        """Return logits, float32 [graphs, classes]."""
        logits: Tensor = self.head(self.read(batch))
        return logits

    def classify(self, hidden: Tensor) -> Tensor:
        """Return logits, float32 [graphs, classes], of the last hidden layer."""
        return self.head.classify(hidden)

    def represent(self, batch: Batch) -> Tensor:
        """The last hidden layer [graphs, width]."""
        return self.head.represent(self.read(batch))

    def read(self, batch: Batch) -> Tensor:
        """Return the readout of the graphs, float32 [graphs, ...]: sums of every layer's states."""
        state = self.inputs(batch)
        place = None if self.structure is None else self.structure.start(batch)
        counts, pooled = batch.counts, [batch.counts @ state]
        for number, (convolution, layer) in enumerate(zip(self.convolutions, batch.layers, strict=True)):
            state = convolution(state if place is None else torch.cat([state, place], 1), layer.block)
            if self.norms:
                state = self.norms[number](state, layer.share)
            state = torch.relu(state)
            if self.structure is not None and place is not None:
                place = self.structure.step(number, place, layer.block)
            counts = layer.counts
            pooled.append(counts @ state)
        if place is not None:
            pooled.append(counts @ place)
        return torch.cat(pooled, 1)


class Together(nn.Module):
    """Several models that answer as one: from batches to logarithms of their mean probabilities.

    What hidden layers show is the first one's.
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, batch: Batch) -> Tensor:
        """Return logits, float32 [graphs, classes]."""
        each = torch.stack([model(batch).log_softmax(1) for model in self.models])
        return each.logsumexp(0) - math.log(len(self.models))

    def represent(self, batch: Batch) -> Tensor:
        """The first model's last hidden layer."""
        first: Tensor = self.models[0].represent(batch)  # type: ignore[operator]
        return first


class Inputs(nn.Module):
    """A linear layer of one-hot columns, given by number, and of attributes."""

    def __init__(self, kinds: int, attributes: int, width: int, g: torch.Generator) -> None:
        super().__init__()
        spread = 1.0 / max(1, attributes + min(kinds, 1)) ** 0.5
        self.kind = normal(kinds + 1, width, std=spread, g=g)
        self.attributes = normal(attributes, width, std=spread, g=g)

    def forward(self, batch: Batch) -> Tensor:
        """Return states, float32 [colours, width]."""
        return torch.relu(nn.functional.embedding(batch.kind, self.kind) + batch.attributes @ self.attributes)


class Structure(nn.Module):
    """FedStar's second channel: convolutions over features of nodes' places, tanh between them."""

    def __init__(self, places: int, width: int, depth: int, g: torch.Generator) -> None:
        super().__init__()
        self.inputs = linear(places, width, g)
        self.layers = nn.ModuleList(linear(width, width, g) for _ in range(depth))

    def start(self, batch: Batch) -> Tensor:
        """The first states [colours, width]."""
        states: Tensor = self.inputs(batch.structure)
        return states

    def step(self, number: int, place: Tensor, block: Block) -> Tensor:
        """Tanh of a graph convolution with self loops."""
        scaled = (block.degree_from + 1.0).rsqrt()[:, None] * place
        gathered = (block.degree + 1.0).rsqrt()[:, None] * (block.own(scaled) + block.sums(scaled))
        mapped: Tensor = self.layers[number](gathered)
        return torch.tanh(mapped)


class Head(nn.Module):
    """A perceptron of two layers."""

    def __init__(self, inputs: int, hidden: int, classes: int, dropout: float, g: torch.Generator) -> None:
        super().__init__()
        self.inner = linear(inputs, hidden, g)
        self.outer = linear(hidden, classes, g)
        self.dropout = dropout

    def represent(self, read: Tensor) -> Tensor:
        """The last hidden layer [graphs, hidden]."""
        return torch.relu(self.inner(read))

    def classify(self, hidden: Tensor) -> Tensor:
        """Return logits, float32 [graphs, classes], of the last hidden layer."""
        logits: Tensor = self.outer(nn.functional.dropout(hidden, self.dropout, self.training))
        return logits

    def forward(self, read: Tensor) -> Tensor:
        """Return logits, float32 [graphs, classes]."""
        return self.classify(self.represent(read))
