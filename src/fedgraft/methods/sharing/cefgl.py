"""CEFGL: a shared model, merged now and then, and a sparse private one on top of it at every client."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypedDict, cast

import numpy as np
import torch
from torch import Tensor

from fedgraft.contracts import (
    PersonalSharing,
    SilentSharing,
    Trainer,
)
from fedgraft.contracts.ranges import NonNegativeFloat, NonNegativeInt, OneOf, Proportion
from fedgraft.methods.one_model import ModelState, OneModel
from fedgraft.wire.layouts import Arrays, Tree, digest

CHANNELS = ("both", "global", "private")
ANSWERS = ("hybrid", "both")
CORRECTIONS = ("mean", "paper", "none")


class Memory(TypedDict):
    """A client's own: W and its correction h, S, Theta as the client has it, and which Theta it was sent last."""

    local: Arrays
    correction: Arrays
    private: Arrays
    shared: Arrays
    ends: Arrays
    base: str


@dataclass(frozen=True)
class CEFGL(
    OneModel,
    PersonalSharing[ModelState],
    SilentSharing[ModelState],
):
    """CEFGL: a shared model, merged now and then, and a sparse private one on top of it at every client.

    Every client uses Theta + S: Theta shared, S its own and sparse. In each round it trains a local W, which is held
    near Theta, and then S on top of Theta. In a round in which the server's coin falls on `probability`, it sends W,
    corrected by h, and Theta becomes the mean; in any other nothing is sent, and the client goes on with Theta = W.

    Source: CEFGL (Communication-Efficient Personalized Federal Graph Learning via Low-Rank Decomposition), Algorithm 1,
        Eq. (4)-(9), section 5.1. Low rank and quantisation, Eq. (5) and (9)-(11), are codecs of the recipe: what the
        server goes on with is what its clients decode.
    Differs: one upload of W - rate h - Theta in place of W and h, since the server needs no more, half the bytes, and a
        difference loses less to few bits than a model does. Eq. (6)'s norm is the gradient of alpha / 2 ||.||^2. Eq.
        (7) divides by the number of steps as well ("mean"), without which h diverges after more than one. S is made
        sparse once a round, behind its last step, unless `each_step`: Adam's first steps are equally long in all
        directions, which a threshold of their length makes noise of. nu (0.5) comes with lambda (1e-3) in Eq. (4), and
        `shrinkage` is their product.

    Args:
        probability: of a round in which clients send, p, in [0, 1] (paper: 0.5).
        longest: after so many rounds clients send whatever the coin says, every time, >= 0; 0 = the coin alone (paper).
        pull: alpha, strength of what holds W near Theta, >= 0 (paper: 0.6).
        correction: "mean" or "paper" (Eq. (7) with and without the number of steps), or "none", h = 0.
        private_epochs: F, epochs on S per round, >= 0 (ours: as many as the paper's figures suggest).
        shrinkage: nu, of S towards zero, >= 0 (paper: 0.5 times 1e-3).
        threshold: entries of S below it become zero, >= 0 (paper: 1e-3); 0 with `density`.
        density: in place of `threshold`, share of entries of S that stay, the largest, in [0, 1]; 0 = by threshold.
        each_step: whether S is made sparse after every step (Eq. (8)) or once a round.
        restart: whether W starts from each new Theta; the paper's goes on from itself.
        drift: whether a client goes on with Theta = W after a round in which it sends nothing (paper), or with Theta.
        two_ends: whether W has private parameters of its own beside those of Theta + S, so that neither unlearns what
            the other needs; the paper has one set.
        answers: who tells a client's classes: "hybrid", Theta + S (paper), or "both", it and W, by the mean of their
            probabilities; needs a task whose models can answer together.
        channels: "both"; or what is left of it for an ablation, "global" (Theta) or "private" (S alone).

    State:
        model: the shared parameters.
    Memory:
        local, correction, private, shared: W, h, S and Theta, each laid out as the shared parameters; ends: W's own
        private parameters, if it has any; base: str.
    Cost: the model up and down in rounds that collect; nothing in others.
    """

    tracks: ClassVar[bool] = True

    probability: Proportion = 0.5
    longest: NonNegativeInt = 0
    pull: NonNegativeFloat = 0.6
    correction: Annotated[str, OneOf(CORRECTIONS)] = "mean"
    private_epochs: NonNegativeInt = 1
    shrinkage: NonNegativeFloat = 5e-4
    threshold: NonNegativeFloat = 1e-3
    density: Proportion = 0.0
    each_step: bool = False
    restart: bool = False
    drift: bool = True
    two_ends: bool = False
    answers: Annotated[str, OneOf(ANSWERS)] = "hybrid"
    channels: Annotated[str, OneOf(CHANNELS)] = "both"

    @property
    def parts(self) -> frozenset[str]:
        """Models that answer together, if W is to have a say."""
        return frozenset({"ensemble"} if self._both_answer else ())

    def collects(self, state: ModelState, round: int, g: np.random.Generator) -> bool:
        """Return the server's coin, j; and True in every round that is a multiple of `longest`."""
        return bool(g.random() < self.probability) or (self.longest > 0 and round % self.longest == 0)

    def broadcast(self, state: ModelState, group: int, decoded: Arrays) -> ModelState:
        """Eq. (9): Theta is what came of it on the way."""
        return {"model": decoded}

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Train W, then S; upload the difference of the corrected W to Theta."""
        own = self._remembered(received, memory)
        theta, start = own["shared"], own["local"]
        trained, steps, ends = start, 0, own["ends"]
        if self.channels != "private":
            mine = {name: array for name, array in trainer.read().items() if name not in theta}
            if self.two_ends and self.channels == "both":
                trainer.load(ends)
            trained, steps = self._train_local(trainer, start, theta, own["correction"])
            if self.two_ends and self.channels == "both":
                ends = trainer.read(list(mine))
                trainer.load(mine)
        back = {name: theta[name] - trained[name] for name in theta}
        correction = self._corrected(own["correction"], back, trainer.learning_rate, steps)
        private = self._train_private(trainer, theta, own["private"])
        rate = np.float32(trainer.learning_rate)
        upload = {name: trained[name] - rate * correction[name] - received[name] for name in received}
        new: Memory = {
            "local": trained,
            "correction": correction,
            "private": private,
            "shared": theta if trainer.collects or not self.drift else trained,
            "ends": ends,
            "base": own["base"],
        }
        return upload, cast(Tree, new)

    def runs(self, epochs: int) -> Sequence[int]:
        """Return W, then S."""
        return (epochs, self.private_epochs)

    def personalise(self, received: Arrays, memory: Tree) -> Arrays:
        """Theta + S, Theta being the newest that the client knows."""
        own = self._remembered(received, memory)
        return self._encoder(own["shared"], own["private"])

    def answering(self, left: Arrays, received: Arrays, memory: Tree) -> Arrays:
        """Theta + S with the new S; Theta is W where the round sends nothing and drifts."""
        return self.personalise(received, memory)

    def ensemble(self, received: Arrays, memory: Tree) -> Sequence[Arrays]:
        """W with its own ends, once it has been trained."""
        if memory is None or not self._both_answer:
            return ()
        own = cast(Memory, memory)
        return [{**own["local"], **own["ends"]}]

    def inherited(self, memory: Tree) -> Tree:
        """W, its own ends, and S, to go on from another Theta; what corrected W was of the old one."""
        if memory is None:
            return None
        own = cast(Memory, memory)
        zeros = {name: np.zeros_like(array) for name, array in own["correction"].items()}
        return cast(Tree, {**own, "correction": zeros, "base": ""})

    @property
    def _both_answer(self) -> bool:
        return self.answers == "both" and self.channels == "both"

    def _remembered(self, received: Arrays, memory: Tree) -> Memory:
        """The memory, brought up to date with what the server sent."""
        base = digest(received)
        if memory is None:
            zeros = {name: np.zeros_like(array) for name, array in received.items()}
            private = received if self.channels == "private" else zeros  # alone it must not start from nothing
            return {
                "local": received,
                "correction": zeros,
                "private": private,
                "shared": received,
                "ends": {},
                "base": base,
            }
        own = cast(Memory, memory)
        if own["base"] == base:
            return own
        return {**own, "shared": received, "local": received if self.restart else own["local"], "base": base}

    def _encoder(self, theta: Arrays, private: Arrays) -> Arrays:
        if self.channels == "global":
            return theta
        if self.channels == "private":
            return private
        return {name: theta[name] + private[name] for name in theta}

    def _train_local(self, trainer: Trainer, start: Arrays, theta: Arrays, correction: Arrays) -> tuple[Arrays, int]:
        """Eq. (6); the trained W and the number of steps."""
        centre, known = _tensors(theta), _tensors(correction)

        def correct(parameters: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> None:
            names = [name for name in centre if name in gradients]
            to = [gradients[name] for name in names]
            now = [parameters[name].detach() for name in names]
            device = to[0].device
            away = torch._foreach_sub(now, [centre[name].to(device) for name in names])
            torch._foreach_add_(to, away, alpha=self.pull)
            if self.correction != "none":
                torch._foreach_sub_(to, [known[name].to(device) for name in names])

        before = trainer.steps
        trainer.load(start)
        trainer.run(correct_gradient=correct)
        return trainer.read(list(theta)), trainer.steps - before

    def _train_private(self, trainer: Trainer, theta: Arrays, private: Arrays) -> Arrays:
        """Eq. (8); the trained S."""
        if self.channels == "global" or not self.private_epochs:
            return private
        under = theta if self.channels == "both" else {name: np.zeros_like(array) for name, array in theta.items()}
        base = _tensors(under)

        def shrink(parameters: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> None:
            for name in base:
                if name in gradients:
                    now = parameters[name].detach()
                    gradients[name].add_((now - base[name].to(now.device)).sign(), alpha=self.shrinkage)

        def project(parameters: Mapping[str, Tensor]) -> None:
            own = {name: parameters[name].numpy(force=True) - under[name] for name in under if name in parameters}
            for name, array in self._sparse(own).items():
                parameters[name].copy_(base[name] + torch.from_numpy(array))

        trainer.load({name: under[name] + private[name] for name in theta})
        trainer.run(
            correct_gradient=shrink if self.shrinkage else None,
            project=project if self.each_step else None,
            epochs=self.private_epochs,
        )
        trained = trainer.read(list(theta))
        return self._sparse({name: trained[name] - under[name] for name in theta})

    def _sparse(self, private: Arrays) -> Arrays:
        """S without its small entries."""
        if not self.density:
            return {name: np.where(np.abs(array) < self.threshold, 0, array) for name, array in private.items()}
        sizes = np.concatenate([np.abs(array).ravel() for array in private.values()])
        kept = round(self.density * sizes.size)
        least = np.partition(sizes, sizes.size - kept)[sizes.size - kept] if kept else np.inf
        return {
            name: np.where((np.abs(array) < least) | (array == 0), 0, array).astype(array.dtype)
            for name, array in private.items()
        }

    def _corrected(self, correction: Arrays, back: Arrays, rate: float, steps: int) -> Arrays:
        """Return the corrected gradient of Eq. (7)."""
        if self.correction == "none" or not steps or not rate:
            return correction
        scale = np.float32(1.0 / (rate * (steps if self.correction == "mean" else 1)))
        return {name: array + scale * back[name] for name, array in correction.items()}


def _tensors(arrays: Arrays) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
