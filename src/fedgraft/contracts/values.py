"""The values that contracts exchange in a round: what a selector sees, a sampler draws, a trainer offers.

They are data without behaviour of their own.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.contracts.structure import WHOLE, Augmentation, LocalGraph, Structure, StructurePenalty
from fedgraft.errors import require, require_one_of
from fedgraft.wire.layouts import Arrays

State = TypeVar("State")
"""What a method remembers between rounds: a tree that the wire can carry, usually a TypedDict of arrays."""
Indices = NDArray[np.int64]
SPLITS = ("train", "validation", "test")
"""Names of the parts of a client's examples; a shard numbers them 0, 1, 2."""
SCORED_SPLITS = SPLITS[1:]
"""Names of the parts that a model is scored on."""
Sums = dict[str, float]
"""Sums of one split, by name: adding two clients' sums key by key gives the sums of both together."""


@dataclass(frozen=True)
class View:
    """The server's knowledge before it chooses. Arrays are indexed by client.

    Args:
        round: the round about to start, counted from 1.
        samples: int64 [N], training examples.
        bytes_per_client: int64 [N], most bytes that selecting a client costs this round (down + up, headers and all).
        bytes_per_probe: int64 [N], most bytes that probing a client costs, whatever it is asked (down + up).
        seconds: float64 [N], most simulated seconds that a client's round is expected to take.
        available: bool [N], False for a client known to be unreachable this round, or still at work for an earlier one.
        bytes_left: what the budget still pays for, after what the round costs whoever trains; None without a budget.
        bytes_budget: the whole budget; None without one.
        rounds: the planned number of rounds.
        better: whether a "lower" or a "higher" score is better.
        epochs: passes that a client makes over its examples in a round.
        losses: {split: (mean loss of the first global model, that of the last that was scored)} where the task tells.
        score: the last score of the global model on the selector's `score_split`; None before the first.
        deadline: simulated seconds after which the server need not wait for a client, > 0; inf = it waits for all.
        probed: what probed clients answered this round: {client: {"loss": ...}}.
        seed: of the run, for what a selector draws outside of `select`, such as an agent's first weights.
    """

    round: int
    samples: Indices
    bytes_per_client: Indices
    bytes_per_probe: Indices
    seconds: NDArray[np.float64]
    available: NDArray[np.bool_]
    bytes_left: int | None = None
    bytes_budget: int | None = None
    rounds: int = 1
    better: str = "lower"
    epochs: int = 1
    losses: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    score: float | None = None
    deadline: float = math.inf
    probed: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    seed: int = 0

    @property
    def clients(self) -> int:
        """N, the number of clients."""
        return len(self.samples)


@dataclass(frozen=True)
class Probe:
    """The clients to ask for losses on their own data before choosing; the bytes are charged.

    `View.probed` then holds "loss" and "loss_sq" of each that answered, means over examples, and "seconds" that this
    took by the simulated clock.

    Args:
        clients: distinct, ascending.
        kind: "loss": of the current model. "train": of the steps that a client tries, from the current model with its
            sampler and without its sharing method. It keeps nothing of them: who is then selected trains from the
            model anew, with the same draws of its sampler. The simulated clock charges the time of `epochs` epochs.
        epochs: that are tried, >= 1; 1 for "loss".
    """

    clients: tuple[int, ...]
    kind: Literal["loss", "train"] = "loss"
    epochs: int = 1

    def __post_init__(self) -> None:
        require_one_of("Probe.kind", self.kind, ("loss", "train"))
        allowed = "1, as nobody trains" if self.kind == "loss" else ">= 1"
        require(self.epochs == 1 or (self.kind == "train" and self.epochs > 1), "Probe.epochs", allowed, self.epochs)


@dataclass(frozen=True)
class Selection:
    """The cohort: distinct client indices in ascending order.

    `weights` are aggregation weights in the same order (the loop normalises over those that answer); None means by
    training examples. An empty cohort that a selector returns ends the run: nothing affordable is left to do.
    """

    clients: tuple[int, ...]
    weights: tuple[float, ...] | None = None


class Timing(NamedTuple):
    """Simulated seconds of a client's round, >= 0.

    Args:
        training: that it computes.
        communication: that its messages are on the way, latency included.
    """

    training: float
    communication: float

    @property
    def total(self) -> float:
        """float, seconds from the order to train to the answer."""
        return self.training + self.communication


@dataclass(frozen=True)
class Outcome:
    """Results of a round, for the selector to learn from.

    A late client is heard of twice: in the round that selected it as `late`, and in the round in which its answer
    arrives, where it is among `reports` and not among `selected`. A round in which the server does nothing but wait for
    such answers has nobody selected.

    Args:
        selected: the cohort, ascending; it may be empty.
        reports: {client: {name: value}} of those whose answers arrived, at least the names in the selector's `reports`.
        failed: {client: reason}.
        score: the task's score of the new global model on the selector's `score_split`; None if not evaluated.
        bytes: bytes of the round, all purposes, both directions.
        timings: {client: seconds of its round}, of those whose answers arrived or who failed.
        updates: {client: decoded upload}; empty unless `reports` holds "update".
        guidance: {client: {name: scalar that its sampler was sent with the order to train}}.
        late: those of the cohort that did not answer before the deadline; those dropped are in `failed`, too.
        staleness: {client: rounds by which its answer is late}, >= 1, of late answers that arrived.
    """

    selected: tuple[int, ...]
    reports: Mapping[int, Mapping[str, float]]
    failed: Mapping[int, str]
    score: float | None
    bytes: int
    timings: Mapping[int, Timing]
    updates: Mapping[int, Arrays] = field(default_factory=dict)
    guidance: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    late: tuple[int, ...] = ()
    staleness: Mapping[int, int] = field(default_factory=dict)

    @property
    def seconds(self) -> dict[int, float]:
        """{client: simulated seconds of its round}, as `timings`."""
        return {client: timing.total for client, timing in self.timings.items()}


@dataclass(frozen=True)
class Stage:
    """The point of a client's round at which a sampler draws.

    Args:
        epoch: the pass about to be made over the examples, counted from 0.
        guidance: {name: scalar that the sampler's half at the server sent}.
    """

    epoch: int = 0
    guidance: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Batch:
    """One local step of a client: its examples and their weights.

    Args:
        examples: int64 [n], whose loss is minimised.
        weights: float32 [n]; None = plain mean.
        refresh: whether the client asks for other clients' rows anew before the step.
        neighbours: most neighbours of a node that take part, per layer, first layer first; empty = as the task says.
        seed: of the task's own randomness in this step; 0 = the trainer draws one.
        ahead: int64, examples whose rows are asked for with `refresh`; None = this step's.
    """

    examples: Indices
    weights: NDArray[np.float32] | None = None
    refresh: bool = False
    neighbours: tuple[int, ...] = ()
    seed: int = 0
    ahead: Indices | None = None


class Halo(NamedTuple):
    """Addresses of the nodes that a client needs and others own.

    Args:
        owner: int64 [halo], a client.
        place: int64 [halo], which of the owner's nodes.
    """

    owner: Indices
    place: Indices


class HaloRows(NamedTuple):
    """Hidden states of some nodes in one layer: of a client's own nodes, or of its halo.

    Args:
        slot: int64 [rows], numbers of the nodes among its own or in its halo, ascending.
        rows: float32 [rows, width].
    """

    slot: Indices
    rows: NDArray[np.float32]


class Losses(NamedTuple):
    """Losses of a step's examples, and what else a step's objective may be made of.

    Args:
        each: float [examples], the examples' own losses: what weights weigh, and what samplers and reports see.
        shared: float scalar, added to the objective once, unweighted, such as a regulariser over the batch; None for
            nothing.
        hidden: float [examples, width], the last hidden layer over the examples, for penalties on it; None where the
            task does not tell.
    """

    each: torch.Tensor
    shared: torch.Tensor | None = None
    hidden: torch.Tensor | None = None


class Observations(NamedTuple):
    """What a model makes of all training examples of a client, and what is known of them without it.

    Args:
        losses: float32 [examples].
        probabilities: float32 [examples, classes].
        hidden: float32 [examples, width], the last hidden layer.
        correct: bool [examples], whether the likeliest class is the example's own.
        centrality: float32 [examples], how central each example is in the client's data, >= 0; it does not change.
        labels: int64 [examples], the example's own class, which column of `probabilities`; it does not change.
    """

    losses: NDArray[np.float32]
    probabilities: NDArray[np.float32]
    hidden: NDArray[np.float32]
    correct: NDArray[np.bool_]
    centrality: NDArray[np.float32]
    labels: Indices


HiddenPenalty = Callable[[torch.Tensor, Indices], torch.Tensor]
"""A differentiable term that joins the loss, from the last hidden layer over a step's examples, [examples, width], and
which they are: int64 [examples], rows of `Observations`."""
Penalty = Callable[[Mapping[str, torch.Tensor]], torch.Tensor]
"""A differentiable term that joins the loss, from the model's parameters by name."""
Correction = Callable[[Mapping[str, torch.Tensor], Mapping[str, torch.Tensor]], None]
"""Given parameters and gradients by name, changes the gradients in place before the optimiser sees them."""
Projection = Callable[[Mapping[str, torch.Tensor]], None]
"""Given parameters by name, changes them in place after a step."""


@dataclass(frozen=True, eq=False)
class Regression:
    """Training examples as a linear model sees them.

    Args:
        inputs: float32 [examples, features].
        targets: float32 [examples, outputs]; of classes 1 for the example's own and 0 for others.
        weights: float32 [examples], >= 0, how often each counts.
    """

    inputs: NDArray[np.float32]
    targets: NDArray[np.float32]
    weights: NDArray[np.float32]


class Trainer(Protocol):
    """A client's local training, as a sharing method may steer it: the common loop with five hooks.

    `penalty(parameters)`, `hidden_penalty(hidden, examples)` and a `structure_penalty` are added to every step's loss;
    `correct_gradient(parameters, gradients)` changes gradients in place; `project(parameters)` changes parameters in
    place after a step. Names and shapes are those of the task's model. `client` is the client's index, `steps` counts
    all steps so far, `learning_rate` is that of this round, and `collects` tells whether what the round makes is sent
    to the server.
    """

    client: int
    steps: int
    learning_rate: float
    collects: bool

    def load(self, arrays: Arrays) -> None:
        """Overwrite the named parameters with arrays."""

    def read(self, names: Sequence[str] | None = None) -> Arrays:
        """Copies of the named parameters, all by default."""

    def difference(self, start: Arrays) -> Arrays:
        """The named parameters as they are, less what is given for each."""

    def run(
        self,
        penalty: Penalty | None = None,
        correct_gradient: Correction | None = None,
        project: Projection | None = None,
        epochs: int | None = None,
        frozen: Collection[str] = (),
        hidden_penalty: HiddenPenalty | None = None,
        structure_penalty: StructurePenalty | None = None,
    ) -> None:
        """So many local epochs, by default the configured number.

        An optimiser starts afresh or, with `training.keep_moments`, where this run of the client's last round left it.
        Parameters that are `frozen`, by name, stay as they are: they get no gradient, and no step is spent on them.
        """

    def observe(self) -> Observations:
        """What the model makes of all training examples now; only where the task is an `ObservedTask`."""

    def structure(self, left_out: Augmentation = WHOLE) -> Structure:
        """What the model makes of all nodes now, and their edges; only where the task is a `StructuredTask`.

        It looks at the graph less what is left out of it, in one round always the same.
        """

    def local_graph(self) -> LocalGraph:
        """A client's part of a graph, and what the model makes of it now; only where the task is a `LocalGraphTask`."""

    def respond(self) -> NDArray[np.float32]:
        """What the model makes of data that are nobody's now, the same for all clients: float32 [response width].

        Only where the task is a `SyntheticTask`.
        """

    def regression(self) -> Iterator[Regression]:
        """All training examples as a linear model sees them, in parts; only where the task has a `linear` model.

        The loss that the round tells is that of the model as it is when this is first asked for.
        """


@dataclass(frozen=True)
class Update:
    """One client's accepted upload.

    Args:
        client: its index.
        weight: in the average, >= 0; the weights of a round's updates sum to 1, stale ones are discounted already; to
            less where all are stale.
        arrays: decoded.
        staleness: rounds since the one that ordered it, >= 0; 0 = of this round.
    """

    client: int
    weight: float
    arrays: Arrays
    staleness: int = 0


@dataclass(frozen=True)
class Questions:
    """Questions to one client's model.

    Args:
        rows: int64 [answers], the row of the table of questions that each answer is for, counted from 0.
        asked: the questions, as the task's `predict` takes them.
    """

    rows: Indices
    asked: Any


@dataclass(frozen=True)
class ClientFailed:
    """The answer of `exchange` for a client whose reply did not come, or cannot be trusted."""

    reason: str
    bytes_up: int = 0
