"""What tasks that tell labels do to be judged by a measure that is asked for, or by one that suits the data."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Final, Self

import numpy as np
from torch import Tensor

from fedgraft.contracts.abilities.private import CountedTask
from fedgraft.contracts.data import telling
from fedgraft.contracts.labels import LabelledTask
from fedgraft.contracts.loss import ClassObjective, ClassShares, ClassWeights, Objective
from fedgraft.contracts.task import ClassCounts, Prepared, Shard
from fedgraft.contracts.values import Indices
from fedgraft.domains.labels import numbers
from fedgraft.domains.labels.class_notes import twin_notes
from fedgraft.domains.labels.class_weights import (
    BALANCED,
    PublishedCounts,
    check_names,
    counts_of,
    shares_of,
    weights_of,
)
from fedgraft.domains.labels.metric_classes import METRICS
from fedgraft.domains.labels.numbers import PublishedMoments
from fedgraft.domains.notes import tell
from fedgraft.domains.publications import Published
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Arrays

RARE: Final = 0.2
"""Share of training examples below which the rarer of two classes is what a model is judged by; ours."""
MOST_CLASSES: Final = 100
"""Classes of own tables up to which areas are told class by class; of more it takes long messages."""


class MetricByData(LabelledTask[Shard, Prepared], CountedTask[Shard]):
    """Be judged by the measure that is asked for, or by one that suits the data.

    Attributes:
        judged: name of the measure; "" = the labels' usual one.
        class_names: names of classes; () where labels are numbers, or each client has classes of its own.
        objective: the loss of training.
    """

    judged: str
    class_names: tuple[str, ...]
    objective: Objective

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those of classes, or of numbers."""
        return METRICS if self.tells_classes else numbers.METRICS

    @property
    def tells_classes(self) -> bool:
        """Whether labels are classes."""
        return True

    @property
    def published(self) -> tuple[Published, ...]:
        """Moments of numbers; how many examples each class has, where these are to count alike."""
        shape, labels = self.labels.numbers, len(getattr(self, "label_names", ()))
        moments = () if shape is None else (Published(PublishedMoments(shape)),)
        counts = (Published(PublishedCounts(len(self.class_names), labels)),) if self._weighs == BALANCED else ()
        return (*moments, *counts)

    @property
    def _weighs(self) -> ClassWeights:
        """How classes weigh; "" where the loss is not of classes."""
        return self.objective.class_weights if isinstance(self.objective, ClassObjective) else ""

    def weights_of(self, shard: Shard, shared: Arrays) -> Tensor | None:
        """Return weights of classes, float32 [classes] or [labels, classes]; None for none."""
        names = self.class_names
        return weights_of(self._weighs, shard, shared, names, len(names)) if names else None

    def shares_of(self, shard: Shard) -> ClassShares | None:
        """Return the shares of classes among a client's training examples; None for a loss that reads none."""
        return shares_of(self.objective, shard, len(self.class_names))

    def fewest(self, shard: Shard, told: frozenset[str]) -> int:
        """Return how many training examples the rarest class has that the client has any of; of numbers, how many."""
        if not self.tells_classes:
            return len(label_of(shard))
        counts = counts_of(shard, len(shard.classes))  # type: ignore[attr-defined]
        return int(counts[counts > 0].min(initial=np.iinfo(np.int64).max)) if counts.any() else 0

    def judged_by(self, shards: Sequence[Shard], own: bool) -> Self:
        """Return this task judged by what suits the data, if nothing was asked for and they are a user's own.

        Raises `InputError` where nothing can be learnt: one class alone, or numbers that are all equal.
        """
        if isinstance(weights := getattr(getattr(self, "objective", None), "class_weights", ""), dict) and len(shards):
            names: list[str] = [name for each in telling(shards) for name in each.classes]  # type: ignore[attr-defined]
            check_names("loss", weights, tuple(dict.fromkeys(names)))
        if not (own or self.judged):
            return self
        if not self.tells_classes:
            check_numbers([label_of(shard) for shard in telling(shards)])
            return self
        found, counts = counted(shards)
        check_classes(found, counts)
        suited, notes = self._by_classes(found, counts, counts)
        tell(notes)
        return suited

    def judged_among(self, classes: ClassCounts) -> tuple[Self, list[str]]:
        """Return this task judged by what suits classes that clients have told of, and notes why."""
        if not self.tells_classes:
            return self, []
        if isinstance(weights := getattr(getattr(self, "objective", None), "class_weights", ""), dict):
            check_names("loss", weights, classes.names)
        told = zip(classes.least.tolist(), classes.most.tolist(), strict=True)
        shown = [f"{least:,}" if least == most else f"{least:,} to {most:,}" for least, most in told]
        suited, notes = self._by_classes(classes.names if classes.alike else None, classes.least, classes.most)
        if not self.judged and suited.judged == "accuracy" and len(classes.names) == 2:
            notes = _in_doubt(classes)
        return suited, [*twin_notes(classes.names, shown, "All clients"), *notes]

    def remarks(self, shard: Shard) -> list[str]:
        """Return a note where all of a client's training examples have one class, or one number."""
        label = label_of(shard)
        if len(label) < 2 or label.ndim > 1 or not (label == label[0]).all():
            return []
        if label.dtype.kind != "f":  # a site's task may not know yet what it tells
            name = shard.classes[int(label[0])]  # type: ignore[attr-defined]
            said = f"All {len(label)} training examples here are of one class, {name!r}"
            return [f"{said}: their scores mean nothing, unless other clients have other classes."]
        return [f"All {len(label)} training examples here have the same number, {label[0]:g}: R2 of them is undefined."]

    def _by_classes(self, names: tuple[str, ...] | None, least: Indices, most: Indices) -> tuple[Self, list[str]]:
        """Judged by accuracy unless asked otherwise or, of two classes, one is rare; and notes why.

        There are `least` to `most` training examples of each class, as of `counted`; `names` is None where clients
        differ in them.
        """
        options = {each.name for each in fields(self)}  # type: ignore[arg-type]
        if names is None:
            if self.judged not in ("", "accuracy"):
                raise InputError(
                    f"evaluation.metric = {self.judged!r} needs the same classes at all clients, which these data do "
                    "not have; accuracy does not."
                )
            return self, []
        two = len(names) == 2
        if self.judged == "f1" and not two:
            raise InputError(f"evaluation.metric = 'f1' is for two classes; these data have {len(names)}: macro_f1.")
        known: dict[str, Any] = {}
        if "class_names" in options:
            known["class_names"] = names
        if two and most.ndim == 1:
            known["positive_class"] = getattr(self, "positive_class", "") or names[_rarer(most)]
        judged, notes = self.judged, list[str]()
        if not judged and two and (said := rare_said(names, least, most)):
            judged = "average_precision"
            notes.append(f"{said}; evaluation.metric = 'accuracy' goes by that.{self._weights_said()}")
        if not judged and len(names) <= MOST_CLASSES:
            judged = "accuracy"
        return (replace(self, judged=judged, **known) if judged else self), notes  # type: ignore[type-var]

    def _weights_said(self) -> str:
        """Say what else a rare class can be given, unless it is, or the task has no such option."""
        objective: Any = getattr(self, "objective", None)
        if (
            not isinstance(objective, ClassObjective)
            or objective.class_weights
            or bool(getattr(objective, "focal", 0.0))
        ):
            return ""
        smoothed, adjusted = (float(getattr(objective, name, 0.0)) for name in ("label_smoothing", "logit_adjustment"))
        focal = "" if smoothed else " or loss.focal"  # which does not go with it
        beside = f", as loss.logit_adjustment = {adjusted:g} does much of what they do" if adjusted else ""
        instead = " with loss.logit_adjustment = 0" if adjusted else ""
        return f" Class weights are none by default{beside}; loss.class_weights = 'balanced'{focal}{instead} sets them."


def rare_said(names: Sequence[str], least: Indices, most: Indices) -> str:
    """Say by what a model is chosen where one of two classes is rare; "" where none is.

    There are `least` to `most` training examples of each class, as of `counted`.
    """
    told = "what a model is chosen by, and told as, is"
    if most.ndim == 1:
        share, at_most = _share(_rarer(most), least, most), "" if (least == most).all() else "at most "
        said = f"The rarer class {names[_rarer(most)]!r} is {at_most}{share:.2%} of the training examples"
        return f"{said}: {told} its average precision" if 0 < share < RARE else ""
    shares = [_share(_rarer(high), low, high) for low, high in zip(least, most, strict=True)]
    few = sum(0 < share < RARE for share in shares)
    if not few:
        return ""
    return (
        f"Of {few} of {len(most)} labels the rarer class is less than {RARE:.0%} of the training examples: {told} "
        "the mean over labels of its average precision"
    )


def _rarer(most: Indices) -> int:
    """Which of two classes has fewer examples, int64 [2]; of equally rare ones the second."""
    return int(most[1] <= most[0])


def _share(place: int, least: Indices, most: Indices) -> float:
    """The share of one of two classes, at most, where there are `least` to `most` examples of each, int64 [2]."""
    return float(most[place] / max(1, most[place] + least[1 - place]))


def _in_doubt(classes: ClassCounts) -> list[str]:
    """Return a note where a class may be rare, for all that clients tell, and models are chosen by accuracy."""
    rarer = _rarer(classes.most)
    if _share(rarer, classes.most, classes.least) >= RARE:
        return []
    return [
        f"Whether the class {classes.names[rarer]!r} is rarer than {RARE:.0%} of the training examples is not known: "
        "clients with fewer than data.min_examples of it do not say how many. A model is chosen by accuracy, unless "
        "evaluation.metric says otherwise."
    ]


def label_of(shard: Any) -> Any:
    """Return the labels of a client's training examples; of all that are known where none is for training."""
    return shard.label[shard.rows("train")]


def counted(shards: Sequence[Any]) -> tuple[tuple[str, ...] | None, Indices]:
    """Return names of classes, None where clients differ in them, and how many training examples each has.

    The counts are int64 [classes]; where an example has several labels, [labels, classes].
    """
    total: dict[str, Any] = {}
    every = {tuple(shard.classes) for shard in telling(shards)}
    for shard in telling(shards):
        for name, count in zip(shard.classes, counts_of(shard, len(shard.classes)).T, strict=True):
            total[name] = total.get(name, 0) + count
    return (next(iter(every)) if len(every) == 1 else None), np.array(list(total.values()), np.int64).T


def check_classes(names: Sequence[str] | None, counts: Indices) -> None:
    """Raise `InputError` where all training examples are of one class, of several labels those of each.

    `counts` are as of `counted`.
    """
    if ((counts > 0).sum(axis=-1) > 1).any() or not counts.any():
        return
    if counts.ndim > 1:
        raise InputError(
            f"Of each of the {len(counts)} labels all training examples are of one class: there is nothing to tell "
            "apart; at least two classes are needed."
        )
    there = np.flatnonzero(counts)
    only = f" {names[int(there[0])]!r}" if names is not None else ""
    raise InputError(
        f"All {int(counts.sum())} training examples are of one class{only}: there is nothing to tell apart, and any "
        "score would be 1; at least two classes are needed (data.label names the column that is read)."
    )


def check_numbers(labels: Sequence[Any]) -> None:
    """Raise `InputError` where all numbers to learn from are equal."""
    for place in range(max((label.shape[1] if label.ndim > 1 else 1) for label in labels) if labels else 0):
        columns = [label[:, place] if label.ndim > 1 else label for label in labels]
        known = np.concatenate([column[np.isfinite(column)] for column in columns])
        if len(known) > 1 and (known == known[0]).all():
            raise InputError(
                f"All {len(known)} training examples have the same number, {known[0]:g}: the target is constant, there "
                "is nothing to learn, and an error of 0 would mean nothing (data.label names the column that is read)."
            )
