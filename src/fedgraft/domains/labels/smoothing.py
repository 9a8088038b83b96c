"""Answers after training: by the client's own share of each class, and smoothed over edges, errors and all.

With M the mean over neighbours, P the model's probabilities and E its errors on training examples (0 elsewhere),
answers become

    S = sum_k w_k(a) M^k P + g sum_k w_k(b) M^k E,      w_k(a) = a (1 - a)^k for k < hops, w_hops(a) = (1 - a)^hops,

or those of a linear layer that is fitted to what is known after all hops (`refit`). Then, with s the client's
shares of the classes and m the mean of P over its examples outside training,

    S (s / m)^w    for each class, 1 in sum;

or what they lack of the client's own labels is fitted there (`local_fit`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from fedgraft.contracts.abilities.smoothing import Means
from fedgraft.contracts.answers import Answered, Singles, Ways
from fedgraft.contracts.values import Indices
from fedgraft.domains.labels.ridge_fits import PENALTIES, LocalFit, Refit
from fedgraft.wire.layouts import Arrays, Layout

OWN_SHARES: Final = (1.0, 0.9, 0.7, 0.5, 0.3, 0.15)
"""a: the share of an example's own answer."""
ERROR_SHARES: Final = (0.2, 0.5, 0.8)
"""b: the same for errors; the first, second, third hop weighs most."""
ERROR_WEIGHTS: Final = (1.0, 2.0, 4.0)
"""g: how many times errors count."""
FEW_SHARES: Final = (1.0, 0.5, 0.2)
"""a, where the class prior is to be chosen, too: a small validation set cannot choose among many."""
FEW_ERRORS: Final = ((1.0, 0.0), (0.5, 2.0))
"""b and g then."""
PRIOR_WEIGHTS: Final = (0.0, 0.5, 1.0)
"""w: how much the client's class prior counts."""
_TINY: Final = np.float32(1e-6)


class Choice(NamedTuple):
    """A way to answer.

    Args:
        own_share: a, in (0, 1]; 1 leaves answers alone.
        error_share: b, in (0, 1].
        error_weight: g, >= 0; 0 leaves errors out.
        prior_weight: w, >= 0; 0 leaves the class prior out.
        fitted: whether it is the fitted layer that answers; errors are its own then, and known inside the client alone.
        penalty: of the client's own fit, >= 0; 0 leaves it out.
    """

    own_share: float
    error_share: float = 1.0
    error_weight: float = 0.0
    prior_weight: float = 0.0
    fitted: bool = False
    penalty: float = 0.0

    @property
    def text(self) -> str:
        """What is done, in words; "" where answers are left alone."""
        parts = [
            "a linear layer behind all hops" if self.fitted else "",
            f"{1 - self.own_share:.0%} by neighbours" if self.own_share < 1 else "",
            f"errors on training examples {self.error_weight:g} times" if self.error_weight else "",
            f"class prior {self.prior_weight:g}" if self.prior_weight else "",
            f"a fit to the client's own labels, penalty {self.penalty:g}" if self.penalty else "",
        ]
        return ", ".join(part for part in parts if part)


class Hop(NamedTuple):
    """What is known after some hops: M^k P and M^k E, float32 [own, classes] each, and M^k H, [own, hidden]."""

    answers: Singles
    errors: Singles
    hidden: Singles


class Apart(Answered):
    """Examples with nothing beside them, such as whole graphs: classes int64 [own], and {split: examples}."""

    def __init__(self, label: Indices, rows: Mapping[str, Indices]) -> None:
        self._label, self._rows = label, rows

    @property
    def label(self) -> Indices:
        """Classes."""
        return self._label

    def rows(self, split: str) -> Indices:
        """Return the examples of a split."""
        return self._rows[split]

    def mean(self, rows: Singles, means: Means | None, width: int) -> Singles:
        """Return the rows themselves."""
        return rows


@dataclass(frozen=True)
class Smoothing(Ways):
    """Change a client's answers over so many hops, given the means of neighbours elsewhere; there are >= 1 classes.

    `share_labels` says whether errors on training examples leave their client; its own learn of each other's anyway.
    With `class_prior` the client's own shares of the classes count, too, which never leave it. With `refit` a layer is
    fitted to what is known after all hops; with `local_fit` each client may fit what answers lack of its own labels.
    Answers come with so many `hidden` numbers of each example behind them.
    """

    hops: int
    classes: int = 2
    share_labels: bool = False
    class_prior: bool = False
    refit: bool = False
    local_fit: bool = False
    hidden: int = 0

    @property
    def reads_inputs(self) -> bool:  # type: ignore[override]
        """Where each client fits its own labels."""
        return self.local_fit

    @property
    def row_tells(self) -> frozenset[str]:  # type: ignore[override]
        """Answers; errors, if they are shared, tell labels; of a layer fitted to hidden states these."""
        words = {"answers": True, "labels": self.share_labels, "states": self.hidden > 0}
        return frozenset(word for word, told in words.items() if told and self.row_width)

    @property
    def row_width(self) -> int:  # type: ignore[override]
        """Numbers in a row: probabilities but the last, which is 1 without them; likewise errors, whose sum is 0."""
        return (self.classes - 1) * (2 if self.share_labels else 1) + self.hidden if self.hops else 0

    @property
    def sums_layout(self) -> Layout:  # type: ignore[override]
        """Layout of products over training examples; empty without `refit`."""
        return self.fit.sums_layout if self.refit else Layout(())

    @property
    def layer_layout(self) -> Layout:  # type: ignore[override]
        """Layout of the fitted layer."""
        return self.fit.layer_layout if self.refit else Layout(())

    @cached_property
    def fit(self) -> Refit:
        """The layer that is fitted."""
        return Refit((self.hops + 1) * (self.classes - 1 + self.hidden), self.classes)

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """All ways to answer; the first leaves answers alone, and gentler ones come first."""
        if self.class_prior:
            shares, errors = (FEW_SHARES, FEW_ERRORS) if self.hops else (FEW_SHARES[:1], FEW_ERRORS[:1])
            plain = [Choice(a, b, g, w) for w, a, (b, g) in product(PRIOR_WEIGHTS, shares, errors)]
            fitted = [Choice(1.0, b, g, w, True) for w, (b, g) in product(PRIOR_WEIGHTS, errors)]
        else:
            of_errors = ERROR_SHARES if self.hops > 1 else ERROR_SHARES[:1]
            plain = [Choice(share) for share in OWN_SHARES]
            plain += [Choice(*each) for each in product(OWN_SHARES, of_errors, ERROR_WEIGHTS)]
            fitted = [Choice(1.0, *each, fitted=True) for each in FEW_ERRORS]
        return (*plain, *(fitted if self.refit else ()), *(self._local_choices if self.local_fit else ()))

    @property
    def texts(self) -> Sequence[str]:
        """Those of all choices."""
        return [choice.text for choice in self.choices]

    @property
    def _local_choices(self) -> list[Choice]:
        """Those with the client's own fit, of which there are few: it makes up for errors and the class prior, too."""
        bases = [Choice(share) for share in (FEW_SHARES[:2] if self.hops else FEW_SHARES[:1])]
        bases += [Choice(1.0, fitted=True)] if self.refit else []
        return [base._replace(penalty=penalty) for penalty, base in product(PENALTIES, bases)]

    def rows(
        self, around: Answered, answers: Singles, means: Sequence[Means | None], nodes: Indices | None = None
    ) -> Singles:
        """Return the rows of own nodes, by default the boundary's, after as many hops as means, [nodes, row_width]."""
        if not self.hops:
            return np.zeros((0, 0), np.float32)
        last = self._after(around, answers, means)[-1]
        nodes = around.boundary.nodes if nodes is None else nodes
        errors = [last.errors[nodes, :-1]] if self.share_labels else []
        return np.concatenate([last.answers[nodes, :-1], *errors, last.hidden[nodes]], axis=1)

    def sums(self, around: Answered, answers: Singles, means: Sequence[Means]) -> Arrays:
        """Return what the layer is fitted to, over the client's training examples."""
        if not self.refit:
            return {}
        train = around.rows("train")
        return self.fit.sums(_side_by_side(self._after(around, answers, self._all(means)))[train], around.label[train])

    def layer(self, sums: Sequence[Arrays]) -> Arrays:
        """Return the linear layer of least squares."""
        return self.fit.layer(sums) if self.refit else {}

    def answered(self, around: Answered, answers: Singles, means: Sequence[Means], layer: Arrays, way: int) -> Singles:
        """Return the answers of a choice by its number."""
        return self.smoothed(around, answers, means, layer, self.choices[way])

    def smoothed(
        self, around: Answered, answers: Singles, means: Sequence[Means], layer: Arrays, choice: Choice
    ) -> Singles:
        """Return the answers of a choice, [own, classes]: positive, and 1 in sum.

        Without means, as for a client that was not there, nothing of others is known.
        """
        hops = self._after(around, answers, self._all(means))
        fitted = self._fitted(around, hops, layer) if choice.fitted else hops
        if choice.penalty:
            return _locally_fitted(self._own_fit(around, hops), fitted, choice)
        return _answered(fitted, choice, self._prior(around, answers))

    def validated(
        self, around: Answered, answers: Singles, means: Sequence[Means], layer: Arrays
    ) -> tuple[Indices, Iterator[Singles]]:
        """Return labels of validation examples, int64 [n], and each choice's answers to them, [n, classes]."""
        rows, prior = around.rows("validation"), self._prior(around, answers)
        hops = self._after(around, answers, self._all(means))
        by_kind = {False: hops, True: self._fitted(around, hops, layer) if layer else hops}
        seen = {kind: [Hop(*(each[rows] for each in hop)) for hop in some] for kind, some in by_kind.items()}
        own = self._own_fit(around, hops) if self.local_fit else None
        return around.label[rows], (
            _locally_fitted(own, by_kind[choice.fitted], choice)[rows]
            if own and choice.penalty
            else _answered(seen[choice.fitted], choice, prior)
            for choice in self.choices
        )

    def _own_fit(self, around: Answered, hops: Sequence[Hop]) -> LocalFit:
        """The client's own fit, to what is known after all hops and what the model reads."""
        known = [_side_by_side(hops), *([] if around.inputs is None else [around.inputs])]
        return LocalFit(known, around.rows("train"), around.label)

    def _fitted(self, around: Answered, hops: Sequence[Hop], layer: Arrays) -> list[Hop]:
        """The answers of the fitted layer, with its own errors after so many hops inside the client."""
        answers = self.fit.answers(_side_by_side(hops), layer)
        errors = [around.errors(answers)]
        for _ in hops[1:]:
            errors.append(around.mean(errors[-1], None, self.classes))
        return [Hop(answers, each, hops[0].hidden) for each in errors]

    def _prior(self, around: Answered, answers: Singles) -> Singles | None:
        return around.prior(self._parts(answers)[0]) if self.class_prior else None

    def _parts(self, answers: Singles) -> list[Singles]:
        """Probabilities, and the hidden numbers behind them."""
        return np.split(answers, [answers.shape[1] - self.hidden], axis=1)

    def _all(self, means: Sequence[Means]) -> Sequence[Means | None]:
        """The means of every hop; None for those that nobody has told."""
        return [*means, *[None] * (self.hops - len(means))][: self.hops]

    def _after(self, around: Answered, answers: Singles, means: Sequence[Means | None]) -> list[Hop]:
        """What is known after no hop, after the first, and so on."""
        shares, hidden = self._parts(answers)
        hops = [Hop(shares, around.errors(shares), hidden)]
        for each in means:
            told = [None] * 3 if each is None else self._told(each)
            hops.append(Hop(*(around.mean(*pair, pair[0].shape[1]) for pair in zip(hops[-1], told, strict=True))))
        return hops

    def _told(self, means: Means) -> list[Means | None]:
        """What neighbours elsewhere have told of answers, errors and hidden numbers."""
        ends = np.cumsum([self.classes - 1, (self.classes - 1) * self.share_labels])
        answers, errors, hidden = np.split(means.rows, ends, axis=1)
        told = _with_last(answers, 1.0), _with_last(errors, 0.0) if self.share_labels else None, hidden
        return [None if rows is None else Means(rows, means.known) for rows in told]


def _with_last(first: Singles, total: float) -> Singles:
    """Return rows with the last class's number, which is what is missing to a total."""
    return np.concatenate([first, total - first.sum(axis=1, keepdims=True)], axis=1)


def _side_by_side(hops: Sequence[Hop]) -> Singles:
    """Return what the fitted layer reads, [own, columns]: the last class's probability follows from the others."""
    return np.concatenate([part for hop in hops for part in (hop.answers[:, :-1], hop.hidden)], axis=1)


def _answered(hops: Sequence[Hop], choice: Choice, prior: Singles | None) -> Singles:
    total = hops[0].answers if choice.fitted else _weighted([hop.answers for hop in hops], choice.own_share)
    if choice.error_weight:
        total = total + np.float32(choice.error_weight) * _weighted([hop.errors for hop in hops], choice.error_share)
    positive = np.maximum(total, _TINY)
    if prior is not None and choice.prior_weight:
        positive = positive * prior ** np.float32(choice.prior_weight)
    return np.asarray(positive / positive.sum(axis=1, keepdims=True))


def _locally_fitted(own: LocalFit, hops: Sequence[Hop], choice: Choice) -> Singles:
    changed = np.maximum(own.fitted(_answered(hops, choice, None), choice.penalty), _TINY)
    return np.asarray(changed / changed.sum(axis=1, keepdims=True))


def _weighted(parts: Sequence[Singles], share: float) -> Singles:
    """w_0 parts[0] + ... + w_K parts[K], as in the module's docstring."""
    total = parts[-1]
    for part in reversed(parts[:-1]):
        total = np.float32(share) * part + np.float32(1 - share) * total
    return total
