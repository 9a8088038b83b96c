"""Source text that makes of a trained model's features what its convolutions read: scaled, averaged, joined."""

from dataclasses import dataclass
from typing import cast

from torch import Tensor

from fedgraft.contracts.abilities.plain import Tensors
from fedgraft.contracts.inputs import Inputs
from fedgraft.domains.nodes.training.model import NodeModel
from fedgraft.errors import InputError


@dataclass(frozen=True)
class ReadFeatures:
    """How a model reads so many `features`: scaled, then averaged, as `inputs` say."""

    features: int
    inputs: Inputs

    def lines(self, x: str = "x") -> list[str]:
        """Return lines of `forward` that make of features, in a variable `x`, what the convolutions read."""
        lines = (
            [f"{x} = {x} * ({self.inputs.scale} / {x}.norm(dim=1, keepdim=True).clamp(min=1e-30))"]
            if self.inputs.scale
            else []
        )
        if self.inputs.hops:
            joined = self.inputs.lines()
            if joined is None:
                raise InputError(f"Inputs {type(self.inputs).__name__} have no source text to export.")
            lines += [line.replace("{x}", x) for line in (*self._hops, *joined)]
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
        scaled = f" The model scales every row to the length {self.inputs.scale} itself." if self.inputs.scale else ""
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
