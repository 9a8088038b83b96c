"""A network of a domain's own, and the layer that tells labels of its states."""

import inspect
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fedgraft.contracts.abilities.plain import PlainModel
from fedgraft.domains.plain_source import module_text
from fedgraft.nn.layers import linear

Inputs = tuple[Tensor, ...]
"""What a network reads of a client."""
_USAGE = """from model import load

outputs = load()(inputs, ends)
"""


class LabelModel(nn.Module):
    """A domain's network, and a linear layer that tells what is asked of a thing, or of two in either order.

    The network's class is made of `sizes`, of which the last is the width, and a generator, from which everything is
    drawn; it takes inputs to states, float32 [things, width]. An example is made of so many `ends`; `outputs` are told
    of it.
    """

    def __init__(
        self, network: type[nn.Module], sizes: Sequence[int], ends: int, outputs: int, g: torch.Generator
    ) -> None:
        super().__init__()
        self.network = network(*sizes, g)
        self.head = linear(sizes[-1] * ends, outputs, g)
        self._sizes = tuple(sizes)

    def represent(self, inputs: Inputs, ends: Tensor) -> Tensor:
        """Return what the last layer reads, [examples, n]: the state of one; of two their sum and product."""
        states = self.network(*inputs)
        one, other = states[ends[0]], states[ends[-1]]
        return one if len(ends) == 1 else torch.cat([one + other, one * other], dim=1)

    def forward(self, inputs: Inputs, ends: Tensor) -> Tensor:
        """Return outputs, float32 [examples, outputs]."""
        outputs: Tensor = self.head(self.represent(inputs, ends))
        return outputs

    def plain(self, outputs: str) -> PlainModel:
        """Return the model as source text, that of its network's class among it; `outputs` are for people to read."""
        cls, inputs, width = type(self.network), self.head.in_features, self.head.out_features
        sizes = ", ".join(map(repr, self._sizes))
        made = [
            f"self.network = {cls.__name__}({sizes}, torch.Generator())",
            f"self.head = nn.Linear({inputs}, {width})",
        ]
        read = "one" if inputs == self._sizes[-1] else "torch.cat([one + other, one * other], dim=1)"
        forward = ["states = self.network(*inputs)", "one, other = states[ends[0]], states[ends[-1]]"]
        forward.append(f"return self.head({read})")
        says, source = f"To {width} numbers of each example.", f"\n\n{inspect.getsource(cls)}"
        text = module_text([], source, says, made, "self, inputs, ends", forward)
        docstring = (
            f"- `inputs`: what `{cls.__name__}.forward` takes.\n"
            "- `ends`: int64 [1 or 2, examples], the things that each example is made of, by their place.\n"
        )
        return PlainModel(text, self.state_dict(), docstring, _USAGE, outputs)
