"""Everything a run is, between two rounds: one tree that a checkpoint holds and a resume starts from."""

from dataclasses import dataclass, field
from typing import Any

from fedgraft.wire.layouts import Tree


@dataclass
class RunState:
    """A run between two rounds.

    Args:
        profiles: what each client said of itself at the start: "examples" and more; empty for one that did not answer.
        sharing: the sharing method's state, which holds the global model.
        selector: the selector's state.
        round: rounds done; 0 after the set-up.
        halos: {"nodes", "owner", "place"} of each client: how many nodes it has, and the addresses of those that it
            needs of others; empty where no rows travel.
        mailbox: rows of nodes by address, see `halo_store.State`.
        sampler: the state of the sampler's half at the server.
        losses: {split: [mean loss of the first model, that of the last scored]} where the task tells.
        flops: operations of all clients' products so far.
        version: of the global model: how often it was merged.
        downlink: {group: the downlink codec's state}; "evaluate-" before a group for models sent to be scored.
        published: {group: {"version", "arrays"}}, the encoded models that may be sent again.
        held: {client: version of the model that it keeps}; absent for the first.
        bytes: the ledger's totals.
        seconds: measured seconds of training so far.
        simulated_seconds: of the simulated clock.
        chosen: times each client was selected.
        cohort: the clients that trained last.
        failing: {client: reason} of those that failed when last asked to do anything but to score.
        scores: {client: {split: score}} of the last scoring.
        curve: one point per scored round: {"round", "bytes", "seconds", "validation", "test", "flops"}.
        best: the best point by validation (the last one, while none has a score): {"round", "choice", "validation",
            "test", "sums": {split: sums}, "models": {group: parameters}}.
        finished: which limit ended the run; "" while it goes on.
    """

    profiles: list[dict[str, float]]
    sharing: Any
    selector: Any = None
    round: int = 0
    halos: list[dict[str, Any]] = field(default_factory=list)
    mailbox: dict[str, Any] = field(default_factory=dict)
    sampler: Any = None
    losses: dict[str, list[float]] = field(default_factory=dict)
    flops: int = 0
    version: int = 0
    downlink: dict[str, Any] = field(default_factory=dict)
    published: dict[str, Any] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    simulated_seconds: float = 0.0
    chosen: list[int] = field(default_factory=list)
    cohort: list[int] = field(default_factory=list)
    failing: dict[str, str] = field(default_factory=dict)
    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    curve: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)
    finished: str = ""

    def __post_init__(self) -> None:
        self.chosen = self.chosen or [0] * len(self.profiles)

    @property
    def examples(self) -> list[int]:
        """Training examples per client; 0 for one that never answered."""
        return [int(profile.get("examples", 0)) for profile in self.profiles]

    def to_tree(self) -> dict[str, Tree]:
        """As the wire carries it."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> "RunState":
        """The inverse of `to_tree`."""
        return cls(**tree)
