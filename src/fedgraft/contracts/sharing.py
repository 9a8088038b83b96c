"""Shared how? The contract of sharing methods, and thirteen abilities."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, Self

import numpy as np

from fedgraft.contracts.abilities.graph_network import GraphNetwork
from fedgraft.contracts.abilities.linear import Linear
from fedgraft.contracts.ranges import Checked
from fedgraft.contracts.values import State, Trainer, Update
from fedgraft.wire.layouts import Arrays, Layout, Tree


class Sharing(Checked, ABC, Generic[State]):
    """Say which parameters clients share, how a client trains, and how the server merges updates."""

    uploads_steps: ClassVar[bool] = True
    """Whether what clients upload are steps of a model. Other uploads are neither clipped nor weighed, no rule of
    aggregation has a part in them, and their sizes are not held against those of others."""
    merges_means: ClassVar[bool] = False
    """Whether merging depends on the weighted mean of uploads alone, so that they may be added up before."""

    def shares(self, name: str) -> bool:
        """Return whether the model's parameter `name` travels; one that does not stays in the client's memory."""
        return True

    def settles(self, name: str) -> bool:
        """Return whether the parameter `name`, which travels, may stay as it is from some round on.

        Clients then keep it, and are not sent it again as long as it is what they keep; an update of it that is zero is
        not sent either.
        """
        return False

    @abstractmethod
    def init(self, model: Arrays, clients: int) -> State:
        """Make the server's state from the first global model (shared parameters only) and the number of clients."""

    @abstractmethod
    def model(self, state: State, group: int = 0) -> Arrays:
        """Return what a group of clients is sent to train from: the shared parameters, and extensions if there are."""

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


class GroupedSharing(Sharing[State]):
    """Ability: keep several global models, each for a group of clients."""

    @abstractmethod
    def group(self, state: State, client: int) -> int:
        """Return which model the client gets; a group's clients get the same message, encoded once."""


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


class TrackingSharing(Sharing[State]):
    """Ability: know what clients make of a model behind a lossy codec."""

    @abstractmethod
    def broadcast(self, state: State, group: int, decoded: Arrays) -> State:
        """Return the state once `model` was encoded for a group; `decoded` is what its clients decode."""


class MovableSharing(Sharing[State]):
    """Ability: let a server optimiser say where a global model goes from where it was merged."""

    @abstractmethod
    def with_model(self, state: State, group: int, model: Arrays) -> State:
        """Return the state with other shared parameters, all of them, in a group's model. Never mutates `state`."""


class StagedSharing(Sharing[State]):
    """Ability: run the common loop several times in a round."""

    @abstractmethod
    def runs(self, epochs: int) -> Sequence[int]:
        """Return the epochs of each run in a round that collects, given the configured epochs."""


class ExtendedSharing(Sharing[State]):
    """Ability: send more arrays than the shared parameters, or others."""

    @abstractmethod
    def downloads(self, model: Layout) -> Layout:
        """Return the layout of `model`'s result, given that of the shared parameters."""

    @abstractmethod
    def uploads(self, model: Layout) -> Layout:
        """Return the layout of what `local_update` uploads, given that of the shared parameters."""


class PartsSharing(Sharing[State]):
    """Ability: need parts of the task's model that it only has when asked for."""

    @property
    @abstractmethod
    def parts(self) -> frozenset[str]:
        """Names of the parts, out of what the task `offers`."""


class HiddenSharing(Sharing[State]):
    """Ability: depend on the last hidden layer of the task's model, which must be an `ObservedTask`'s."""

    @abstractmethod
    def fitted(self, width: int, classes: int) -> Self:
        """Return this method for a hidden layer of this width, and so many classes that all clients have in common.

        Both are 0 as long as they are not known; `classes` also where each client has its own. Raises `InputError` if
        it cannot be.
        """


class StructuredSharing(HiddenSharing[State]):
    """Ability: depend on the last hidden layer over all of a client's nodes; the task must be a `StructuredTask`."""


class GraphSharing(Sharing[State]):
    """Ability: depend on clients' parts of a graph, and on what models make of all nodes, of a `LocalGraphTask`."""

    @abstractmethod
    def fitted(self, classes: int) -> Self:
        """Return this method for so many classes of nodes."""


class RefiningSharing(Sharing[State]):
    """Ability: train what was merged further, at the server and without data; needs a `GraphNetworkTask`."""

    @abstractmethod
    def refined(
        self, before: State, merged: State, updates: Sequence[Update], network: GraphNetwork, g: np.random.Generator
    ) -> State:
        """Return the state after `merge` with its models trained further. Mutates neither state.

        Args:
            before: that before the merge.
            merged: that after it.
            updates: what was merged, at least one.
            network: the task's.
            g: what is drawn from.
        """


class RespondingSharing(Sharing[State]):
    """Ability: compare models by what they make of data that are nobody's, which must be a `SyntheticTask`'s."""

    @abstractmethod
    def fitted(self, width: int) -> Self:
        """Return this method for responses of this width. Raises `InputError` if it cannot be."""


class LinearSharing(Sharing[State]):
    """Ability: solve for a linear model, a `LinearTask`'s, from sums over training examples.

    What clients upload is no step of the model.
    """

    uploads_steps: ClassVar[bool] = False

    @abstractmethod
    def fitted(self, linear: Linear) -> Self:
        """Return this method for a linear model. Raises `InputError` if it cannot be."""

    @abstractmethod
    def within(self, pays: Callable[[Layout], bool] | None) -> Self:
        """Return this method, once fitted, with uploads for which a byte budget `pays`; None = there is no budget."""
