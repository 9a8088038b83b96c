"""The model of the task `node`: convolutions over what a batch is computed from, and a linear layer or one more.

A whole network stands for all convolutions; the linear layer reads what it gives as it is.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import LayeredEncoder, NetworkEncoder
from fedgraft.domains.nodes.training.neighbour_sampling import Hop
from fedgraft.errors import InputError
from fedgraft.nn.layers import Linear, RowLinear, linear, mask, row_linear
from fedgraft.nn.manual_gradients import Back, WithBack, relu_back
from fedgraft.nn.propagate import States
from fedgraft.nn.whole_networks import WholeNetwork

Stored = Callable[[int, Hop], Tensor]
"""Of a hidden layer, counted from 0, what is remembered of a hop's stored nodes, float32 [stored, width]."""
Note = Callable[[int, Hop, Tensor], None]
"""Told of each hidden layer's fresh states [receivers, width]."""


class NodeModel(nn.Module):
    """A network from so many features to logits of so many classes.

    The encoder gives the convolutions, or the network in their place. `head` is "linear" for a linear layer behind the
    encoder's convolutions, "convolution" for one more of them; of an encoder without any this is the only layer.
    `dropout` is the share of each hidden layer dropped in training; the weights are drawn from `g`. `attention` makes
    of the inputs what the first convolution reads, if it is given. Edges carry so many numbers, `edge_width`, which
    encoders that can read.
    """

    def __init__(
        self,
        encoder: LayeredEncoder | NetworkEncoder,
        features: int,
        classes: int,
        head: str,
        dropout: float,
        g: torch.Generator,
        attention: nn.Module | None = None,
        edge_width: int = 0,
    ) -> None:
        super().__init__()
        self._whole = isinstance(encoder, NetworkEncoder)
        if isinstance(encoder, NetworkEncoder):
            network = network_of_nodes(encoder, features, g, edge_width)
            self.convolutions, width, convolves = nn.ModuleList([network]), network.width, False
        else:
            convolves = head == "convolution" or not encoder.depth
            widths = [features, *encoder.widths, *([classes] if convolves else [])]
            self.convolutions, width = stack_of(encoder, widths, g, edge_width), widths[-1]
        self.head = None if convolves else linear(width, classes, g)
        self.dropout = dropout
        self.attention = attention
        self._with_back = attention is None and all(isinstance(each, WithBack) for each in self.convolutions)

    def mask(self) -> None:
        """Give all weights of linear layers masks; gradients are autograd's then."""
        mask(self)
        self._with_back = False

    @property
    def by_hand(self) -> bool:
        """True where there is `with_back`: all convolutions have it, and nothing is dropped."""
        return self._with_back and not (self.dropout and self.training)

    @property
    def by_row(self) -> list[Linear | RowLinear]:
        """The linear layers of a model that looks at each node alone, `mlp`'s, in their order."""
        head = [self.head] if self.head is not None else []
        return [*(convolution.own for convolution in self.convolutions), *head]  # type: ignore[list-item]

    def forward(self, inputs: States, hops: Sequence[Hop], stored: Stored, note: Note | None = None) -> Tensor:
        """Return logits, float32 [targets, classes], after a hop for each convolution, or for the last ones.

        `inputs` are features of the first hop's senders, or of all nodes where its block is over all; with fewer hops
        the senders' states. `stored` is what is remembered of stored nodes; `note` is told of fresh states, before
        dropout.
        """
        return self.observed(inputs, hops, stored, note)[1]

    def observed(
        self, inputs: States, hops: Sequence[Hop], stored: Stored, note: Note | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the last hidden layer, float32 [targets, width], and the logits that `forward` makes of it.

        Of a single convolution without a head both are the logits. What a last convolution reads is after dropout.
        """
        last, final = self._last(inputs, hops, stored, note), hops[-1].block
        logits: Tensor = self.convolutions[-1](last, final)
        if self.head is not None:
            hidden = self._read(logits)
            return hidden, self.head(self._dropped(hidden))
        if len(self.convolutions) == 1:
            return logits, logits
        assert isinstance(last, Tensor), "it is what a convolution made"
        return last[: final.receivers], logits

    def with_back(
        self, inputs: States, hops: Sequence[Hop], stored: Stored, note: Note | None = None
    ) -> tuple[Tensor, Callable[[Tensor], None]]:
        """Logits [targets, classes], and what sets all gradients but a generator's, given that of the logits."""
        state = inputs
        stages: list[tuple[Back, Tensor | None]] = []
        for layer, (convolution, hop) in enumerate(zip(self.convolutions, hops, strict=True)):
            output, back = convolution.with_back(state, hop.block)  # type: ignore[operator]
            if layer == len(hops) - 1 and self.head is None:
                return output, _chained([*stages, (back, None)])
            hidden = torch.relu_(output)
            stages.append((back, hidden))
            state = hidden
            if layer < len(hops) - 1:
                if note is not None:
                    note(layer, hop, hidden)
                if len(hops[layer + 1].stored):
                    state = torch.cat([hidden, stored(layer, hops[layer + 1]).to(hidden.device)])
        assert self.head is not None
        return self.head(hidden), _chained([*stages, (partial(self.head.back, hidden), None)])

    def hidden(self, layer: int, inputs: States, hop: Hop) -> Tensor:
        """States [receivers, width] of one hidden layer, from what its hop's senders are before it."""
        return self._hidden(layer, inputs if layer else self._attended(inputs), hop)

    def represent(self, inputs: States, hops: Sequence[Hop], stored: Stored) -> Tensor:
        """The last hidden layer [targets, width]; without any the logits."""
        if len(self.convolutions) == 1 and self.head is None:
            return self.convolutions[0](self._attended(inputs), hops[-1].block)  # type: ignore[no-any-return]
        last = self._last(inputs, hops, stored, None)
        if self.head is not None:
            return self._read(self.convolutions[-1](last, hops[-1].block))
        assert isinstance(last, Tensor) or not hops
        return (
            last[: hops[-1].block.receivers]
            if isinstance(last, Tensor)
            else self.convolutions[-1](last, hops[-1].block)
        )

    def _last(self, inputs: States, hops: Sequence[Hop], stored: Stored, note: Note | None) -> States:
        """Return the input of the last convolution."""
        begin = len(self.convolutions) - len(hops)
        state = inputs if begin else self._attended(inputs)
        for layer, (hop, after) in enumerate(itertools.pairwise(hops), begin):
            fresh = self._hidden(layer, state, hop)
            if note is not None:
                note(layer, hop, fresh.detach())
            state = self._dropped(fresh)
            if len(after.stored):
                state = torch.cat([state, stored(layer, after).to(state.device)])
        return state

    def _attended(self, inputs: States) -> States:
        """Return what the first convolution reads."""
        return inputs if self.attention is None else self.attention(inputs)

    def _hidden(self, layer: int, state: States, hop: Hop) -> Tensor:
        return torch.relu(self.convolutions[layer](state, hop.block))

    def _read(self, states: Tensor) -> Tensor:
        """Return what the head reads; a network's own states, after which it has what it wants to have."""
        return states if self._whole else torch.relu(states)

    def _dropped(self, state: Tensor) -> Tensor:
        return nn.functional.dropout(state, self.dropout, self.training) if self.dropout else state


def stack_of(encoder: LayeredEncoder, widths: Sequence[int], g: torch.Generator, edge_width: int = 0) -> nn.ModuleList:
    """Return a stack of convolutions with these widths, the inputs' first; edges carry so many numbers."""
    return nn.ModuleList(
        encoder.edge_convolution(before, after, edge_width, g, linear if number else row_linear)
        for number, (before, after) in enumerate(itertools.pairwise(widths))
    )


def network_of_nodes(encoder: NetworkEncoder, features: int, g: torch.Generator, edge_width: int = 0) -> WholeNetwork:
    """Return a whole network. Raises `InputError` for one that gives a state for each graph."""
    network = encoder.network(features, g, edge_width)
    if network.pools:
        raise InputError("[model] gives a state for each graph; tasks about nodes need [nodes, width] of a network.")
    return network


def _chained(stages: Sequence[tuple[Back, Tensor | None]]) -> Callable[[Tensor], None]:
    """Back through all stages, each with what a relu made of its output, or None without a relu."""

    def back(gradient: Tensor) -> None:
        before: Tensor | None = gradient
        for number in range(len(stages) - 1, -1, -1):
            stage, hidden = stages[number]
            assert before is not None
            if hidden is not None:  # remembered states come behind those that were computed
                before = relu_back(hidden, before[: hidden.shape[0]])
            before = stage(before, number > 0)

    return back
