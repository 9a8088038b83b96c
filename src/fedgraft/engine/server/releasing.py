"""What others see of the updates that arrived in a round: chosen once, as a run begins."""

from typing import Any, Protocol

from fedgraft.contracts import Selector
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.arrivals import Arrived
from fedgraft.engine.server.run_state import RunState
from fedgraft.engine.server.server_secret import ServerSecret


class Releasing(Protocol):
    """Make of what arrived in a round what the next model is made of."""

    def released(self, state: RunState, arrived: Arrived, round: int) -> Arrived:
        """Return it; what the next round needs to know is noted in the run's state."""


class AsTheyAre:
    """Updates as they arrived."""

    def released(self, state: RunState, arrived: Arrived, round: int) -> Arrived:
        """Return what arrived."""
        return arrived


def releasing_of(plan: Plan, selector: Selector[Any], clients: int, secret: ServerSecret) -> Releasing:
    """Return how a plan's updates are released, of so many clients."""
    if not plan.privacy.central:
        return AsTheyAre()
    from fedgraft.engine.protocol.noise import central_noise_in  # its mathematics takes its time to import
    from fedgraft.engine.server.central_noise import CentralNoise

    return CentralNoise(plan, central_noise_in(plan, selector, clients), secret)
