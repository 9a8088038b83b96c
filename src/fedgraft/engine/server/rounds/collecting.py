"""The server's part in `privacy.collection`: how a round's updates and scores arrive."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from fedgraft.engine.server.exchange import Replies, Traffic
from fedgraft.engine.server.rounds.next_round import Ahead
from fedgraft.engine.server.rounds.requests import Models
from fedgraft.engine.server.rounds.scoring import Scoring
from fedgraft.engine.server.rounds.train_replies import TrainReplies
from fedgraft.engine.server.smoothing.hops import Hops
from fedgraft.wire.layouts import Arrays


@dataclass(frozen=True)
class SumRound:
    """A cohort that is about to train.

    Args:
        weights: {client that takes part: what its update weighs, >= 1}.
    """

    weights: Mapping[int, float]

    @property
    def alike(self) -> bool:
        """Whether its orders hold nothing but what other orders of the round hold."""
        return True

    def report(self, client: int) -> dict[str, float]:
        """Return the scalars that a client is told beside the order to train."""
        return {}

    def arrays(self, client: int) -> Arrays:
        """Return the arrays that it is told."""
        return {}


class Collecting(ABC):
    """Collect what clients make in a round."""

    hops: ClassVar[type[Hops]]
    """How answers that are smoothed are asked for."""

    @property
    def most_bytes(self) -> Traffic:
        """The most bytes that it takes with a client beside its order and its reply."""
        return Traffic()

    def open(self, scales: Arrays) -> None:
        """Serve a run from its start, or from where it was stored: `scales` is changed in place."""
        return None

    @abstractmethod
    def begin(self, weights: Mapping[int, float], round: int) -> SumRound:
        """Begin a round of a cohort, {client: what its update weighs}; those who are left take part."""

    @abstractmethod
    def ended(self, begun: SumRound, replies: Replies, round: int, rate: float) -> TrainReplies:
        """Return what a cohort has made in a round; `rate` is the learning rate."""

    @abstractmethod
    def scored(
        self, kind: str, models: Models, round: int, ahead: Ahead, after: bool = False, charged: bool = True
    ) -> Scoring:
        """Have clients score the models that they are sent, or of what they remember.

        `kind` is "evaluate" or "smoothed"; `after` local steps they score, too, where single clients are seen.
        """
