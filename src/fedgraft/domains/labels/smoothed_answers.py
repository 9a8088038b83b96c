"""The part of tasks with classes that betters a trained model's answers: by smoothing them, and by the class prior."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.contracts.abilities.smoothing import Boundary, Means, SmoothingTask, means_in
from fedgraft.contracts.answers import Answered, Answers, Singles, Ways
from fedgraft.contracts.labels import Labels
from fedgraft.contracts.values import SCORED_SPLITS, Indices, Sums
from fedgraft.domains.labels.classes import Classes
from fedgraft.wire.layouts import Arrays, Layout

SOFT: Final = 4.0
"""Hidden numbers h travel as h / (4 + |h|), in a byte; ours."""


@dataclass(frozen=True, eq=False)
class SmoothedAnswers(SmoothingTask[Any, Any]):
    """Smooth answers over all edges, those of its own and those to nodes of others, and shift them to the own classes.

    Which way is taken, is chosen on the validation examples of all clients.

    Source: Gasteiger et al., "Predict then Propagate", ICLR 2019 (APPNP), Eq. (5): answers; Huang et al., "Combining
        Label Propagation and Simple Models Out-performs Graph Neural Networks", ICLR 2021: errors of training nodes;
        Saerens et al., "Adjusting the Outputs of a Classifier to New a Priori Probabilities", Neural Computation 2002,
        Eq. (4): the class prior.
    Differs: answers and errors are propagated in the same hops, and what they weigh is chosen at the end: Huang et al.
        first correct and then smooth, in twice as many hops. Neighbours count alike (D^-1 A); neither their degrees nor
        an edge of a node to itself has a part in it. The prior that the model was trained with is taken to be its mean
        answer to the client's examples outside training, so that nobody need tell his counts, and what training did to
        it (logit adjustment, class weights) is part of it.

    Args:
        labels: the kind of label, of classes.
        scored: returns a model's probabilities of all own examples, float32 [own, classes], of (model, data).
        answered: returns a client's examples and what is beside them, of its data.
        answering: the method.
        classes: how many there are.
        hidden: returns the last hidden layer of all own examples, float32 [own, `width`], of (model, data).
        width: of that layer.
    """

    labels: Labels
    scored: Callable[[torch.nn.Module, Any], Singles]
    answered: Callable[[Any], Answered]
    answering: Answers
    classes: int = 0
    hidden: Callable[[torch.nn.Module, Any], Singles] | None = None
    width: int = 0

    @cached_property
    def ways(self) -> Ways:
        """What the method makes of answers; numbers are left alone."""
        return self.answering.ways(self.classes or 2, self.width)

    @property
    def hops(self) -> int:
        """Its own; one, over no edge, where without it another change of answers is chosen."""
        return max(self.ways.hops, int(self.choices > 1))

    @property
    def row_width(self) -> int:
        """Numbers that are sent of an example of the boundary."""
        return self.ways.row_width

    @property
    def row_tells(self) -> frozenset[str]:
        """What these tell."""
        return self.ways.row_tells

    @property
    def choices(self) -> int:
        """How many ways to answer there are to choose from."""
        return len(self.ways.texts)

    def choice_text(self, choice: int) -> str:
        """Return a way in words; "" where answers are left alone."""
        return self.ways.texts[choice]

    def boundary(self, data: Any) -> Boundary:
        """Return the edges to nodes of others, also those that `exchange.halo` leaves out; none without smoothing."""
        boundary = self.answered(data).boundary
        return boundary if self.ways.hops else Boundary.nobodys(boundary.own)

    @property
    def sums_layout(self) -> Layout:
        """Layout of sums over training examples."""
        return self.ways.sums_layout

    @property
    def layer_layout(self) -> Layout:
        """Layout of a linear layer."""
        return self.ways.layer_layout

    def answers(self, model: torch.nn.Module, data: Any) -> Singles:
        """Return probabilities, [own, classes]; behind them the last hidden layer, in (-1, 1), if it is smoothed."""
        shares = self.scored(model, data)
        if not self.ways.hidden or self.hidden is None:
            return shares
        hidden = self.hidden(model, data)
        return np.concatenate([shares, hidden / (SOFT + np.abs(hidden))], axis=1).astype(np.float32)

    def hop_sums(self, data: Any, answers: Singles, means: Sequence[Means]) -> Arrays:
        """Return the products over training examples of what is known of them after all hops."""
        return self.ways.sums(self.answered(data), answers, means)

    def hop_layer(self, sums: Sequence[Arrays]) -> Arrays:
        """Return the linear layer of least squares."""
        return self.ways.layer(sums)

    def told(self, data: Any, answers: Singles, means: Sequence[Means]) -> Singles:
        """Return probabilities after so many hops, with `share_labels` beside the errors, [boundary, row_width]."""
        return self.ways.rows(self.answered(data), answers, means)

    def told_of(self, data: Any, answers: Singles, means: Sequence[Means], hop: int, nodes: Indices) -> Singles:
        """Return rows of any own examples after so many hops; of means that were not told nothing is known."""
        return self.ways.rows(self.answered(data), answers, [*means, *[None] * hop][:hop], nodes)

    def tallies(self, data: Any, answers: Singles, means: Sequence[Means], layer: Arrays) -> NDArray[np.uint32]:
        """Return of each choice how many validation examples it gains and loses, [choices, 2].

        Judged by another measure than accuracy it is by how much that measure, in [0, 1], is larger or smaller, times
        the client's examples; to leave answers alone counts half a standard error more.
        """
        label, every = self.ways.validated(self.answered(data), answers, means, layer)
        if self.labels.metric == "accuracy" or self.labels.better == "lower":
            right = np.array([each.argmax(1) == label for each in every], bool).reshape(self.choices, -1)
            return np.stack([(right & ~right[0]).sum(1), (~right & right[0]).sum(1)], 1).astype(np.uint32)
        scores = np.clip(np.nan_to_num([self.labels.agreement(each, label) for each in every]), 0, 1)
        fewest = max(1, int(np.bincount(label, minlength=self.labels.width).min()))
        least = min(scores[0] + np.sqrt(scores[0] * (1 - scores[0]) / fewest) / 2, 1.0)  # what luck alone may bring
        gained = np.stack([np.maximum(scores - least, 0), np.maximum(least - scores, 0)], 1)
        gained[0] = 0
        return np.asarray((gained * len(self.answered(data).label)).astype(np.uint32))

    def evaluate_smoothed(
        self, data: Any, answers: Singles, means: Sequence[Means], layer: Arrays, choice: int
    ) -> dict[str, Sums]:
        """Return the sums by smoothed answers."""
        around = self.answered(data)
        shares = self.ways.answered(around, answers, means, layer, choice)
        return {
            split: self.sums_by(shares[of], around.label[of]) for split in SCORED_SPLITS for of in [around.rows(split)]
        }

    def sums_by(self, shares: Singles, label: Indices) -> Sums:
        """Return sums by probabilities, float32 [n, classes]."""
        assert isinstance(self.labels, Classes), "tasks with this ability have classes"
        return self.labels.sums_by(shares, label)

    def as_remembered(self, model: torch.nn.Module, data: Any, remembered: Mapping[str, Any]) -> Singles:
        """Return probabilities, [own, classes], smoothed as a client remembers of the run; as they are where not.

        Examples that it had then keep what the model said of them; others may have come behind them.
        """
        if not self.hops or "choice" not in remembered.get("smoothing", {}):
            return self.scored(model, data)
        answers = self.answers(model, data)
        if (then := remembered["smoothing"].get("answers")) is not None:
            answers = np.concatenate([then, answers[len(then) :]])
        return self.shifted(self.answered(data), answers, remembered)

    def shifted(self, around: Answered, answers: Singles, remembered: Mapping[str, Any]) -> Singles:
        """Return answers to examples, [n, classes], as the choice that a client remembers has them."""
        kept = remembered["smoothing"]
        return self.ways.answered(around, answers, means_in(kept), kept.get("layer", {}), int(kept["choice"]))
