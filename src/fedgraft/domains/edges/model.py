"""The model of the task `edge`: convolutions over nodes, and what tells of an edge by its ends and its columns."""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import LayeredEncoder
from fedgraft.domains.nodes.training.model import Note, Stored, stack_of
from fedgraft.domains.nodes.training.neighbour_sampling import Hop
from fedgraft.nn.layers import linear
from fedgraft.nn.propagate import States


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
