"""Prior shift: answers are shifted to a client's own shares of the classes."""

from dataclasses import dataclass

from fedgraft.contracts.answers import OwnAnswers, Ways
from fedgraft.domains.labels.smoothing import Smoothing


@dataclass(frozen=True)
class PriorShift(OwnAnswers):
    """Prior shift: answers are shifted after training to a client's own shares of the classes.

    Source: Saerens et al., "Adjusting the Outputs of a Classifier to New a Priori Probabilities", Neural Computation
        2002, Eq. (4).

    Args:
        class_prior: whether they are, if validation gains by it.
    """

    class_prior: bool = False

    def ways(self, classes: int, hidden: int) -> Ways:
        """Return how much the own shares may count."""
        return Smoothing(0, classes, class_prior=True) if self.class_prior else Ways()
