"""Shared how? The contract of sharing methods, and four abilities."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, Self

import numpy as np

from fedgraft.contracts.abilities.graphs import GraphNetwork
from fedgraft.contracts.facts import FittedMethod
from fedgraft.contracts.values import State, Trainer, Update
from fedgraft.wire.layouts import Arrays, Layout, Tree


class Sharing(FittedMethod, ABC, Generic[State]):
    """Say which parameters clients share, how a client trains, and how the server merges updates."""

    uploads_steps: ClassVar[bool] = True
    """Whether what clients upload are steps of a model. Other uploads are neither clipped nor weighed, no rule of
    aggregation has a part in them, and their sizes are not held against those of others."""
    merges_means: ClassVar[bool] = False
    """Whether merging depends on the weighted mean of uploads alone, so that they may be added up before."""
    tracks: ClassVar[bool] = False
    """Whether it must know what clients decode of a model, behind a lossy codec: whether it has a `broadcast`."""

    def shares(self, name: str) -> bool:
        """Return whether the model's parameter `name` travels; one that does not stays in the client's memory."""
        return True

    def settles(self, name: str) -> bool:
        """Return whether the parameter `name`, which travels, may stay as it is from some round on.

        Clients then keep it, and are not sent it again as long as it is what they keep; an update of it that is zero is
        not sent either.
        """
        return False

    @property
    def parts(self) -> frozenset[str]:
        """Names of the parts of the task's model, out of what the task `offers`, which it only has when asked for."""
        return frozenset()

    def within(self, pays: Callable[[Layout], bool] | None) -> Self:
        """Return this method, once fitted, with uploads for which a byte budget `pays`; None = there is no budget."""
        return self

    def downloads(self, model: Layout) -> Layout:
        """Return the layout of `model`'s result, given that of the shared parameters."""
        return model

    def uploads(self, model: Layout) -> Layout:
        """Return the layout of what `local_update` uploads, given that of the shared parameters."""
        return model

    def runs(self, epochs: int) -> Sequence[int]:
        """Return the epochs of each run of the common loop in a round that collects, given the configured epochs."""
        return (epochs,)

    @abstractmethod
    def init(self, model: Arrays, clients: int) -> State:
        """Make the server's state from the first global model (shared parameters only) and the number of clients."""

    @abstractmethod
    def model(self, state: State, group: int = 0) -> Arrays:
        """Return what a group of clients is sent to train from: the shared parameters, and extensions if there are."""

    def group(self, state: State, client: int) -> int:
        """Return which global model a client gets; a group's clients get the same message, encoded once."""
        return 0

    def broadcast(self, state: State, group: int, decoded: Arrays) -> State:
        """Return the state once `model` was encoded for a group; `decoded` is what its clients decode."""
        return state

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Train a client for a round from `received`; return what to upload and what to remember.

        The default runs the common loop and uploads the update: trained minus received. What a silent round returns is
        not sent.
        """
        trainer.load(received)
        trainer.run()
        return trainer.difference(received), memory

    @abstractmethod
    def merge(self, state: State, updates: Sequence[Update]) -> State:
        """Return the state after the accepted uploads, at least one, ascending by client. Never mutates `state`."""

    def refined(
        self, before: State, merged: State, updates: Sequence[Update], network: GraphNetwork, g: np.random.Generator
    ) -> State:
        """Return the state after `merge` with its models trained further, at the server and without data.

        Called of a method that `needs` a `GraphNetworkTask`. Mutates neither state.

        Args:
            before: that before the merge.
            merged: that after it.
            updates: what was merged, at least one.
            network: the task's.
            g: what is drawn from.
        """
        return merged


class PersonalSharing(Sharing[State]):
    """Ability: leave clients with models of their own, even where all parameters travel."""

    def personalise(self, received: Arrays, memory: Tree) -> Arrays:
        """Return the shared parameters as a client uses them, given what it received and what it remembers."""
        return received

    def answering(self, left: Arrays, received: Arrays, memory: Tree) -> Arrays:
        """Return the shared parameters that a client answers with once its local steps are done, before any merge.

        `left` are those that training left in the model, which are the default, `received` those that it began with,
        and `memory` is what it then remembers.
        """
        return left

    def ensemble(self, received: Arrays, memory: Tree) -> Sequence[Arrays]:
        """Return further models that answer together with the client's own; none by default.

        Each is the parameters that differ from the client's own model. Needs the part "ensemble" of the task.
        """
        return ()

    def inherited(self, memory: Tree) -> Tree:
        """Return what a client remembers at the start of a run that begins with the model of one that has ended.

        `memory` is what it remembered at that one's end. None, the default, is nothing.
        """
        return None


class SilentSharing(Sharing[State]):
    """Ability: have rounds in which nothing is sent to the server.

    Clients keep the model that they were sent. So only those who lack the newest are sent one. The first, which the
    seed draws alike at both ends, is sent to nobody. Clients are scored with the model that they keep.
    """

    @abstractmethod
    def collects(self, state: State, round: int, g: np.random.Generator) -> bool:
        """Return whether this round's updates are sent to the server.

        In a round that does not collect, the last cohort trains on by itself. Nothing is sent but a new model to those
        who lack it.
        """


class MovableSharing(Sharing[State]):
    """Ability: let a server optimiser say where a global model goes from where it was merged."""

    @abstractmethod
    def with_model(self, state: State, group: int, model: Arrays) -> State:
        """Return the state with other shared parameters, all of them, in a group's model. Never mutates `state`."""
