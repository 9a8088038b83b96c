"""AdaFGL: FedAvg, and then networks of each client's own that refine what the model says of its part of the graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from fedgraft.contracts import NonNegativeInt, PositiveInt, SilentSharing, Trainer
from fedgraft.methods.one_model import ModelState, OneModel
from fedgraft.wire.layouts import Arrays, Tree

PART: Final = "refinement"
"""The part of the model that is a client's own."""
ACTIVE: Final = "refinement.active"
"""Its array that tells whether it answers: 0, and 1 from the second step on."""


@dataclass(frozen=True)
class AdaFGL(OneModel, SilentSharing[ModelState]):
    """AdaFGL: FedAvg, and then networks of each client's own that refine what the model says of its part of the graph.

    In the first step, so many rounds, all is as in FedAvg. In the second, all further rounds, nothing is sent but the
    last model once. With Y what it says of a client's nodes, these hear from each other along

        P = D^-1/2 (a A + (1 - a) S + I) D^-1/2,    S_uv = 1 where Y_u and Y_v are alike

    and the client trains perceptrons on its features X and on X_P = [X, P X, P^2 X, P^3 X], side by side, with

        CE(H) + mean (H - Y)^2,   H = f_1(X_P)                                      where neighbours are alike
        CE(f_2(X_P)) + CE(f_3(X)) + CE(M),   M of f_4(X_P) and signed messages      where they are not

    It answers with C (H + Y) / 2 + (1 - C) (f_2 + f_3 + M) / 3, in probabilities, where C is the homophily confidence
    score: the share of labels that label propagation over A tells from others.

    Source: Li et al., "AdaFGL: A New Paradigm for Federated Node Classification with Topology Heterogeneity", ICDE
        2024; where its text leaves a choice, the code of its authors (xkLi-Allen/AdaFGL, and AdaFGL in their OpenFGL;
        models and clients read, not copied). The task's part is in
        `fedgraft.domains.nodes.training.refinement`.
    Differs:
        - Answers are alike from a cosine of 0.999 on, as in the code, which takes it of the softmax of probabilities;
          here it is of these. So is the mean with Y.
        - Messages: f_4 + softmax(B f_4) - softmax(B' f_4), halved, with B = PReLU(R), B' = PReLU(-R), as in the code. R
          are cosines of answers less their mean, from -1 for the least to 1; in the code's R those just below the mean
          get -1 and the least get 0. The code can also mix S into R; in OpenFGL it does not.
        - C is of both halves of the training nodes, each told from the other; in the code of one, drawn.
        - Losses of the second step are plain: none of the task's options for them has a part in it.
        - Layers are drawn as all of this project's are; the code has Glorot's.

    Args:
        rounds: of the first step, >= 1; 50 (OpenFGL). With fewer in the run there is no second.
        epochs: of a client in a round of the second, >= 0; 0 = `training.epochs`. OpenFGL has 50 in all, the authors'
            code 200.

    State:
        model: the model's arrays. The networks are in their client's memory.
    Needs: a task with networks that refine its model's answers: `node` with `exchange.states` off. Who was not in the
        last cohort of the first step has no second.
    Cost: the model down and its difference up, per selected client, in the first step; then the model down, once. A
        client's matrices are [nodes, nodes].
    """

    parts: ClassVar[frozenset[str]] = frozenset({PART})

    rounds: PositiveInt = 50
    epochs: NonNegativeInt = 0

    def shares(self, name: str) -> bool:
        """Return whether it is of the model that is refined."""
        return not name.startswith(f"{PART}.")

    def collects(self, state: ModelState, round: int, g: np.random.Generator) -> bool:
        """Return whether it is a round of the first step."""
        return round <= self.rounds

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Train the model; in the second step the networks, beside the model as it is."""
        if trainer.collects:
            trainer.load(
                {**received, ACTIVE: np.zeros(1, np.float32)}
            )  # it may be 1 from the run that this one goes on
            trainer.run(frozen=[name for name in trainer.read() if not self.shares(name)])
            return trainer.difference(received), memory
        trainer.load({**received, ACTIVE: np.ones(1, np.float32)})
        trainer.run(epochs=0)  # moments that are kept are those of the same run in every round: this one's the model's
        trainer.run(epochs=self.epochs or None, frozen=list(received))
        return trainer.difference(received), memory

    def runs(self, epochs: int) -> Sequence[int]:
        """Return that of the model; the networks' rounds collect nothing."""
        return (epochs,)
