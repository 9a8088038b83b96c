"""Clients' devices: how fast they compute, their links, how often they are there; named profiles, or a user's own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from fedgraft.contracts import Timing, randomness
from fedgraft.errors import InputError, require, unknown
from fedgraft.tables.table_files import Given, table_of


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
