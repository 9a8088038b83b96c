"""A simulated clock: what a round would last on the clients' devices, and what becomes of answers that are late.

Devices say how fast clients compute, their links, how often they are there: named profiles, or a user's own.

The digest of a run may not depend on how busy a machine is, so selectors, deadlines and time budgets see these seconds,
never measured ones. Measured seconds are only reported.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import pandas as pd
from annotated_types import Ge, Interval
from numpy.typing import ArrayLike, NDArray

from fedgraft.contracts import Timing, randomness
from fedgraft.contracts.ranges import NonNegativeFloat, OneOf, PositiveFloat, PositiveInt, Proportion, check_ranges
from fedgraft.errors import InputError, require, unknown
from fedgraft.tables.table_files import Given, is_table, table_of


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


BYTES_PER_MBIT = 125_000.0
REQUIRED = ("examples_per_second", "mbit_down", "mbit_up")
"""Columns that a table of devices must have."""
OPTIONAL = {"latency_seconds": 0.0, "availability": 1.0}
"""{column that it may have: what stands in for it}; a column "name" is for people."""
RULES: dict[str, tuple[str, Callable[[float], bool]]] = {
    "examples_per_second": ("> 0", lambda value: value > 0),
    "mbit_down": ("> 0", lambda value: value > 0),
    "mbit_up": ("> 0", lambda value: value > 0),
    "latency_seconds": (">= 0", lambda value: value >= 0),
    "availability": ("in (0, 1]", lambda value: 0 < value <= 1),
}
"""{column: (what is allowed, whether a finite value is)}."""

Rows = list[dict[str, Any]]
"""A table of devices: a dict of columns for each client, in their order."""

_CORE = 20_000.0
"""Examples per second of a core. Liu et al. give cores of 2.2 GHz, not speeds; so many the ranker trains on on one."""


def _edge(number: int, cores: int, mbit: float) -> dict[str, Any]:
    speed = {"examples_per_second": cores * _CORE, "mbit_down": mbit, "mbit_up": mbit}
    return {"name": f"client {number}", **speed, **OPTIONAL}


EDGE_CLOUD = [
    _edge(number, cores, mbit)
    for number, (cores, mbit) in enumerate(
        [(8, 1600.0), (8, 1600.0), (8, 100.0), (8, 100.0), (2, 6.0), (2, 6.0), (2, 2.0), (2, 2.0)], 1
    )
]
"""The eight devices of Liu et al., Table II: 8 cores and 16 GB or 2 cores and 4 GB, with their links."""
PHONES = [
    (0.5, ("wifi", 3_000.0, 50.0, 20.0, 0.03, 0.9)),
    (0.3, ("4g", 2_000.0, 20.0, 8.0, 0.06, 0.8)),
    (0.2, ("3g", 1_000.0, 3.0, 1.0, 0.2, 0.6)),
]
"""(share of clients, (name, examples per second, Mbit/s down and up, latency, availability)): our orders of size."""
PROFILES = ("lognormal", "edge_cloud", "phones")
"""Names of profiles; "lognormal" is drawn around medians, "phones" from three kinds."""


@dataclass(frozen=True, eq=False)
class Devices:
    """Devices of all clients, float64 [N] each.

    `down` and `up` are bytes per second to the client and from it, > 0; `examples_per_second` those that it trains on,
    > 0; `latency_seconds` are per request, >= 0; `availability` is the chance that it can be reached in a round, in (0,
    1]. `changes` say how fast they compute in each round; None = always as fast.
    """

    down: NDArray[np.float64]
    up: NDArray[np.float64]
    examples_per_second: NDArray[np.float64]
    latency_seconds: NDArray[np.float64]
    availability: NDArray[np.float64]
    changes: ChangingSpeeds | None = None

    def at(self, round: int) -> "Devices":
        """Return the devices as they are in a round; themselves where nothing changes."""
        if self.changes is None:
            return self
        factors = self.changes.factors(len(self.down), round)
        return replace(self, examples_per_second=self.examples_per_second * factors, changes=None)

    def timing(self, client: int, down: int, up: int, examples: float, waits: int = 0) -> Timing:
        """Return the seconds in which a client trains on `examples`, moves bytes down and up, and waits in between."""
        moving = down / float(self.down[client]) + up / float(self.up[client])
        training = examples / float(self.examples_per_second[client])
        return Timing(training, float(self.latency_seconds[client]) * (1 + waits) + moving)

    def seconds(self, down: ArrayLike, up: ArrayLike, examples: ArrayLike, waits: int = 0) -> NDArray[np.float64]:
        """Return the seconds of all clients, float64 [N]; arguments are [N], or one number for all."""
        moving = np.asarray(down) / self.down + np.asarray(up) / self.up
        training = np.asarray(examples, np.float64) / self.examples_per_second
        return training + (self.latency_seconds * (1 + waits) + moving)

    def reachable(self, wanted: NDArray[np.bool_], round: int, seed: int) -> NDArray[np.bool_]:
        """Return which of the `wanted` clients can be reached in a round, bool [N].

        The draw is repeated until one can, where any is wanted: a round begins when somebody is there.
        """
        if not wanted.any() or (self.availability >= 1).all():
            return wanted
        g = randomness.generator(seed, "availability", round)
        while True:
            there = np.asarray(wanted & (g.random(len(wanted)) < self.availability))
            if there.any():
                return there


def drawn(clients: int, seed: int, mbit: float, examples: float, latency: float, spread: float) -> Devices:
    """Return devices whose links and speeds are log-normal around medians; the links are as fast up as down."""
    g = randomness.generator(seed, "devices")
    link = mbit * BYTES_PER_MBIT * np.exp(spread * g.standard_normal(clients))
    speed = examples * np.exp(spread * g.standard_normal(clients))
    return Devices(link, link, speed, np.full(clients, latency), np.ones(clients))


def phones(clients: int, seed: int) -> Rows:
    """Return a table of phones, each of one of three kinds."""
    g = randomness.generator(seed, "devices")
    kinds = g.choice(len(PHONES), clients, p=[share for share, _ in PHONES])
    names = ("name", *REQUIRED, *OPTIONAL)
    return [dict(zip(names, PHONES[kind][1], strict=True)) for kind in kinds]


def edge_cloud(clients: int) -> Rows:
    """Return the eight devices of Liu et al. for eight clients; fewer are spread over them, more have them in turn."""
    known = len(EDGE_CLOUD)
    return [EDGE_CLOUD[number % known if clients >= known else number * known // clients] for number in range(clients)]


def of_rows(rows: Sequence[Mapping[str, Any]]) -> Devices:
    """Return the devices of a table that `checked` has let pass."""
    columns = {name: np.array([float(row[name]) for row in rows]) for name in (*REQUIRED, *OPTIONAL)}
    down, up = (columns[name] * BYTES_PER_MBIT for name in ("mbit_down", "mbit_up"))
    speed, latency, there = (columns[name] for name in ("examples_per_second", "latency_seconds", "availability"))
    return Devices(down, up, speed, latency, there)


def read(source: Given, parameter: str) -> Rows:
    """Read a table of devices, a row per client, from a file or a DataFrame; `parameter` names it in errors."""
    table = table_of(source, parameter)
    where = parameter if isinstance(source, pd.DataFrame) else str(source)
    rows = [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
    return checked(rows, where)


def checked(rows: Sequence[Mapping[str, Any]], where: str) -> Rows:
    """Return a table of devices with numbers in every column. Raises `InputError`, naming row, column and value."""
    require(len(rows) > 0, where, "at least one device, a row per client", len(rows))
    devices: Rows = []
    for number, row in enumerate(rows):
        for name in row:
            if name not in RULES and name != "name":
                raise unknown(f"column of {where}", name, ["name", *RULES])
        if lacking := [name for name in REQUIRED if name not in row]:
            raise InputError(f"{where}: the column {lacking[0]!r} is missing; {', '.join(REQUIRED)} are needed.")
        numbers = {name: _number(row.get(name, OPTIONAL.get(name)), name, number, where) for name in RULES}
        devices.append({"name": str(row.get("name", f"device {number + 1}")), **numbers})
    return devices


def _number(value: Any, name: str, row: int, where: str) -> float:
    allowed, fits = RULES[name]
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    require(bool(np.isfinite(number)) and fits(number), f"{where}, row {row + 1}: {name}", f"a number {allowed}", value)
    return number


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
            return drawn(
                clients, seed, self.mbit_per_second, self.examples_per_second, self.latency_seconds, self.spread
            )
        if self.devices == "phones":
            return of_rows(phones(clients, seed))
        if self.devices == "edge_cloud":
            return of_rows(edge_cloud(clients))
        rows: Any = self.devices
        if len(rows) != clients:
            what = f"a table of {len(rows)} devices"
            raise InputError(f"clock.devices must have a device for each of the {clients} clients; got {what}.")
        return of_rows(rows)

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


def _named_or_rows(devices: str | Path | list[dict[str, Any]] | pd.DataFrame) -> str | Rows:
    """Return a profile's name, or a table: what is read from a file is kept with the run."""
    if isinstance(devices, list):
        return checked(devices, "clock.devices")
    if isinstance(devices, pd.DataFrame | Path) or is_table(devices):
        return read(devices, "clock.devices")
    if devices not in PROFILES:
        raise unknown("profile of clock.devices", devices, PROFILES)
    return devices
