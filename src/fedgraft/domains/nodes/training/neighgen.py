"""NeighGen: the part of a model that makes up neighbours which a client cannot see."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import LayeredEncoder
from fedgraft.domains.nodes.training.neighbour_sampling import Hop
from fedgraft.nn.layers import linear, row_linear
from fedgraft.nn.propagate import Sparse

WIDTHS: Final = (32, 128)
"""Of the two layers of the generator's encoder: `hidden` and `latent_dim` of the published code."""
START: Final = 0.01
"""Share of the usual width with which the layer that makes features is drawn; ours, so that these begin near nothing:
else noise alone makes them ten times as large as those of texts, and many rounds pass until they are not."""


class Generator(nn.Module):
    """NeighGen: from a node's neighbourhood to how many neighbours it lacks, up to `most`, and their features.

    Attributes:
        frozen: float32 [1], 1 once a sharing method has ended its training; it travels with the model.
    """

    frozen: Tensor

    def __init__(self, encoder: LayeredEncoder, features: int, most: int, g: torch.Generator) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            encoder.convolution(before, after, g, linear if number else row_linear)
            for number, (before, after) in enumerate(pairwise((features, *WIDTHS)))
        )
        self.count = linear(WIDTHS[-1], 1, g)
        self.features = linear(WIDTHS[-1], most * features, g)
        with torch.no_grad():
            for parameter in self.features.parameters():
                parameter.mul_(START)
        self.register_buffer("frozen", torch.zeros(1))
        self._shape = most, features
        self._edition: tuple[object, list[Tensor]] = (object(), [])

    @property
    def learns(self) -> bool:
        """True while the generator is being trained."""
        return bool(self.frozen < 0.5)  # a codec may have touched it

    @property
    def edition(self) -> object:
        """Return an object that is the same as long as the parameters are: until then what was generated is valid."""
        here = [parameter.detach() for parameter in self.parameters()]
        if not self._edition[1] or not all(map(torch.equal, here, self._edition[1])):
            self._edition = object(), [each.clone() for each in here]
        return self._edition[0]

    def encode(self, inputs: Tensor | Sparse, hops: Sequence[Hop]) -> Tensor:
        """Embeddings z [targets, width] of what the hops lead to."""
        state = inputs
        for convolution, hop in zip(self.convolutions, hops, strict=True):
            state = torch.relu(convolution(state, hop.block))
        assert isinstance(state, Tensor)
        return state

    def missing(self, z: Tensor) -> Tensor:
        """Return how many neighbours nodes lack, float32 [nodes]."""
        return torch.relu(self.count(z)).squeeze(1)

    def neighbours(self, z: Tensor, seed: int) -> Tensor:
        """Features of the most neighbours that nodes can lack, [nodes, most, width]."""
        noise = torch.randn(z.shape, generator=torch.Generator().manual_seed(seed)).to(z.device)
        made: Tensor = torch.tanh(self.features(z + noise))
        return made.view(len(z), *self._shape)


def generator_of(model: nn.Module) -> Generator:
    """The generator of a model that has one."""
    generator = model.generator
    assert isinstance(generator, Generator)
    return generator
