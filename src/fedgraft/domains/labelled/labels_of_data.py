"""What tasks have in common whose data say what their labels are: the kind, its measure, what examples count.

An example is one thing, such as a node, or two, such as the ends of an edge: `LabelledShard`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.data import telling
from fedgraft.contracts.labels import Labels, Unit
from fedgraft.contracts.loss import ClassObjective, NumberObjective, Objective
from fedgraft.contracts.parts import part
from fedgraft.contracts.task import Prepared
from fedgraft.contracts.values import Indices
from fedgraft.domains.examples import Examples
from fedgraft.domains.labels import numbers
from fedgraft.domains.labels.classes import Classes
from fedgraft.domains.labels.known import is_known
from fedgraft.domains.labels.metric_choice import MetricByData
from fedgraft.domains.labels.metric_classes import METRICS, MetricClasses
from fedgraft.domains.labels.numbers import Numbers, unit_of
from fedgraft.domains.labels.several import Several
from fedgraft.domains.publications import Publications
from fedgraft.errors import InputError, nearest, require
from fedgraft.wire.layouts import Array, Arrays


def labels_of(
    class_names: Sequence[str],
    label_names: Sequence[str],
    judged: str = "",
    positive_class: str = "",
    objective: Objective | None = None,
) -> Labels:
    """Return the kind of labels with these classes, numbers where there are none; several where labels have names.

    `judged`, `positive_class` and `objective` are as of `MetricClasses`, or `Numbers`. Before data are known, the
    measure tells whether there are classes.
    """
    each: Labels
    of_classes = objective if isinstance(objective, ClassObjective) else None
    if judged in METRICS:
        each = MetricClasses(tuple(class_names), 0, of_classes, judged, positive_class, max(1, len(label_names)))
    elif class_names:
        each = Classes(tuple(class_names), objective=of_classes)
    else:
        each = Numbers(objective if isinstance(objective, NumberObjective) else None, judged or "rmse")
    return Several(each, tuple(label_names)) if label_names else each


@dataclass(frozen=True, eq=False)
class LabelledShard(Examples):
    """One client's own things and examples; a domain's shard inherits it, and adds what things are told by.

    Args:
        name: the client's name.
        ids: object [things].
        ends: int64 [1 or 2, examples], the things that each example is made of.
        label: [examples] or, where labels have names, [examples, labels]: int64 classes, -1 = unknown; or float64
            numbers, nan = unknown.
        split: int8 [examples], index into `SPLITS`; -1 = in none, as where no label is known.
        classes: names of the classes; none where labels are numbers.
        label_names: names of the labels where an example has several.
    """

    name: str
    ids: NDArray[np.object_]
    ends: Indices
    label: Array
    split: NDArray[np.int8]
    classes: tuple[str, ...]
    label_names: tuple[str, ...]

    def __post_init__(self) -> None:
        examples, several = self.ends.shape[1], len(self.label_names)
        shape = (examples, several) if several else (examples,)
        require(self.label.shape == shape, f"The labels of {self.name}", f"of shape {shape}", self.label.shape)
        known = is_known(self.label).reshape(examples, -1).any(axis=1)
        lost = np.flatnonzero(~known & (self.split >= 0))
        require(not len(lost), f"The split of {self.name}", "-1 for examples without a label", lost.tolist())

    @property
    def labels(self) -> Labels:
        """The kind."""
        return labels_of(self.classes, self.label_names)


Labelled = TypeVar("Labelled", bound=LabelledShard)


@dataclass(frozen=True, kw_only=True)
class LabelsOfData(MetricByData[Labelled, Prepared]):
    """Tell labels that are classes or numbers, as the data have them; options as of `LabelTask`."""

    objective: Objective
    class_names: tuple[str, ...] = ()
    judged: str = ""
    positive_class: str = ""

    @cached_property
    def labels(self) -> Labels:
        """As the data have them."""
        return labels_of(self.class_names, (), self.judged, self.positive_class, self.objective)

    @part
    def publications(self) -> Publications:
        """What clients publish before training."""
        return Publications(self.published)

    @property
    def tells_classes(self) -> bool:
        """Whether labels are classes; before the data are known, whether a measure of these is asked for."""
        return bool(self.class_names) or self.judged in METRICS

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those of classes, or of numbers; before the data are known, both."""
        return super().metrics if self.class_names else (*METRICS, *numbers.METRICS)

    @property
    def sums_tell(self) -> frozenset[str]:
        """What sums of classes tell: whether labels are numbers is not known before the data are."""
        return frozenset({"scores", "class_counts"})

    def judged_by(self, shards: Sequence[Labelled], own: bool) -> Self:
        """Return this task judged by what suits the data, which are always a user's own here.

        Raises `InputError` for what classes alone, or numbers alone, have; and where there is nothing to learn.
        """
        known = self.known_of(telling(shards)[0])
        told = replace(self, **{name: value for name, value in known.items() if not getattr(self, name)})
        kind, allowed = ("classes", METRICS) if told.class_names else ("numbers", numbers.METRICS)
        if self.judged not in ("", *allowed):
            raise InputError(
                f"evaluation.metric must be one of {', '.join(allowed)} for these data, whose labels are {kind}; got "
                f"{self.judged!r}.{nearest(self.judged, allowed)}"
            )
        if not told.class_names:
            self._check_numbers_loss()
        elif not isinstance(self.objective, ClassObjective):
            raise InputError(f"{type(self.objective).__name__} is a loss of numbers; these data have classes.")
        elif getattr(told, "label_names", ()):
            plain = not self.objective.reads_shares
            require(
                plain, "loss", "one that reads no shares of classes where an example has several labels", self.objective
            )
        return super(LabelsOfData, told).judged_by(shards, True)

    def known_of(self, shard: Labelled) -> dict[str, Any]:
        """Return {option: value} of what the model must know of the data; a client's tell."""
        return {"class_names": shard.classes}

    def fitted(self, shards: Sequence[Labelled]) -> Self:
        """With what the model must know of the data; raises where clients differ in it."""
        known = self.known_of(shards[0])
        for shard in telling(shards):
            if (other := self.known_of(shard)) != known:
                raise InputError(f"{shards[0].name} and {shard.name} must be labelled alike; got {known} and {other}.")
        return replace(self, **known)

    def _check_numbers_loss(self) -> None:
        """Raise `InputError` for options of a loss of classes where labels are numbers."""
        if isinstance(self.objective, ClassObjective):
            for each in fields(self.objective):  # type: ignore[arg-type]
                value, fits = getattr(self.objective, each.name), each.name == "dropout"
                none = f"{each.default:g}" if isinstance(each.default, float) else repr(each.default)
                allowed = f"{none} where labels are numbers"
                require(fits or value == each.default, f"loss.{each.name}", allowed, value)

    def unit_of(self, shard: Labelled, shared: Arrays) -> Unit:
        """Return the unit of numbers that all clients have in common; the client's own where nothing is known of it."""
        return unit_of(self.labels, shard, shared)
