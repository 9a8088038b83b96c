"""Prior shift: answers are shifted to a client's own shares of the classes."""

from dataclasses import dataclass

from fedgraft.contracts.answers import OwnAnswers


@dataclass(frozen=True)
class PriorShift(OwnAnswers):
    """Prior shift: answers are shifted after training to a client's own shares of the classes.

    Source: Saerens et al., "Adjusting the Outputs of a Classifier to New a Priori Probabilities", Neural Computation
        2002, Eq. (4).

    Args:
        class_prior: whether they are, if validation gains by it.
    """

    class_prior: bool = False
