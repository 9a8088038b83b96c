"""A client's own examples and their labels: one thing each, such as a node, or two, such as the ends of an edge."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.labels import Labels
from fedgraft.contracts.loss import ClassObjective, NumberObjective, Objective
from fedgraft.contracts.values import Indices
from fedgraft.domains.examples import Examples
from fedgraft.domains.labels.classes import Classes
from fedgraft.domains.labels.known import is_known
from fedgraft.domains.labels.metric_classes import METRICS, MetricClasses
from fedgraft.domains.labels.numbers import Numbers
from fedgraft.domains.labels.several import Several
from fedgraft.errors import require
from fedgraft.wire.layouts import Array


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
