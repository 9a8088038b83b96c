"""The six questions a federated run answers, each a contract; the loop knows these and no method.

    who trains?     Selector          what is sent?   Codec         to solve what?   Task
    on what?        Sampler           shared how?     Sharing       where?           Runtime

A method is a frozen dataclass of hyper-parameters. What it remembers is an explicit state (a tree the wire can carry)
that goes in and comes out; what it draws comes from the generator `g` it is handed. So checkpoints, resume and equal
runs on every runtime cost a method nothing. Contracts know nothing of each other: papers are joined by recipes.
What a task is fed with (data, encoders, yardsticks) has small contracts of its own in `providers`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.types import Array, Arrays, Layout, Tree

State = TypeVar("State")
"""What a method remembers between rounds: a tree the wire can carry, usually a TypedDict of arrays."""

Indices = NDArray[np.int64]
Sums = dict[str, float]
"""Mergeable sums of one split: adding two clients' sums key by key gives the sums of both together."""


@dataclass(frozen=True)
class View:
    """What the server knows when it chooses. Arrays are indexed by client.

    Args:
        round: the round about to start, counted from 1.
        samples: int64 [N], training examples.
        bytes_per_client: int64 [N], most bytes that selecting a client costs this round (down + up, headers and all).
        bytes_per_probe: int64 [N], most bytes that probing a client costs (down + up).
        seconds: float64 [N], expected simulated seconds of a client's round.
        available: bool [N], False for a client known to be unreachable this round.
        bytes_left: what the budget still pays for, after what the round costs whoever trains; None without a budget.
        bytes_budget: the whole budget; None without one.
        rounds: the planned number of rounds.
        better: whether a "lower" or a "higher" score is better.
        probed: what probed clients answered this round: {client: {"loss": ...}}.
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
    probed: Mapping[int, Mapping[str, float]] = field(default_factory=dict)

    @property
    def clients(self) -> int:
        """N, the number of clients."""
        return len(self.samples)


@dataclass(frozen=True)
class Probe:
    """Ask these clients for the current model's `needs` on their own data before choosing; the bytes are charged."""

    clients: tuple[int, ...]
    needs: frozenset[str] = frozenset({"loss"})


@dataclass(frozen=True)
class Selection:
    """The cohort: distinct client indices in ascending order.

    `weights` are aggregation weights in the same order (the loop normalises over those that answer); None means by
    training examples. An empty cohort ends the run: nothing affordable is left to do.
    """

    clients: tuple[int, ...]
    weights: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Outcome:
    """What a round brought, for the selector to learn from.

    Args:
        selected: the cohort, ascending.
        reports: {client: {name: value}} of those that answered, at least the names in the selector's `needs`.
        failed: {client: reason}.
        score: the task's score of the new global model on the selector's `score_split`; None if not evaluated.
        bytes: bytes of the round, all purposes, both directions.
        seconds: {client: simulated seconds of its round}.
        updates: {client: decoded upload}; empty unless `needs` holds "update".
    """

    selected: tuple[int, ...]
    reports: Mapping[int, Mapping[str, float]]
    failed: Mapping[int, str]
    score: float | None
    bytes: int
    seconds: Mapping[int, float]
    updates: Mapping[int, Arrays] = field(default_factory=dict)


class Selector(ABC, Generic[State]):
    """Who trains this round."""

    needs: ClassVar[frozenset[str]] = frozenset()
    """What replies must report: "loss" (mean sample loss), "loss_sq" (mean squared sample loss), any name in the task's
    `profile`, or "update" (the decoded upload)."""

    score_split: str = "validation"
    """The split whose score `update` sees. Anything but "validation" leaks, and a method must say so."""

    @abstractmethod
    def init(self, view: View) -> State:
        """State before the first round; `view.round` is 1."""

    def probe(self, state: State, view: View, g: np.random.Generator) -> Probe | None:
        """Whom to ask before choosing; None asks nobody."""
        return None

    @abstractmethod
    def select(self, state: State, view: View, g: np.random.Generator) -> Selection:
        """The cohort: available clients whose `bytes_per_client` sum to at most `bytes_left`. Never mutates `state`."""

    def update(self, state: State, view: View, outcome: Outcome) -> State:
        """State after the round. Never mutates `state`."""
        return state


@dataclass(frozen=True)
class Draw:
    """One local step: the examples whose loss is minimised, and their weights (None = plain mean)."""

    examples: Indices
    weights: NDArray[np.float32] | None = None


class Sampler(ABC, Generic[State]):
    """On which of its training examples a client trains."""

    @abstractmethod
    def init(self, examples: int) -> State:
        """State before a client's first round; None for a method that remembers nothing."""

    @abstractmethod
    def draw(self, state: State, block: Indices, g: np.random.Generator) -> Sequence[Draw]:
        """The local steps of one pass over `block`, examples that may share a step."""

    def update(self, state: State, draw: Draw, losses: NDArray[np.float32]) -> State:
        """State after a step whose per-example losses were `losses`. Never mutates `state`."""
        return state


class Codec(ABC, Generic[State]):
    """What is sent: arrays in, arrays out, so that codecs chain; float32 arrays are coded, others pass through."""

    @abstractmethod
    def init(self, layout: Layout) -> State:
        """State of one end before its first message, such as an error-feedback memory; None for none."""

    @abstractmethod
    def encoded(self, layout: Layout) -> Layout:
        """The layout of `encode`'s result; `VARIABLE` for dimensions that depend on the values."""

    @abstractmethod
    def encode(self, arrays: Arrays, state: State, g: np.random.Generator) -> tuple[Arrays, State]:
        """Arrays to send, and the sender's new state. Never mutates its inputs."""

    @abstractmethod
    def decode(self, arrays: Arrays, layout: Layout) -> Arrays:
        """Arrays of `layout`, as the receiver sees them. Raises `WireError` for what `encode` cannot have made."""


Penalty = Callable[[Mapping[str, torch.Tensor]], torch.Tensor]
"""A differentiable term that joins the loss, from the model's parameters by name."""
Correction = Callable[[Mapping[str, torch.Tensor], Mapping[str, torch.Tensor]], None]
"""Given parameters and gradients by name, changes the gradients in place before the optimiser sees them."""


class Trainer(Protocol):
    """A client's local training, as a sharing method may steer it: the common loop with two hooks.

    `penalty(parameters)` is added to every step's loss; `correct_gradient(parameters, gradients)` changes gradients in
    place. Names and shapes are those of the task's model.
    """

    steps: int

    def load(self, arrays: Arrays) -> None:
        """Overwrite the named parameters."""
        ...

    def read(self, names: Sequence[str] | None = None) -> Arrays:
        """Copies of the named parameters, all by default."""
        ...

    def run(self, penalty: Penalty | None = None, correct_gradient: Correction | None = None) -> None:
        """The configured number of local epochs."""
        ...


@dataclass(frozen=True)
class Update:
    """One client's accepted upload: decoded arrays, and its weight in the average (a cohort's weights sum to 1)."""

    client: int
    weight: float
    arrays: Arrays


class Sharing(ABC, Generic[State]):
    """What clients share and how it is merged. Groups of clients may have different models."""

    def shares(self, name: str) -> bool:
        """Whether the model's parameter `name` travels; what does not stays in the client's memory."""
        return True

    @abstractmethod
    def init(self, model: Arrays, clients: int) -> State:
        """Server state that holds the first global model (shared parameters only)."""

    def group(self, state: State, client: int) -> int:
        """Which model the client gets; clients of one group get the same message, encoded once."""
        return 0

    @abstractmethod
    def model(self, state: State, group: int = 0) -> Arrays:
        """The shared parameters that a group trains from."""

    def evaluated(self, state: State, group: int = 0) -> Arrays:
        """The shared parameters that a group is scored with and keeps in the end; the trained ones by default."""
        return self.model(state, group)

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """A client's round: train from `received`, return what to upload and what to remember.

        The default runs the common loop and uploads the update: trained minus received.
        """
        trainer.load(received)
        trainer.run()
        trained = trainer.read(list(received))
        return {name: trained[name] - received[name] for name in received}, memory

    def uploads(self, model: Layout) -> Layout:
        """The layout of what `local_update` returns, given that of the shared parameters; the same by default."""
        return model

    @abstractmethod
    def merge(self, state: State, updates: Sequence[Update]) -> State:
        """State after the accepted uploads, at least one, in ascending client order. Never mutates `state`."""


Shard = TypeVar("Shard")
"""One client's own data as the data set hands it over: plain NumPy values that can be sent to a worker process."""
Prepared = TypeVar("Prepared")


class Task(ABC, Generic[Shard, Prepared]):
    """What is learnt: from a client's own shard to a loss, a score and predictions."""

    metric: ClassVar[str]
    better: ClassVar[str]
    """"lower" or "higher"."""
    sums: ClassVar[tuple[str, ...]]
    """The keys of `evaluate`'s result, in the order in which they travel."""
    profile: ClassVar[frozenset[str]] = frozenset()
    """Names of scalars that `describe` can tell a selector about a client's data, such as "label_mean"."""

    @abstractmethod
    def prepare(self, shard: Shard, shared: Arrays) -> Prepared:
        """A client's own data, ready to train on: features, graphs, folds; `shared` is what `combine` sent it.

        Test examples appear in nothing that training sees.
        """

    @abstractmethod
    def examples(self, data: Prepared) -> int:
        """How many training examples the client has."""

    def describe(self, data: Prepared) -> dict[str, float]:
        """The scalars of `profile`; sent only if the selector needs them, and charged."""
        return {}

    def statistics_layout(self) -> Layout:
        """Layout of what clients publish once before training, charged as statistics; empty (the default) = nothing."""
        return Layout(())

    def statistics(self, shard: Shard) -> Arrays:
        """What a client publishes: arrays of `statistics_layout`."""
        return {}

    def check(self, statistics: Arrays) -> None:
        """Server: raise `WireError` for what no client can have published; it costs that client its part in the run."""

    def combined_layout(self) -> Layout:
        """Layout of what a client gets back."""
        return Layout(())

    def combine(self, statistics: Mapping[int, Arrays]) -> dict[int, Arrays]:
        """Server: from what clients published to what each of them gets back."""
        return {}

    @abstractmethod
    def merge(self, shards: Sequence[Shard]) -> Shard:
        """All shards as one, splits kept: what training in one place would see."""

    @abstractmethod
    def model(self, g: torch.Generator) -> torch.nn.Module:
        """A freshly drawn model; its layout is the same at every client."""

    def blocks(self, data: Prepared) -> Sequence[Indices]:
        """Training examples that may share a step; one block of all by default."""
        return [np.arange(self.examples(data), dtype=np.int64)]

    def encode(self, model: torch.nn.Module, data: Prepared, block: Indices) -> torch.Tensor | None:
        """What all draws of a block can share and is costly to compute, such as node embeddings; None for nothing.

        It is computed once per block. Every draw moves what comes after it; the last one also moves what made it, by
        the mean of all the draws' gradients.
        """
        return None

    @abstractmethod
    def loss(self, model: torch.nn.Module, data: Prepared, draw: Draw, encoded: torch.Tensor | None) -> torch.Tensor:
        """Per-example losses [n] of a draw that lies within one block, given what `encode` made of that block."""

    @abstractmethod
    def evaluate(self, model: torch.nn.Module, data: Prepared) -> dict[str, Sums]:
        """{"validation": sums, "test": sums}: mergeable, keyed as in `sums`."""

    @abstractmethod
    def score(self, sums: Sums) -> float:
        """The metric, from merged sums; nan where there was nothing to score."""

    @abstractmethod
    def route(self, shards: Sequence[Shard], queries: Mapping[str, Array]) -> Indices:
        """Which client answers each query, int64 [queries]. Raises `InputError` for columns that are missing."""

    @abstractmethod
    def predict(
        self, model: torch.nn.Module, shard: Shard, shared: Arrays, queries: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Columns of answers to a client's queries, from its own data (the training part where it is split)."""


@dataclass(frozen=True)
class ClientFailed:
    """What `exchange` returns for a client whose reply did not come or cannot be trusted."""

    reason: str
    bytes_up: int = 0


class Runtime(ABC):
    """Where clients live: in worker processes, in a simulator, on other machines. Use as a context manager."""

    @abstractmethod
    def clients(self) -> Sequence[int]:
        """Client indices, ascending from 0."""

    @abstractmethod
    def exchange(
        self, requests: Mapping[int, bytes], limits: Mapping[int, int], deadline_seconds: float | None
    ) -> dict[int, "bytes | ClientFailed"]:
        """Deliver one request to each client and collect the replies.

        Args:
            requests: {client: message}; equal messages may be one object.
            limits: {client: most bytes of its reply}; a longer reply fails that client.
            deadline_seconds: wall seconds to wait for each client; None waits for ever.
        """

    @abstractmethod
    def measure(self, requests: Mapping[int, bytes]) -> "dict[int, bytes | ClientFailed]":
        """The experimenter's own look at held-out data, outside the protocol: never charged, never remembered."""

    @abstractmethod
    def memories(self) -> Iterator[tuple[int, bytes]]:
        """Every client's memory that changed since the last call, for a checkpoint."""

    @abstractmethod
    def restore(self, memories: Mapping[int, bytes]) -> None:
        """Put memories of a checkpoint back."""

    @abstractmethod
    def close(self) -> None:
        """Let every resource go; safe to call twice."""
