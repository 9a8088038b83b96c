"""The six questions a federated run answers, each a contract; the loop knows these and no method.

    who trains?     Selector          what is sent?   Codec         to solve what?   Task
    on what?        Sampler           shared how?     Sharing       where?           Runtime

A method is a frozen dataclass of hyper-parameters. What it remembers is an explicit state (a tree) that goes in and
comes out; what it draws comes from the generator `g` it is handed. So checkpoints, resume and equal runs on every
runtime cost a method nothing. Contracts know nothing of each other: papers are joined by recipes. `providers` has more.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.contracts.task_parts import Answering, Prepared, Publishing, Scoring, Shard, Stepping, Telling
from fedgraft.contracts.values import (
    ClientFailed,
    Correction,
    Draw,
    Halo,
    Indices,
    Mail,
    Outcome,
    Penalty,
    Probe,
    Projection,
    Questions,
    Selection,
    Stage,
    Sums,
    Trainer,
    Update,
    View,
)
from fedgraft.wire.layouts import Array, Arrays, Layout, Tree

__all__ = [
    "ClientFailed",
    "Codec",
    "Correction",
    "Draw",
    "Halo",
    "Indices",
    "Mail",
    "Outcome",
    "Penalty",
    "Prepared",
    "Probe",
    "Projection",
    "Questions",
    "Runtime",
    "Sampler",
    "Selection",
    "Selector",
    "Shard",
    "Sharing",
    "Stage",
    "State",
    "Sums",
    "Task",
    "Trainer",
    "Update",
    "View",
]

State = TypeVar("State")
"""What a method remembers between rounds: a tree the wire can carry, usually a TypedDict of arrays."""


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


class Sampler(ABC, Generic[State]):
    """On which of its training examples a client trains."""

    tells: ClassVar[tuple[str, ...]] = ()
    """Names of the scalars that the server tells each client that is to train; see `tell`."""
    observes: ClassVar[bool] = False
    """Whether a round begins with a look at the losses of all training examples; see `observe`."""
    needs: ClassVar[frozenset[str]] = frozenset()
    """What `learn` is to be given beside reports: "update" (the decoded uploads), or nothing."""
    chancy: ClassVar[bool] = True
    """Whether `draw` takes numbers from its generator."""

    def fitted(self, layers: int) -> Self:
        """This sampler for a task that draws neighbours in so many `layers`. Raises `InputError` if it cannot be."""
        return self

    def refreshes(self, epochs: int) -> int:
        """The most draws of a round of so many epochs that ask to `refresh` what other clients told."""
        return 0

    @abstractmethod
    def init(self, examples: int) -> State:
        """State before a client's first round; None for a method that remembers nothing."""

    def observe(self, state: State, losses: NDArray[np.float32]) -> State:
        """State after a look at all training examples under the received model. Never mutates `state`."""
        return state

    @abstractmethod
    def draw(self, state: State, block: Indices, stage: Stage, g: np.random.Generator) -> Sequence[Draw]:
        """The local steps of one pass over `block`, examples that may share a step."""

    def update(self, state: State, draw: Draw, losses: NDArray[np.float32]) -> State:
        """State after a step whose per-example losses were `losses`. Never mutates `state`."""
        return state

    def begin(self, view: View) -> Tree:
        """State of the sampler's other half, at the server, before the first round; None for nothing."""
        return None

    def tell(
        self, state: Tree, view: View, cohort: Sequence[int], g: np.random.Generator
    ) -> Mapping[int, Mapping[str, float]]:
        """Server: {client: {name: scalar}} for a cohort, with every name in `tells`. Never mutates `state`."""
        return {}

    def learn(self, state: Tree, view: View, outcome: Outcome, g: np.random.Generator) -> Tree:
        """Server: state after a round, given what it brought; its score is validation's. Never mutates `state`."""
        return state


class Codec(ABC, Generic[State]):
    """What is sent: arrays in, arrays out, so that codecs chain; float32 arrays are coded, others pass through."""

    chancy: ClassVar[bool] = True
    """Whether `encode` takes numbers from its generator."""

    @abstractmethod
    def init(self, layout: Layout) -> State:
        """State of one end before its first message, such as an error-feedback memory; None for none."""

    @abstractmethod
    def encoded(self, layout: Layout) -> Layout:
        """The layout of `encode`'s result; `VARIABLE` for dimensions that depend on the values."""

    def bounds(self, layout: Layout, largest: Layout) -> Layout:
        """`encoded(layout)` with the largest possible number in place of each `VARIABLE`: what a budget must allow for.

        `largest` is `layout` with the largest possible number in place of each of its own.
        """
        return self.encoded(largest)

    @abstractmethod
    def encode(self, arrays: Arrays, state: State, g: np.random.Generator) -> tuple[Arrays, State]:
        """Arrays to send, and the sender's new state. Never mutates its inputs."""

    @abstractmethod
    def decode(self, arrays: Arrays, layout: Layout) -> Arrays:
        """Arrays of `layout`, as the receiver sees them. Raises `WireError` for what `encode` cannot have made."""


class Sharing(ABC, Generic[State]):
    """What clients share and how it is merged. Groups of clients may have different models."""

    personal: ClassVar[bool] = False
    """Whether clients use models of their own even where all parameters travel (see `personalise`)."""
    holds: ClassVar[bool] = False
    """Whether clients keep the model that they were sent, so that only those who lack the newest are sent one; the
    first, which the seed draws alike at both ends, is sent to nobody. They are scored with what they hold."""
    alone: ClassVar[bool] = False
    """Whether clients never hear of each other: no message is sent at all."""

    @property
    def needs(self) -> frozenset[str]:
        """Parts that the task's model must have, or abilities of the task, out of what the task `offers`."""
        return frozenset()

    def shares(self, name: str) -> bool:
        """Whether the model's parameter `name` travels; what does not stays in the client's memory."""
        return True

    def runs(self, epochs: int) -> Sequence[int]:
        """The epochs of each run of the common loop in a round that collects; one of the configured by default."""
        return (epochs,)

    @abstractmethod
    def init(self, model: Arrays, clients: int) -> State:
        """Server state that holds the first global model (shared parameters only)."""

    def collects(self, state: State, round: int, g: np.random.Generator) -> bool:
        """Whether this round's updates are sent to the server.

        In a round that does not collect, the last cohort trains on by itself and nothing is sent but a new model to
        those who lack it; only for methods that `holds`.
        """
        return True

    def group(self, state: State, client: int) -> int:
        """Which model the client gets; clients of one group get the same message, encoded once."""
        return 0

    @abstractmethod
    def model(self, state: State, group: int = 0) -> Arrays:
        """What a group is sent to train from: the shared parameters, and whatever else `downloads` tells."""

    def sent(self, state: State, group: int, decoded: Arrays) -> State:
        """State once `model` has been encoded for a group; `decoded` is what its clients make of it."""
        return state

    def evaluated(self, state: State, group: int = 0) -> Arrays:
        """The shared parameters that a group is scored with and keeps in the end; those of `model` by default."""
        return self.model(state, group)

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """A client's round: train from `received`, return what to upload and what to remember.

        The default runs the common loop and uploads the update: trained minus received. What is returned in a round
        that does not collect is dropped.
        """
        trainer.load(received)
        trainer.run()
        return trainer.difference(received), memory

    def personalise(self, received: Arrays, memory: Tree) -> Arrays:
        """The shared parameters as a client itself uses them, given what it was sent and what it remembers."""
        return received

    def others(self, received: Arrays, memory: Tree) -> Sequence[Arrays]:
        """Further models of a client that answer together with its own, none by default.

        Each is told by the parameters that differ from its own model's, personal ones included; needs "together".
        """
        return ()

    def downloads(self, model: Layout) -> Layout:
        """The layout of `model`'s result, given that of the shared parameters; the same by default."""
        return model

    def uploads(self, model: Layout) -> Layout:
        """The layout of what `local_update` returns, given that of the shared parameters; the same by default."""
        return model

    @abstractmethod
    def merge(self, state: State, updates: Sequence[Update]) -> State:
        """State after the accepted uploads, at least one, in ascending client order. Never mutates `state`."""


class Task(
    Publishing[Shard],
    Telling[Prepared],
    Stepping[Prepared],
    Scoring[Prepared],
    Answering[Shard, Prepared],
    Generic[Shard, Prepared],
):
    """What is learnt: from a client's own shard to a loss, a score and predictions."""

    profile: ClassVar[frozenset[str]] = frozenset()
    """Names of scalars that `describe` can tell a selector about a client's data, such as "label_mean"."""
    offers: ClassVar[frozenset[str]] = frozenset()
    """Parts that its model can have for a sharing method that needs them; `having` puts them in. "head": the weights
    of its last linear layer are `head.outer.weight` [classes, width]; "structure": parameters `structure.*`;
    "generator": parameters `generator.*` and a buffer `generator.frozen`, 1 once they no longer learn; and "together":
    several models can answer as one."""

    def fitted(self, shards: Sequence[Shard]) -> Self:
        """This task with what its model must know of the data, such as the number of features, as options."""
        return self

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

    @abstractmethod
    def merge(self, shards: Sequence[Shard]) -> Shard:
        """All shards as one, splits kept: what training in one place would see."""

    def apart(self, shard: Shard) -> Shard:
        """What a client has without any other: its shard, without what joins it to others'; the shard by default."""
        return shard

    def having(self, parts: frozenset[str]) -> Self:
        """This task with these parts of `offers` in its model."""
        return self

    def personal(self, name: str) -> bool:
        """Whether the parameter `name` never travels, because its shape depends on the client."""
        return False

    def variant(self, data: Prepared) -> Hashable:
        """What the shapes of a client's personal parameters depend on."""
        return None

    @abstractmethod
    def model(self, g: torch.Generator, variant: Hashable = None) -> torch.nn.Module:
        """A freshly drawn model for clients of a `variant`; all others than `personal` parameters are laid out alike.

        Without a variant any will do: the server looks at what is shared and at nothing else.
        """

    def blocks(self, data: Prepared) -> Sequence[Indices]:
        """Training examples that may share a step; one block of all by default."""
        return [np.arange(self.examples(data), dtype=np.int64)]

    def look(self, model: torch.nn.Module, data: Prepared, chance: int, wanted: bool = True) -> Array:
        """Losses of all training examples, float32 [examples], without a step; notes states of all nodes, if any.

        Where nobody has `wanted` losses, it may do no more than it notes, and give none.
        """
        losses = np.empty(self.examples(data), np.float32)
        for block in self.blocks(data):
            found = self.loss(model, data, Draw(block, chance=chance), self.encode(model, data, block))
            losses[block] = found.detach().cpu().numpy()
        return losses

    @abstractmethod
    def loss(self, model: torch.nn.Module, data: Prepared, draw: Draw, encoded: torch.Tensor | None) -> torch.Tensor:
        """Per-example losses [n] of a draw that lies within one block, given what `encode` made of that block."""


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
    def measure(self, requests: Mapping[int, bytes], models: Mapping[int, bytes]) -> "dict[int, bytes | ClientFailed]":
        """The experimenter's own doings outside the protocol, such as a look at held-out data: never charged.

        Args:
            requests: {client: message}.
            models: {client: a message with the model to be scored}; equal ones may be one object, which is then handed
                over once.
        """

    def flops(self) -> dict[int, int]:
        """{client: operations of its products since this was last asked}: the experimenter's own count, never sent."""
        return {}

    @abstractmethod
    def memories(self, changed: bool = True) -> Iterator[tuple[int, bytes]]:
        """Clients' memories: those that changed since the last such call, for a checkpoint, or all.

        The request that client k was sent before training and that it keeps as it came is that of ~k.
        """

    @abstractmethod
    def restore(self, memories: Mapping[int, bytes]) -> None:
        """Put memories of a checkpoint back."""

    @abstractmethod
    def close(self) -> None:
        """Let every resource go; safe to call twice."""
