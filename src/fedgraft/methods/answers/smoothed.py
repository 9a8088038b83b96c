"""Smoothed: answers are smoothed over edges after training, and shifted to a client's classes."""

from dataclasses import dataclass
from typing import Literal

from fedgraft.contracts.answers import Answers, Ways
from fedgraft.contracts.ranges import NonNegativeInt
from fedgraft.domains.labels.smoothing import Smoothing
from fedgraft.errors import require


@dataclass(frozen=True)
class Smoothed(Answers):
    """Smoothed: answers are smoothed over edges after training, and shifted to a client's classes.

    Validation chooses whether, and how much, any of it counts; by default answers stay as they are.

    Source: Gasteiger et al., APPNP, ICLR 2019; Huang et al., "Combining Label Propagation and Simple Models
        Out-performs Graph Neural Networks", ICLR 2021; Saerens et al., Neural Computation 2002 (`class_prior`).

    Args:
        smoothing: hops over which answers are smoothed after training, >= 0; 0 = none, 2 is best on our data. Over
            metapaths nothing leaves a client for that.
        class_prior: whether answers are shifted after training to the client's own shares of the classes, if validation
            gains by it; with `smoothing`, fewer ways of that are then chosen from.
        refit: what a linear layer is fitted to after that, in closed form, behind all hops: "" for none, "answers", or
            "hidden", for which the last hidden layer is smoothed beside them; validation chooses whether it answers.
        local_fit: whether what answers then lack of a client's own labels may be fitted there, by ridge regression on
            inputs and on what is smoothed; nothing is sent for it, and validation chooses whether it counts.
        share_labels: whether errors on training nodes, and so their labels, leave their clients in that.
    """

    smoothing: NonNegativeInt = 0
    class_prior: bool = False
    refit: Literal["", "answers", "hidden"] = ""
    local_fit: bool = False
    share_labels: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = self.smoothing > 0 or not self.share_labels
        require(fits, "Smoothed.share_labels", "false where Smoothed.smoothing is 0", self.share_labels)

    def ways(self, classes: int, hidden: int) -> Ways:
        """Return those over so many hops."""
        if not (self.smoothing or self.class_prior or self.refit or self.local_fit):
            return Ways()
        ways = self.share_labels, self.class_prior, bool(self.refit), self.local_fit
        return Smoothing(self.smoothing, classes, *ways, hidden if self.refit == "hidden" else 0)
