"""Clients that drop out: whose connection is down in a round."""

from dataclasses import dataclass
from typing import Final

from fedgraft.contracts import randomness
from fedgraft.contracts.ranges import NonNegativeFloat, Proportion, check_ranges
from fedgraft.errors import InputError

DISCONNECTED: Final = "its connection is down"
"""Why such a client has failed."""


@dataclass(frozen=True)
class Dropout:
    """Which clients lose their connection in a round: nobody knows before, and they are back in the next.

    A client that is selected while its connection is down misses the round, and later goes on from its own state. It
    costs no bytes. A round in which nothing is sent is no round to miss.

    Source: CEFGL, section 5.8: in every round a drop rate is drawn from a Beta distribution.
    Differs: the paper does not say how the rate becomes clients; here each client drops out with that probability.

    Args:
        rate: the same in every round, in [0, 1]; 0 = nobody drops out.
        alpha: with `beta` in place of `rate`: the rate of each round is drawn from Beta(alpha, beta), both > 0.
        beta: see `alpha`.
    """

    rate: Proportion = 0.0
    alpha: NonNegativeFloat = 0.0
    beta: NonNegativeFloat = 0.0

    def __post_init__(self) -> None:
        check_ranges(self, "dropout")
        if (self.alpha > 0) != (self.beta > 0):
            raise InputError(f"dropout.alpha and dropout.beta belong together; got {self.alpha} and {self.beta}.")
        if self.alpha and self.rate:
            raise InputError(f"dropout takes a rate or alpha and beta, not both; got rate = {self.rate}.")

    def dropped(self, clients: int, round: int, seed: int) -> frozenset[int]:
        """Return the clients whose connection is down in a round."""
        if not (self.rate or self.alpha):
            return frozenset()
        g = randomness.generator(seed, "dropout", round)
        rate = g.beta(self.alpha, self.beta) if self.alpha else self.rate
        return frozenset((g.random(clients) < rate).nonzero()[0].tolist())
