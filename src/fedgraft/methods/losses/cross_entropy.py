"""Cross-entropy: minus the log of the probability of the right class."""

from dataclasses import dataclass
from typing import Annotated, Final

import torch
from annotated_types import Ge
from torch import Tensor, nn

from fedgraft.contracts.loss import ClassObjective, ClassShares, ClassWeights, LossesAndGradient
from fedgraft.contracts.ranges import ProperFraction
from fedgraft.domains.labels.class_weights import check_weights
from fedgraft.errors import require
from fedgraft.nn.manual_gradients import cross_entropies

TINY: Final = 1e-6
"""The least that 1 - p is taken for, of which a power is taken."""


@dataclass(frozen=True)
class CrossEntropy(ClassObjective):
    """Cross-entropy: minus the log of the probability of the right class.

    Source: `logit_adjustment`: Menon et al., "Long-tail learning via logit adjustment", ICLR 2021; at clients as Zhang
        et al., "FedLC", ICML 2022. `label_smoothing`: Szegedy et al., CVPR 2016; Pereyra et al., 2017. `focal`: Lin et
        al., "Focal Loss for Dense Object Detection", ICCV 2017.
    Differs: labels are smoothed over the classes as the client has them, not over all alike.

    Args:
        class_weights: what the loss of an example of each class is multiplied by: "" for 1, "balanced" so that all
            classes of all clients count alike (examples / (classes x examples of the class)), for which each client
            publishes how many it has, or a table {class = weight}, others having 1. Of whole graphs "balanced" is by
            the client's own, and nothing is published.
        focal: the exponent of 1 - p by which losses of what is told with a large probability p shrink, >= 0 (Lin et
            al.: 2); 0 = off.
        label_smoothing: share of a label spread over classes as the client has them, in [0, 1) (Szegedy et al.: 0.1,
            over all alike).
        logit_adjustment: by how many times the log shares of a client's classes logits are raised in its training, >= 0
            (Menon et al.: 1): a client whose classes are uneven does not teach the model that they are so everywhere.
        dropout: share of each hidden layer dropped in training, in [0, 1).
    """

    class_weights: ClassWeights = ""
    focal: Annotated[float, Ge(0), "0 = off"] = 0.0
    label_smoothing: ProperFraction = 0.0
    logit_adjustment: Annotated[float, Ge(0), "0 = none"] = 0.0
    dropout: ProperFraction = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_weights("CrossEntropy", self.class_weights)
        fits = not (self.focal and self.label_smoothing)
        require(fits, "CrossEntropy.focal", "0 unless CrossEntropy.label_smoothing is 0", self.focal)

    @property
    def reads_shares(self) -> bool:
        """True where labels are smoothed or logits adjusted."""
        return bool(self.label_smoothing or self.logit_adjustment)

    def losses(self, logits: Tensor, label: Tensor, shares: ClassShares | None) -> Tensor:
        """Return the loss of each example, float32 [n]."""
        logs, spread = torch.log_softmax(self._raised(logits, shares), 1), self._spread(logits, shares)
        losses = nn.functional.nll_loss(logs, label, reduction="none")
        if self.focal:
            losses = losses * (1 - (-losses).exp()).clamp(min=TINY) ** self.focal
        return losses if spread is None else losses * (1.0 - float(spread.sum())) - logs @ spread

    def with_gradient(self, logits: Tensor, label: Tensor, shares: ClassShares | None) -> LossesAndGradient:
        """Return the same with a gradient written by hand."""
        return cross_entropies(self._raised(logits, shares), label, self._spread(logits, shares), self.focal)

    def _raised(self, logits: Tensor, shares: ClassShares | None) -> Tensor:
        if not self.logit_adjustment or shares is None:
            return logits
        return logits + self.logit_adjustment * shares.logs.to(logits.device)

    def _spread(self, logits: Tensor, shares: ClassShares | None) -> Tensor | None:
        """Return the share of every label that every class gets, float32 [classes]; None for nothing."""
        if not self.label_smoothing or shares is None:
            return None
        return self.label_smoothing * shares.values.to(logits.device)
