"""How fast devices compute from round to round: noise, and loads that stay for some rounds and then change."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import randomness


@dataclass(frozen=True)
class ChangingSpeeds:
    """Factors on clients' training speeds, a function of the seed, the round and the client.

    In round t client k computes at exp(jitter a_kt + switch b_ks) of its speed: a_kt is drawn for every round, b_ks for
    every stay s of the client, both standard normal. A stay lasts a number of rounds that is drawn from
    `switch_rounds`, both ends included. In the first stay b is 0: a run begins with the speeds that the server knows.

    Source: ours; log-normal noise and background load of devices are usual in simulations of federated learning.

    Args:
        seed: of the run.
        jitter: standard deviation of the log of speed from round to round, >= 0.
        switch: that from stay to stay, >= 0.
        switch_rounds: least and most rounds of a stay, >= 1.
    """

    seed: int
    jitter: float
    switch: float
    switch_rounds: tuple[int, ...]

    def factors(self, clients: int, round: int) -> NDArray[np.float64]:
        """Return what each client's speed is multiplied by in a round, float64 [clients]; `round` is 1 at first."""
        logs = self.switch * self._loads(clients, round)
        if self.jitter:
            logs += self.jitter * randomness.generator(self.seed, "jitter", round).standard_normal(clients)
        return np.asarray(np.exp(logs))

    def _loads(self, clients: int, round: int) -> NDArray[np.float64]:
        """Return b of the stay that each client is in, float64 [clients]."""
        loads, ends, stay = np.zeros(clients), np.zeros(clients, np.int64), 0
        while self.switch and (ended := ends < round).any():
            g = randomness.generator(self.seed, "stay", stay)
            least, most = self.switch_rounds
            lasts, drawn = g.integers(least, most + 1, clients), g.standard_normal(clients)
            ends[ended] += lasts[ended]
            loads[ended] = drawn[ended] if stay else 0.0
            stay += 1
        return loads
