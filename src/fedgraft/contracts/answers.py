"""Answered how? The contract of what is made of a trained model's answers; a recipe's section [answers] names one."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.abilities.smoothing import Boundary, Means
from fedgraft.contracts.ranges import Checked
from fedgraft.contracts.values import SCORED_SPLITS, Indices
from fedgraft.wire.layouts import Arrays, Layout

Singles = NDArray[np.float32]
_TINY: Final = np.float32(1e-6)


class Answered(ABC):
    """A client's own examples, their labels, and what is beside each."""

    @property
    @abstractmethod
    def label(self) -> Indices:
        """Classes, int64 [own]; -1 = unknown."""

    @abstractmethod
    def rows(self, split: str) -> Indices:
        """Return the examples of a split."""

    @property
    def inputs(self) -> Any:
        """What the model reads of own examples, [own, columns]; None where nobody asks for it."""
        return None

    @property
    def boundary(self) -> Boundary:
        """Edges to examples of others; none."""
        return Boundary.nobodys(len(self.label))

    @abstractmethod
    def mean(self, rows: Singles, means: Means | None, width: int) -> Singles:
        """Return the mean of `rows`, [own, classes], over neighbours; `means` are of those elsewhere."""

    def errors(self, answers: Singles) -> Singles:
        """Return what answers lack of the labels of training examples, [own, classes]; 0 for others."""
        train = self.rows("train")
        errors = np.zeros_like(answers)
        errors[train] = -answers[train]
        errors[train, self.label[train]] += 1
        return errors

    def prior(self, answers: Singles) -> Singles:
        """Return s / m, float32 [classes]: own shares of the classes over what the model makes of held-out examples.

        Of shares one example more than there are in training has its classes as m; without training examples it is 1.
        """
        held_out = np.concatenate([self.rows(split) for split in SCORED_SPLITS])
        if not len(held_out):
            return np.ones(answers.shape[1], np.float32)
        told = np.maximum(answers[held_out].mean(axis=0, dtype=np.float64), _TINY)
        counts = np.bincount(self.label[self.rows("train")], minlength=answers.shape[1])
        shares = (counts + told) / (counts.sum() + told.sum())
        return np.asarray(shares / told, np.float32)


class Ways:
    """Ways to answer, of which validation chooses one for all clients; by default answers are left alone.

    Attributes:
        hops: over edges, in which clients send each other rows; 0 = none.
        hidden: numbers of the last hidden layer that come behind a model's probabilities; 0 = none.
        reads_inputs: whether what the model reads of own examples must be known.
        row_width: numbers in a row that is sent.
        row_tells: what a row tells of its example, by words of `contracts.capabilities`.
        sums_layout: layout of the sums by which a layer is fitted over all clients; empty where none is.
        layer_layout: layout of that layer.
    """

    hops: int = 0
    hidden: int = 0
    reads_inputs: bool = False
    row_width: int = 0
    row_tells: frozenset[str] = frozenset()
    sums_layout: Layout = Layout(())
    layer_layout: Layout = Layout(())

    @property
    def texts(self) -> Sequence[str]:
        """Each way in words; the first leaves answers alone, "", and gentler ones come first."""
        return ("",)

    def answered(self, around: Answered, answers: Singles, means: Sequence[Means], layer: Arrays, way: int) -> Singles:
        """Return probabilities [own, classes] of own examples by a way: positive, and 1 in sum.

        Args:
            around: the examples.
            answers: the model's, [own, classes + `hidden`].
            means: of neighbours elsewhere, a hop each; fewer where nobody has sent any.
            layer: that all clients' sums have made.
            way: a place in `texts`.
        """
        return answers

    def validated(
        self, around: Answered, answers: Singles, means: Sequence[Means], layer: Arrays
    ) -> tuple[Indices, Iterator[Singles]]:
        """Return labels of validation examples, int64 [n], and each way's answers to them, [n, classes]."""
        rows, ways = around.rows("validation"), range(len(self.texts))
        return around.label[rows], (self.answered(around, answers, means, layer, way)[rows] for way in ways)

    def rows(
        self, around: Answered, answers: Singles, means: Sequence[Means | None], nodes: Indices | None = None
    ) -> Singles:
        """Return the rows of own examples, by default the boundary's, after as many hops as means, [n, row_width]."""
        return np.zeros((0, 0), np.float32)

    def sums(self, around: Answered, answers: Singles, means: Sequence[Means]) -> Arrays:
        """Return sums over the client's training examples, of `sums_layout`."""
        return {}

    def layer(self, sums: Sequence[Arrays]) -> Arrays:
        """Return the layer that all clients' sums determine, of `layer_layout`; at the server."""
        return {}


class Answers(Checked):
    """What is made of a trained model's answers; by default they are left alone.

    Attributes:
        refit: what a linear layer is fitted to: "" for none, "answers", or "hidden" states beside them.
    """

    refit: str = ""

    def ways(self, classes: int, hidden: int) -> Ways:
        """Return the ways to answer for a model of so many classes, with so many numbers in its last hidden layer."""
        return Ways()


class OwnAnswers(Answers):
    """Ability: better answers by a client's own examples alone, each by itself."""
