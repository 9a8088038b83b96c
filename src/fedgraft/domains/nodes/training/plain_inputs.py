"""Source text that makes of a trained model's features what its convolutions read: scaled, averaged, joined."""

from dataclasses import dataclass
from typing import Final, cast

from torch import Tensor

from fedgraft.contracts.abilities.plain import Tensors
from fedgraft.domains.nodes.training.model import NodeModel
from fedgraft.domains.nodes.training.smoothed_inputs import SmoothedInputs

_JOINED: Final = {
    "concatenate": ["{x} = torch.cat(hops, 1)"],
    "last": ["{x} = hops[-1]"],
    "mean": ["{x} = sum(hops) / len(hops)"],
    "attention": [
        "hops = torch.stack(hops, 1)",
        "{x} = (torch.softmax(hops @ self.score, 1).unsqueeze(2) * hops).sum(1)",
    ],
}
"""Source text: what the convolutions read, of the features after each hop."""


@dataclass(frozen=True)
class ReadFeatures:
    """How a model reads so many `features`: scaled to the length `scale` (0 = as they are), then averaged."""

    features: int
    scale: float
    inputs: SmoothedInputs

    def lines(self, x: str = "x") -> list[str]:
        """Return lines of `forward` that make of features, in a variable `x`, what the convolutions read."""
        lines = [f"{x} = {x} * ({self.scale} / {x}.norm(dim=1, keepdim=True).clamp(min=1e-30))"] if self.scale else []
        if self.inputs.hops:
            lines += [line.replace("{x}", x) for line in (*self._hops, *_JOINED[self.inputs.joined])]
        return lines

    def arrays(self, model: NodeModel) -> Tensors:
        """Return what of the state dict belongs to that."""
        return {} if model.attention is None else {"score": cast(Tensor, model.attention.score)}

    @property
    def made(self) -> list[str]:
        """Lines that make what it needs."""
        return [f"self.score = nn.Parameter(torch.zeros({self.features}))"] if self.inputs.attends else []

    @property
    def told(self) -> str:
        """Sentences about that, for people to read."""
        scaled = f" The model scales every row to the length {self.scale} itself." if self.scale else ""
        averaged = (
            f" It averages them over nodes and their neighbours itself, {self.inputs.hops} hops far, by the edges that "
            "it is given; each client's were those inside it."
        )
        return scaled + averaged * (self.inputs.hops > 0)

    @property
    def _hops(self) -> list[str]:
        return [
            "source, target = edge_index",
            "count = {x}.new_ones(len({x}), 1).index_add(0, target, {x}.new_ones(len(target), 1))",
            "hops = [{x}]",
            f"for _ in range({self.inputs.hops}):",
            "    hops.append(hops[-1].index_add(0, target, hops[-1][source]) / count)",
        ]
