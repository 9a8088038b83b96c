"""What tasks have in common whose data say what their labels are: the kind, its measure, what examples count."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, TypeVar

from fedgraft.contracts.data import telling
from fedgraft.contracts.labels import Labels, Unit
from fedgraft.contracts.loss import ClassObjective, Objective
from fedgraft.contracts.parts import part
from fedgraft.contracts.task import Prepared
from fedgraft.domains.labelled.shard import LabelledShard, labels_of
from fedgraft.domains.labels import numbers
from fedgraft.domains.labels.metric_choice import MetricByData
from fedgraft.domains.labels.metric_classes import METRICS
from fedgraft.domains.labels.numbers import unit_of
from fedgraft.domains.publications import Publications
from fedgraft.errors import InputError, nearest, require
from fedgraft.wire.layouts import Arrays

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
