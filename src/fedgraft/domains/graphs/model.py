"""The model of tasks about whole graphs: a client's own ends around convolutions that may be shared."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import LayeredEncoder, NetworkEncoder
from fedgraft.contracts.labels import Labels
from fedgraft.contracts.loss import ClassShares
from fedgraft.domains.graphs.batches import GraphBatch
from fedgraft.domains.labels.classes import Classes
from fedgraft.nn.layers import RowLinear, linear, normal
from fedgraft.nn.propagate import Block

PERSONAL = ("inputs.", "norms.", "head.")
"""Parameters that never travel begin like this."""
SUBTREES = "subtrees."
"""What reads counts of subtrees begins like this; the task's options say whether it travels."""

CLASSES = Classes()
"""What is told of a graph unless a model is made for another kind of label."""
HIDDEN = 64
"""Width of the head of a whole network, and of the nodes' states before one that is made for any (ours, as `gin`'s)."""


class Variant(NamedTuple):
    """Sizes that the shapes of a client's own parameters depend on; `classes`: numbers told of a graph."""

    kinds: int
    attributes: int
    classes: int


class GraphModel(nn.Module):
    """From batches of graphs to what is told of them: logits, or numbers.

    Args:
        encoder: gives the convolutions; or a network in place of these and of the normalisations.
        variant: widths of features, number of classes.
        places: width of the features of nodes' places; 0 for no channel of structure.
        normalise: whether a batch normalisation follows each convolution.
        dropout: share of the head's inputs dropped in training.
        g: what is shared is drawn from it first, and so alike for all variants.
        buckets: width of the counts of subtrees; 0 for none.
        loud: factor of the counts, > 0: the larger, the faster their part learns and the less its weights decay.
        labels: what is told of a graph; of several heads that answer, what they answer as one.
        edge_width: how many numbers an edge carries.
    """

    def __init__(
        self,
        encoder: LayeredEncoder | NetworkEncoder,
        variant: Variant,
        places: int,
        normalise: bool,
        dropout: float,
        g: torch.Generator,
        buckets: int = 0,
        loud: float = 1.0,
        labels: Labels = CLASSES,
        edge_width: int = 0,
    ) -> None:
        super().__init__()
        self.labels = labels
        self.whole = isinstance(encoder, NetworkEncoder)
        width, depth = width_of(encoder), 0 if isinstance(encoder, NetworkEncoder) else encoder.depth
        both = 2 * width if places else width
        if isinstance(encoder, NetworkEncoder):
            taken = encoder.inputs or HIDDEN
            network = encoder.network(taken, g, edge_width)
            self.convolutions, read = nn.ModuleList([network]), network.width
        else:
            self.convolutions = nn.ModuleList(
                encoder.edge_convolution(both, width, edge_width, g) for _ in range(depth)
            )
            taken, read = width, (depth + 1) * width + (both - width)
        self.structure = Structure(places, width, depth, g) if places else None
        self.inputs = Inputs(variant.kinds, variant.attributes, taken, g)
        self.norms = nn.ModuleList(SharedNorm(width) for _ in range(depth if normalise else 0))
        self.head = Head(read, width, variant.classes, dropout, g)
        self.subtrees = Subtrees(buckets, variant.classes, loud) if buckets else None

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return logits, float32 [graphs, classes]."""
        return self.classify(self.represent(batch), batch)

    def classify(self, hidden: Tensor, batch: GraphBatch) -> Tensor:
        """Return logits, float32 [graphs, classes], of the last hidden layer and, if they have a say, of subtrees."""
        outputs = self.heads(hidden, batch)
        return outputs[0] if len(outputs) == 1 else self.labels.together(outputs)

    def losses(self, hidden: Tensor, batch: GraphBatch, shares: ClassShares | None = None) -> Tensor:
        """Return the losses of graphs, float32 [graphs], summed over heads: each learns as if it were alone."""
        each = [self.labels.losses(outputs, batch.label, shares) for outputs in self.heads(hidden, batch)]
        return each[0] if len(each) == 1 else torch.stack(each).sum(0)

    def heads(self, hidden: Tensor, batch: GraphBatch) -> list[Tensor]:
        """Logits, float32 [graphs, classes], of every head that answers for itself."""
        logits = self.head.classify(hidden)
        return [logits] if self.subtrees is None else [logits, self.subtrees(batch)]

    def represent(self, batch: GraphBatch) -> Tensor:
        """The last hidden layer [graphs, width]."""
        return self.head.represent(self.read(batch))

    def read(self, batch: GraphBatch) -> Tensor:
        """Return the readout of the graphs, float32 [graphs, ...]: sums of every layer's states.

        Of a whole network it is the sum of the states that it gives, or what it gives of the graphs.
        """
        state = self.inputs(batch)
        if self.whole:
            network, layer = self.convolutions[0], batch.layers[0]
            outputs: Tensor = network(state, layer.block)
            return outputs if network.pools else layer.counts @ outputs
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


def width_of(encoder: LayeredEncoder | NetworkEncoder) -> int:
    """Return the width of a model's hidden layer."""
    return HIDDEN if isinstance(encoder, NetworkEncoder) else encoder.width


class Together(nn.Module):
    """Several models that answer as one, as their kind of label says. What hidden layers show is the first one's."""

    def __init__(self, models: Sequence[nn.Module], labels: Labels = CLASSES) -> None:
        super().__init__()
        self.models, self.labels = nn.ModuleList(models), labels

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return what the models tell, float32 [graphs, width]."""
        return self.labels.together([model(batch) for model in self.models])

    def represent(self, batch: GraphBatch) -> Tensor:
        """The first model's last hidden layer, float32 [graphs, width]."""
        first: Tensor = self.models[0].represent(batch)  # type: ignore[operator]
        return first


class Subtrees(nn.Module):
    """A linear layer of counts of subtrees, which is a classifier with a Weisfeiler-Lehman kernel.

    It is a head of its own, whose probabilities are averaged with the network's. It begins with zeros. `buckets` is the
    width of the counts, `outputs` classes or numbers that are told of a graph, `loud` the factor of the counts.
    """

    def __init__(self, buckets: int, outputs: int, loud: float) -> None:
        super().__init__()
        self.loud = loud
        self.layer = RowLinear(buckets, outputs)
        for parameter in self.layer.parameters():
            nn.init.zeros_(parameter)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return float32 [graphs, outputs]."""
        assert batch.subtrees is not None, "the collator counts subtrees where the model looks at them"
        assert self.layer.bias is not None, "it was asked for"
        return self.layer.product(batch.subtrees) * self.loud + self.layer.bias


class CountsModel(nn.Module):
    """From counts of subtrees to what is told of graphs, by one linear layer; it begins with zeros.

    Args:
        buckets: width of the counts.
        outputs: classes, or numbers that are told of a graph.
        loud: factor of the counts, > 0.
        labels: what is told of a graph.
    """

    def __init__(self, buckets: int, outputs: int, loud: float, labels: Labels) -> None:
        super().__init__()
        self.labels, self.subtrees = labels, Subtrees(buckets, outputs, loud)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return logits, float32 [graphs, classes]."""
        outputs: Tensor = self.subtrees(batch)
        return outputs

    def represent(self, batch: GraphBatch) -> Tensor:
        """The logits: there is no hidden layer."""
        return self.forward(batch)

    def classify(self, hidden: Tensor, batch: GraphBatch) -> Tensor:
        """Return logits as they are."""
        return hidden

    def losses(self, hidden: Tensor, batch: GraphBatch, shares: ClassShares | None = None) -> Tensor:
        """Return the losses of graphs, float32 [graphs]."""
        return self.labels.losses(hidden, batch.label, shares)


class Inputs(nn.Module):
    """A linear layer of one-hot columns, given by number, and of attributes."""

    def __init__(self, kinds: int, attributes: int, width: int, g: torch.Generator) -> None:
        super().__init__()
        spread = 1.0 / max(1, attributes + min(kinds, 1)) ** 0.5
        self.kind = normal(kinds + 1, width, std=spread, g=g)
        self.attributes = normal(attributes, width, std=spread, g=g)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return states, float32 [colours, width]."""
        return torch.relu(nn.functional.embedding(batch.kind, self.kind) + batch.attributes @ self.attributes)


class Structure(nn.Module):
    """FedStar's second channel: convolutions over features of nodes' places, tanh between them."""

    def __init__(self, places: int, width: int, depth: int, g: torch.Generator) -> None:
        super().__init__()
        self.inputs = linear(places, width, g)
        self.layers = nn.ModuleList(linear(width, width, g) for _ in range(depth))

    def start(self, batch: GraphBatch) -> Tensor:
        """The first states [colours, width]."""
        states: Tensor = self.inputs(batch.structure)
        return states

    def step(self, number: int, place: Tensor, block: Block) -> Tensor:
        """Tanh of a graph convolution with self loops, float32 [nodes, width]."""
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

    def forward(self, read: Tensor) -> Tensor:
        """Return logits, float32 [graphs, classes]."""
        return self.classify(self.represent(read))

    def classify(self, hidden: Tensor) -> Tensor:
        """Return logits, float32 [graphs, classes], of the last hidden layer."""
        logits: Tensor = self.outer(nn.functional.dropout(hidden, self.dropout, self.training))
        return logits


# --- weighted batch norm ----------------------------------------------------------------------------------------------


class SharedNorm(nn.Module):
    """Batch normalisation, where a row stands for all nodes of its colour.

    With equal shares it is torch's `BatchNorm1d`: in training with mean and variance of the batch, whose running means
    are used in evaluation. A batch's weight in these (`momentum`) and what is
    added to variances (`epsilon`) are torch's.

    Source: Ioffe and Szegedy, ICML 2015, Algorithm 1.
    Differs: the running variance is of the batch itself, not of what it is a sample of.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, width: int, momentum: float = 0.1, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.momentum, self.epsilon = momentum, epsilon
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, rows: Tensor, share: Tensor) -> Tensor:
        """Rows float32 [colours, width] with shares [colours], which sum to one; likewise [colours, width]."""
        if not self.training:
            scale = self.weight * (self.running_var + self.epsilon).rsqrt()
            return rows * scale + (self.bias - self.running_mean * scale)
        normalised, mean, var = _Normalised.apply(rows, share, self.weight, self.bias, self.epsilon)  # type: ignore[no-untyped-call]
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(var, self.momentum)
        return normalised  # type: ignore[no-any-return]


class _Normalised(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, share: Tensor, weight: Tensor, bias: Tensor, epsilon: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        mean = share @ rows
        centred = rows - mean
        var = share @ centred.square()
        inverse = (var + epsilon).rsqrt()
        ctx.save_for_backward(centred.mul_(inverse), share, weight, inverse)
        ctx.mark_non_differentiable(mean, var)
        return torch.addcmul(bias, centred, weight), mean, var

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor, None, Tensor, Tensor, None]:
        unit, share, weight, inverse = ctx.saved_tensors
        to_bias = gradient.sum(0)
        to_weight = (gradient * unit).sum(0)
        to_rows = torch.addcmul(gradient, share[:, None], torch.addcmul(to_bias, unit, to_weight), value=-1)
        return to_rows.mul_(weight * inverse), None, to_weight, to_bias, None
