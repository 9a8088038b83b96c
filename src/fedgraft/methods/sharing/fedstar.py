"""FedStar: clients share what they learn of structure and keep what they learn of features."""

from dataclasses import dataclass
from typing import ClassVar

from fedgraft.errors import InputError
from fedgraft.methods.one_model import ModelState, OneModel
from fedgraft.wire.layouts import Arrays

STRUCTURE = "structure."
"""Parameters of the part "structure" begin like this."""


@dataclass(frozen=True)
class FedStar(OneModel):
    """FedStar: clients share what they learn of structure and keep what they learn of features.

    The model has a second channel of convolutions that sees where a node is in its graph (random walks that return,
    degrees) and none of its features. That channel alone is averaged, as in FedAvg; all else stays at its client.

    Source: Tan et al., "Federated Learning on Non-IID Graphs via Structural Knowledge Sharing", AAAI 2023, section 4.
    Differs: clients send differences to the channel they received. Channels and readout are the task's and may differ
        in detail from the paper's: see `graph`.

    State:
        model: the channel's arrays. Everything else is in its client's memory.
    Needs: a model with "structure".
    Cost: the channel down and its difference up, per selected client.
    """

    parts: ClassVar[frozenset[str]] = frozenset({"structure"})

    def shares(self, name: str) -> bool:
        """Return whether it belongs to the channel of structure."""
        return name.startswith(STRUCTURE)

    def init(self, model: Arrays, clients: int) -> ModelState:
        """Start from the drawn channel."""
        if not model:
            raise InputError(f"FedStar shares parameters whose names begin with {STRUCTURE!r}; this model has none.")
        return super().init(model, clients)
