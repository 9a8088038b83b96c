"""The part of tasks with classes that betters a trained model's answers: by smoothing them, and by the class prior."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.contracts.abilities.smoothing import Boundary, Means, SmoothingTask, means_in
from fedgraft.contracts.answers import Answers
from fedgraft.contracts.labels import Labels
from fedgraft.contracts.values import SCORED_SPLITS, Indices, Sums
from fedgraft.domains.labels.classes import Classes
from fedgraft.domains.labels.smoothing import Answered, Singles, Smoothing
from fedgraft.wire.layouts import Arrays, Layout

HIDDEN: Final = "hidden"
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
        class_prior: as of the task `node`; so are `smoothing`, `share_labels`, `refit`, `local_fit` and `classes`.
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

    @property
    def hops(self) -> int:
        """`smoothing`; one, over no edge, where without it another change of answers is chosen."""
        return max(
            self.answering.smoothing,
            int(self.answering.class_prior or bool(self.answering.refit) or self.answering.local_fit),
        )

    @property
    def row_width(self) -> int:
        """A number per class but the last; with `share_labels` as many again; hidden ones that a layer is fitted to."""
        return self._smoothing.row_width

    @property
    def row_tells(self) -> frozenset[str]:
        """Answers; with `share_labels` errors, which tell labels; of a layer fitted to hidden states these."""
        more = {"labels"} if self.answering.share_labels else set()
        return super().row_tells | (
            more | ({"states"} if self.answering.refit == HIDDEN else set()) if self.row_width else set()
        )

    @property
    def choices(self) -> int:
        """How many ways to answer there are to choose from."""
        return len(self._smoothing.choices)

    def choice_text(self, choice: int) -> str:
        """Return a way in words; "" where answers are left alone."""
        return self._smoothing.choices[choice].text

    def boundary(self, data: Any) -> Boundary:
        """Return the edges to nodes of others, all of them: `halo` has no part in it; none without smoothing."""
        boundary = self.answered(data).boundary
        return boundary if self.answering.smoothing else Boundary.nobodys(boundary.own)

    @property
    def sums_layout(self) -> Layout:
        """Layout of products over training examples; empty without `refit`."""
        return self._smoothing.fit.sums_layout if self.answering.refit else Layout(())

    @property
    def layer_layout(self) -> Layout:
        """Layout of a linear layer."""
        return self._smoothing.fit.layer_layout if self.answering.refit else Layout(())

    def answers(self, model: torch.nn.Module, data: Any) -> Singles:
        """Return probabilities, [own, classes]; behind them the last hidden layer, in (-1, 1), if it is smoothed."""
        shares = self.scored(model, data)
        if self.answering.refit != HIDDEN or self.hidden is None:
            return shares
        hidden = self.hidden(model, data)
        return np.concatenate([shares, hidden / (SOFT + np.abs(hidden))], axis=1).astype(np.float32)

    def hop_sums(self, data: Any, answers: Singles, means: Sequence[Means]) -> Arrays:
        """Return the products over training examples of what is known of them after all hops."""
        return self._smoothing.sums(self.answered(data), answers, means) if self.answering.refit else {}

    def hop_layer(self, sums: Sequence[Arrays]) -> Arrays:
        """Return the linear layer of least squares."""
        return self._smoothing.fit.layer(sums) if self.answering.refit else {}

    def told(self, data: Any, answers: Singles, means: Sequence[Means]) -> Singles:
        """Return probabilities after so many hops, with `share_labels` beside the errors, [boundary, row_width]."""
        return self._smoothing.rows(self.answered(data), answers, means)

    def told_of(self, data: Any, answers: Singles, means: Sequence[Means], hop: int, nodes: Indices) -> Singles:
        """Return rows of any own examples after so many hops; of means that were not told nothing is known."""
        return self._smoothing.rows(self.answered(data), answers, [*means, *[None] * hop][:hop], nodes)

    def tallies(self, data: Any, answers: Singles, means: Sequence[Means], layer: Arrays) -> NDArray[np.uint32]:
        """Return of each choice how many validation examples it gains and loses, [choices, 2].

        Judged by another measure than accuracy it is by how much that measure, in [0, 1], is larger or smaller, times
        the client's examples; to leave answers alone counts half a standard error more.
        """
        label, every = self._smoothing.validated(self.answered(data), answers, means, layer)
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
        smoothing, around = self._smoothing, self.answered(data)
        shares = smoothing.smoothed(around, answers, means, layer, smoothing.choices[choice])
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
        choice = self._smoothing.choices[int(kept["choice"])]
        return self._smoothing.smoothed(around, answers, means_in(kept), kept.get("layer", {}), choice)

    @cached_property
    def _smoothing(self) -> Smoothing:
        hidden = self.width if self.answering.refit == HIDDEN else 0
        ways = {
            "class_prior": self.answering.class_prior,
            "refit": bool(self.answering.refit),
            "local_fit": self.answering.local_fit,
        }
        return Smoothing(
            self.answering.smoothing, self.classes or 2, self.answering.share_labels, **ways, hidden=hidden
        )
