"""FedAdam: Adam at the server."""

from dataclasses import dataclass

from fedgraft.methods.adaptive_steps import AdaptiveSteps
from fedgraft.wire.layouts import Array


@dataclass(frozen=True)
class FedAdam(AdaptiveSteps):
    """FedAdam: Adam at the server, so that each number moves about as far as any other.

        m <- beta1 m + (1 - beta1) change,     v <- beta2 v + (1 - beta2) change^2
        model <- model + learning_rate m / (sqrt(v) + tau)

    Source: Reddi et al., "Adaptive Federated Optimization", ICLR 2021, Algorithm 2.
    Differs: with every sharing method that can be moved, weighted as that one merges. v starts at tau^2, the least that
        the algorithm allows; m and v are kept in the model's precision.

    State:
        first, second: m and v, arrays as the model's parameters.
    Needs: a sharing method whose models can be moved.
    Cost: no bytes; at the server the numbers of the model twice more.
    """

    def _second(self, before: Array, square: Array) -> Array:
        """Forget at the same rate whatever comes."""
        after: Array = self.second_moment * before + (1.0 - self.second_moment) * square
        return after
