"""A simulated clock: what a round would last on the clients' devices, and what becomes of answers that are late.

The digest of a run may not depend on how busy a machine is, so selectors, deadlines and time budgets see these seconds,
never measured ones. Measured seconds are only reported.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import pandas as pd
from annotated_types import Ge, Interval
from numpy.typing import NDArray

from fedgraft.contracts import randomness
from fedgraft.contracts.ranges import NonNegativeFloat, OneOf, PositiveFloat, PositiveInt, Proportion, check_ranges
from fedgraft.engine.server.clock import devices as tables
from fedgraft.engine.server.clock.devices import ChangingSpeeds, Devices
from fedgraft.errors import InputError, require, unknown
from fedgraft.tables.table_files import is_table

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


LATE = ("wait", "drop", "semi_asynchronous")


@dataclass(frozen=True)
class Clock:
    """Simulated seconds of rounds, from the clients' devices.

    A client's round takes latency + bytes down / link down + training examples x epochs / speed + bytes up / link up,
    with the bytes that the ledger counts. A client that waits for rows of others waits as many latencies more. A round
    lasts as long as its slowest client, or until the deadline where late answers are not waited for.

    Source: Liu et al. (reputation-UCB), eqs (14) and (15); a late update's weight as in FedAsync (Xie et al., 2019).
    Differs: all training examples count, whatever share of them `training.blocks` takes: the server does not know that
        share. Halo rows that a late client has sent count as sent; only its update is late.

    Args:
        devices: a profile's name: "lognormal", drawn from the next four options; "edge_cloud", the eight devices of Liu
            et al., of which fewer clients have some and more have them in turn; "phones", drawn from three kinds. Or
            own devices, a row per client: the path of a .csv or .parquet file or a table, with columns
            examples_per_second, mbit_down, mbit_up and perhaps latency_seconds (0), availability (1) and name.
        mbit_per_second: "lognormal": the median link, both directions, > 0 (10: a metered line of a small shop).
        examples_per_second: "lognormal": the median device's training speed, > 0.
        latency_seconds: "lognormal": per client and request, >= 0.
        spread: "lognormal": standard deviation of the log of links and speeds, in [0, 10]; 0 makes all equal.
        jitter: standard deviation of the log of a factor on each training speed that is drawn in every round, in [0,
            10]; 0 = none. What is expected of a client, the median deadline among it, goes by speeds without factors.
        switch: that of a second factor, which is 1 at first, stays for some rounds and is then drawn anew, for each
            client by itself; in [0, 10]; 0 = none.
        switch_rounds: the least and the most rounds for which that factor stays, >= 1.
        late: what becomes of an answer after the deadline. "wait": the round waits for it. "drop": nobody waits, and it
            is lost. "semi_asynchronous": nobody waits; the client works on, cannot be selected meanwhile, and its
            update is merged in the round in which it arrives, with 1 / (1 + staleness) of its weight, where staleness
            is the number of rounds that have begun since it was ordered.
        deadline_seconds: of a round, from the order to train on, > 0; 0 = the median of the most seconds that clients
            can take. With "wait" it only tells selectors what is slow.
        max_staleness: an update that is staler when it arrives is dropped, >= 1.
    """

    devices: str | Path | list[dict[str, Any]] | pd.DataFrame = "lognormal"
    mbit_per_second: PositiveFloat = 10.0
    examples_per_second: PositiveFloat = 100_000.0
    latency_seconds: NonNegativeFloat = 0.1
    spread: Annotated[float, Interval(ge=0, le=10)] = 0.5
    jitter: Annotated[float, Interval(ge=0, le=10)] = 0.0
    switch: Annotated[float, Interval(ge=0, le=10)] = 0.0
    switch_rounds: tuple[int, ...] = (5, 10)
    late: Annotated[str, OneOf(LATE)] = "wait"
    deadline_seconds: Annotated[float, Ge(0), "0 = the median"] = 0.0
    max_staleness: PositiveInt = 2

    def __post_init__(self) -> None:
        check_ranges(self, "clock")
        stays = tuple(self.switch_rounds)
        fits = len(stays) == 2 and 1 <= stays[0] <= stays[1]
        require(fits, "clock.switch_rounds", "two whole numbers, 1 <= least <= most", list(stays))
        object.__setattr__(self, "devices", _named_or_rows(self.devices))

    def of(self, clients: int, seed: int) -> Devices:
        """Return the clients' devices, for the whole run. Raises `InputError` for a table of others."""
        devices = self._known(clients, seed)
        if not (self.jitter or self.switch):
            return devices
        return replace(devices, changes=ChangingSpeeds(seed, self.jitter, self.switch, tuple(self.switch_rounds)))

    def _known(self, clients: int, seed: int) -> Devices:
        """The devices as the server knows them."""
        if self.devices == "lognormal":
            return tables.drawn(
                clients, seed, self.mbit_per_second, self.examples_per_second, self.latency_seconds, self.spread
            )
        if self.devices == "phones":
            return tables.of_rows(tables.phones(clients, seed))
        if self.devices == "edge_cloud":
            return tables.of_rows(tables.edge_cloud(clients))
        rows: Any = self.devices
        if len(rows) != clients:
            what = f"a table of {len(rows)} devices"
            raise InputError(f"clock.devices must have a device for each of the {clients} clients; got {what}.")
        return tables.of_rows(rows)

    def deadline(self, most: NDArray[np.float64]) -> float:
        """Return the seconds after which a round need not wait, given the most that clients can take, float64 [n]."""
        return self.deadline_seconds or (float(np.median(most)) if len(most) else np.inf)

    def check(self, least: NDArray[np.float64], clients: NDArray[np.int64]) -> None:
        """Raise `InputError` for a deadline that nobody can meet.

        `least` are the least seconds that the clients with the indices `clients` take, float64 [n] and int64 [n].
        """
        if self.late == "wait" or not self.deadline_seconds or not len(least):
            return
        fastest = int(np.argmin(least))
        allowed = f"at least {least[fastest]:.4g}, the seconds of the fastest client (client {clients[fastest]})"
        require(least[fastest] <= self.deadline_seconds, "clock.deadline_seconds", allowed, self.deadline_seconds)


def _named_or_rows(devices: str | Path | list[dict[str, Any]] | pd.DataFrame) -> str | tables.Rows:
    """Return a profile's name, or a table: what is read from a file is kept with the run."""
    if isinstance(devices, list):
        return tables.checked(devices, "clock.devices")
    if isinstance(devices, pd.DataFrame | Path) or is_table(devices):
        return tables.read(devices, "clock.devices")
    if devices not in tables.PROFILES:
        raise unknown("profile of clock.devices", devices, tables.PROFILES)
    return devices
