"""Everything a run is, between two rounds: one tree that a checkpoint holds and a resume starts from."""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_type_hints

import numpy as np

from fedgraft.errors import AllClientsFailedError
from fedgraft.wire.layouts import Array, Arrays, Tree

FAILURES = ("setup", "probe", "training", "scoring")
"""At what clients can fail."""
POINT: Final = {
    **dict.fromkeys(("round", "bytes"), "Q"),
    **dict.fromkeys(("seconds", "validation", "test"), "d"),
    **dict.fromkeys(("flops", "lacking"), "Q"),
    "simulated_seconds": "d",
}
"""{what a point of the curve holds: its type, as `array` names it}."""
AFTER_STEPS: Final = dict.fromkeys(("validation_after_steps", "test_after_steps"), "d")
"""The same of what each of its points holds as well where local steps are scored."""


@dataclass
class ClientsState:
    """What the server noted of its clients in training.

    Args:
        chosen: times each client was selected.
        cohort: the clients that trained last.
        failing: {client: reason} of those that failed when last asked to do anything but to score.
        failures: {one of `FAILURES`: how often clients failed at that}; those whose connection was down do not count.
        answered: how often clients have trained and answered.
        loss_scales: {name of a loss that clients report: the largest median over clients of any round so far}, written
            by the safeguards.
    """

    chosen: list[int] = field(default_factory=list)
    cohort: list[int] = field(default_factory=list)
    failing: dict[str, str] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FAILURES, 0))
    answered: int = 0
    loss_scales: dict[str, float] = field(default_factory=dict)


@dataclass
class ExchangeState:
    """What is on its way between the server and clients.

    Args:
        halos: {"nodes", "owner", "place"} of each client: how many nodes it has, and the addresses of those that it
            needs of others; empty where no rows travel.
        halo_store: halo rows by address, see `halo_store.State`; written by the halo exchange alone.
        broadcast: models on their way to the clients, see `Broadcast`, which alone writes it.
        sum_scales: "scales" of the next sum of updates, float32 [scales], written by `SecureSums` alone; or "length", a
            float64 to which updates are cut next, by `NoisedReplies`; {} before the first, and where nothing is added.
        in_flight: late answers on their way, see `Arrivals`, which alone writes it.
        boundaries: the fields of `CrossClientEdges`, where answers are smoothed after training; else {}.
    """

    halos: list[dict[str, Any]] = field(default_factory=list)
    halo_store: dict[str, Any] = field(default_factory=dict)
    broadcast: dict[str, Any] = field(default_factory=dict)
    sum_scales: Arrays = field(default_factory=dict)
    in_flight: list[dict[str, Any]] = field(default_factory=list)
    boundaries: dict[str, Array] = field(default_factory=dict)


@dataclass
class MergingState:
    """What merging updates leaves beside the sharing method's state.

    Args:
        server_optimizer: {group: the server optimiser's state of its model}; empty without one.
        averages: {group: running mean of its global models}; empty where models are not averaged.
        sampler_shared: arrays of the sampler that clients share, by the names that they travel by; {} for none.
        fewest: the fewest updates to one model that were merged at a time; 0 before any were.
    """

    server_optimizer: dict[str, Any] = field(default_factory=dict)
    averages: dict[str, Arrays] = field(default_factory=dict)
    sampler_shared: Arrays = field(default_factory=dict)
    fewest: int = 0


@dataclass
class RunState:
    """A run between two rounds; its parts are stored side by side.

    Args:
        profiles: what each client said of itself at the start: "examples" and more; empty for one that did not answer.
        sharing: the sharing method's state, which holds the global model.
        selector: the selector's state.
        round: rounds done; 0 after the set-up.
        clients: what the server noted of its clients in training.
        exchange: what is on its way between the server and clients.
        merging: what merging updates leaves beside the sharing method's state.
        sampler: the state of the sampler's half at the server; None before it learnt.
        losses: {split: [mean loss of the first model, that of the last scored]} where the task tells.
        flops: operations of all clients' products so far.
        bytes: the ledger's totals.
        seconds: measured seconds of training so far.
        simulated_seconds: of the simulated clock.
        scores: {client: {split: score}} of the last scoring.
        curve: one point per scored round: {"round", "bytes", "seconds", "validation", "test", "flops",
            "simulated_seconds"}; and "lacking", the number of clients that could not be scored, where there were any:
            then it has no score. Where local steps are scored also the scores of `AFTER_STEPS`, nan where a client's
            steps have failed.
        best: the best point by validation (the last one, while none has a score): {"round", "choice", "validation",
            "test", "sums": {split: sums}, "scores": {client: {split: score}}, "models": {group: parameters}}.
        best_after_steps: the same of the clients' models after local steps, without models; {} until there is one.
        finished: which limit ended the run; "" while it goes on.
        smoothed: {"choice", "before": {split: score}, "failed": {client: reason}} once they are, and "layer", what
            was fitted to them, where it was; written by
            `AfterTraining` alone.
    """

    profiles: list[dict[str, float]]
    sharing: Any
    selector: Any = None
    round: int = 0
    clients: ClientsState = field(default_factory=ClientsState)
    exchange: ExchangeState = field(default_factory=ExchangeState)
    merging: MergingState = field(default_factory=MergingState)
    sampler: Any = None
    losses: dict[str, list[float]] = field(default_factory=dict)
    flops: int = 0
    bytes: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    simulated_seconds: float = 0.0
    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    curve: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)
    best_after_steps: dict[str, Any] = field(default_factory=dict)
    finished: str = ""
    smoothed: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clients.chosen = self.clients.chosen or [0] * len(self.profiles)
        self._columns = _Columns()

    @property
    def merges(self) -> int:
        """int, how often the global model was merged."""
        merges: int = self.exchange.broadcast.get("version", 0)
        return merges

    @property
    def examples(self) -> list[int]:
        """Training examples per client; 0 for one that never answered."""
        return [int(profile.get("examples", 0)) for profile in self.profiles]

    @property
    def joined(self) -> list[int]:
        """The clients that answered at the start: those that the run is about."""
        return [client for client, profile in enumerate(self.profiles) if profile]

    @property
    def best_model(self) -> Arrays:
        """The shared parameters that did best on validation; of several groups, keyed "group/name"."""
        models = self.best["models"]
        if len(models) == 1:
            return dict(next(iter(models.values())))
        return {f"{group}/{name}": array for group, model in models.items() for name, array in model.items()}

    def kept_scores(self, personal: bool) -> dict[str, dict[str, float]]:
        """Return {client: {split: score}} of the models that the run keeps.

        That is the best by validation. Clients that have models of their own (`personal`) were scored with what they
        keep: the last scores are theirs, unless it lacks somebody.
        """
        last = self.curve[-1]
        if personal and "lacking" not in last:
            return self.scores
        return dict(self.best["scores"])

    def note_training(self, answered: Iterable[int], failed: Mapping[int, str], round: int) -> None:
        """Remember who answered a round, and whose last one failed.

        Raises `AllClientsFailedError` when that is everybody: there is nothing left to train.
        """
        answered = list(answered)
        self.clients.failures["training"] += len(failed)
        self.clients.answered += len(answered)
        for client in answered:
            self.clients.failing.pop(str(client), None)
        self.clients.failing.update({str(client): reason for client, reason in failed.items()})
        if answered:  # the usual case; what follows looks at all clients
            return
        able = {str(client) for client, examples in enumerate(self.examples) if examples}
        if able <= self.clients.failing.keys():
            raise AllClientsFailedError(round, {int(client): reason for client, reason in self.clients.failing.items()})

    def to_tree(self) -> dict[str, Tree]:
        """Return the state as a tree; the curve as columns, and its parts side by side."""
        own = {name: value for name, value in vars(self).items() if name in self.__dataclass_fields__}
        parts = {name: value for part in _PARTS for name, value in vars(own.pop(part)).items()}
        return {**own, **parts, "curve": {**self._columns.of(self.curve)}}

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> "RunState":
        """The inverse of `to_tree`."""
        own = {**tree, "curve": _points(tree["curve"])}
        parts = {name: part(**{each: own.pop(each) for each in get_type_hints(part)}) for name, part in _PARTS.items()}
        return cls(**own, **parts)


_PARTS: Final = {"clients": ClientsState, "exchange": ExchangeState, "merging": MergingState}


def types_stored() -> dict[str, Any]:
    """Return {name in a stored state: its type}."""
    own = {name: hint for name, hint in get_type_hints(RunState).items() if name not in _PARTS}
    parts = {name: hint for part in _PARTS.values() for name, hint in get_type_hints(part).items()}
    return {**own, **parts, "curve": dict[str, Array]}


class _Columns:
    """The columns of a curve. Each point becomes numbers once: a checkpoint costs what is new, however long the run."""

    def __init__(self) -> None:
        self._settled: dict[str, array[Any]] = {}

    def of(self, curve: list[dict[str, Any]]) -> dict[str, Array]:
        """{name: array [points]}; the last point may still change, those before it do not."""
        if not self._settled:
            self._settled = {name: array(code) for name, code in kinds_of(curve[0] if curve else {}).items()}
        done = len(self._settled["round"])
        for point in curve[done:-1]:
            for name, column in self._settled.items():
                column.append(point.get(name, 0))
        last = {name: [point.get(name, 0) for point in curve[-1:]] for name in self._settled}
        return {
            name: np.concatenate([np.array(column), np.array(last[name], column.typecode)])
            for name, column in self._settled.items()
        }


def kinds_of(point: Mapping[str, Any]) -> dict[str, str]:
    """Return {what a point of the curve, or its columns, hold: its type}, see `POINT` and `AFTER_STEPS`."""
    return POINT | {name: code for name, code in AFTER_STEPS.items() if name in point}


def _points(columns: Mapping[str, Array]) -> list[dict[str, Any]]:
    """The points of a curve's columns."""
    kinds = kinds_of(columns)
    rows = zip(*(columns[name].tolist() for name in kinds), strict=True)
    points = [dict(zip(kinds, row, strict=True)) for row in rows]
    for point in points:
        if not point["lacking"]:
            del point["lacking"]
    return points
