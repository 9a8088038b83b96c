"""Answered how? The contract of what is made of a trained model's answers; a recipe's section [answers] names one."""

from fedgraft.contracts.ranges import Checked


class Answers(Checked):
    """Which ways to better answers validation chooses from after training; none by default."""

    @property
    def smoothing(self) -> int:
        """Hops over which answers are smoothed; 0 = none."""
        return 0

    @property
    def class_prior(self) -> bool:
        """Whether answers may be shifted to the client's own shares of the classes."""
        return False

    @property
    def refit(self) -> str:
        """What a linear layer is fitted to behind all hops: "" for none, "answers", or "hidden" states."""
        return ""

    @property
    def local_fit(self) -> bool:
        """Whether what answers then lack of a client's own labels may be fitted there."""
        return False

    @property
    def share_labels(self) -> bool:
        """Whether errors on training examples leave their clients."""
        return False


class OwnAnswers(Answers):
    """Ability: better answers by a client's own examples alone, each by itself."""
