"""Ditto: FedAvg, and beside it a personal model at every client that is held near the global one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict, cast

from fedgraft.contracts import NonNegativeFloat, NonNegativeInt, PersonalSharing, Trainer
from fedgraft.methods.one_model import ModelState, OneModel
from fedgraft.nn.proximal import pull_towards
from fedgraft.wire.layouts import Arrays, Tree


class Memory(TypedDict):
    """A client's own: its personal model, v, and the private parameters of its copy of the global one, w."""

    personal: Arrays
    ends: Arrays


@dataclass(frozen=True)
class Ditto(OneModel, PersonalSharing[ModelState]):
    """Ditto: FedAvg, and beside it a personal model at every client that is held near the global one.

    A selected client first trains the global model, w, as in FedAvg and sends the difference. Then it goes on training
    its own model, v, with lambda / 2 ||v - w||^2 added to its loss, w being what it received. It is scored, and
    answers, with v, which never travels. With lambda = 0 every v is trained alone, with a large one it is w.

    Source: Li et al., "Ditto: Fair and Robust Federated Learning Through Personalization", ICML 2021, Algorithms 1 and
        2; the authors' code (litian96/ditto, flearn/trainers_MTL/ditto.py; read, not copied).
    Differs: v begins as the first global model that its client receives, and who has not trained yet answers with that.
        Updates are weighted by examples (the code draws clients in proportion to them and takes plain means). The two
        models see batches of their own; in the code they take steps in turn on the same. lambda is one number for
        everybody, where the paper's clients may choose among 0.1, 1 and 2 on their validation split. Parameters that a
        task never shares are no part of the term; v and w have each their own.

    Args:
        pull: lambda, >= 0; 1 (paper, where a client cannot choose). 0 trains every v alone.
        personal_epochs: epochs on v per round, >= 0; 0 = as many as on w, `training.epochs`.

    State:
        model: the global model's arrays.
    Memory:
        personal: v, laid out as the shared parameters; ends: w's own private parameters, if it has any.
    Needs: nothing.
    Cost: the model down and its difference up, per selected client, as in FedAvg; twice the computing.
    """

    pull: NonNegativeFloat = 1.0
    personal_epochs: NonNegativeInt = 0

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Train w, then v; upload the difference of w."""
        names = list(received)
        mine = {name: array for name, array in trainer.read().items() if name not in received}
        own = self._remembered(received, memory, mine)
        trainer.load({**received, **own["ends"]})
        trainer.run()
        update, ends = trainer.difference(received), trainer.read(list(mine)) if mine else {}
        trainer.load({**own["personal"], **mine})
        trainer.run(
            correct_gradient=pull_towards(received, self.pull) if self.pull else None,
            epochs=self.personal_epochs or None,
        )
        new: Memory = {"personal": trainer.read(names), "ends": ends}
        return update, cast(Tree, new)

    def runs(self, epochs: int) -> Sequence[int]:
        """Return those of w, then of v."""
        return (epochs, self.personal_epochs or epochs)

    def personalise(self, received: Arrays, memory: Tree) -> Arrays:
        """Return v; for a client that has not trained yet, the global model."""
        return self._remembered(received, memory, {})["personal"]

    def inherited(self, memory: Tree) -> Tree:
        """Return all of it: v goes on from where it was, near another w."""
        return memory

    def _remembered(self, received: Arrays, memory: Tree, mine: Arrays) -> Memory:
        return {"personal": received, "ends": mine} if memory is None else cast(Memory, memory)
