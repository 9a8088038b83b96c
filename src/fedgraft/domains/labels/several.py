"""Several labels of an example, all of one kind, of which any may be missing: an array [n, labels]."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedgraft.contracts.labels import Batches, Labels, Unit
from fedgraft.contracts.loss import ClassShares
from fedgraft.contracts.task import Chance
from fedgraft.contracts.values import Sums
from fedgraft.domains.labels.class_weights import weighted
from fedgraft.domains.labels.known import is_known
from fedgraft.errors import require
from fedgraft.wire.layouts import Array


@dataclass(frozen=True)
class Several(Labels):
    """Several labels; an example's loss is the mean over those that it has, the score the mean over labels.

    A label that no example of a split has does not count in the split's score.

    Args:
        each: the kind of every label.
        names: of the labels, at least one.
    """

    each: Labels
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        require(len(self.names) > 0, "Several.names", "at least one", self.names)

    @property
    def metric(self) -> str:
        """As of each label."""
        return self.each.metric

    @property
    def better(self) -> str:
        """As of each label."""
        return self.each.better

    @property
    def width(self) -> int:
        """As many numbers for each label."""
        return self.each.width * len(self.names)

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """One for each label, unless these are classes."""
        return None if self.each.numbers is None else (len(self.names),)

    @property
    def sums(self) -> tuple[str, ...]:
        """Those of every label, with its number."""
        return tuple(f"{name}_{label}" for label in range(len(self.names)) for name in self.each.sums)

    def unit(self, label: Array) -> Unit:
        """Return each label's unit, of its known values."""
        units = [self.each.unit(column[is_known(column)]) for column in label.T]
        columns = ([getattr(unit, name) for unit in units] for name in ("mean", "spread", "centre"))
        return Unit(*(np.array(column, np.float64) for column in columns))

    def standardize(self, label: Array, unit: Unit) -> Array:
        """Return the labels [n, labels], each in its unit; what is missing stays so."""
        columns = [self.each.standardize(column, unit.of_label(number)) for number, column in enumerate(label.T)]
        return np.stack(columns, axis=1)

    def losses(
        self, outputs: Tensor, label: Tensor, shares: ClassShares | None = None, weights: Tensor | None = None
    ) -> Tensor:
        """Return the mean loss over the labels that an example has, float32 [n]; 0 where it has none.

        `weights`, float32 [labels, classes], are what a loss is multiplied by; None for 1.
        """
        known = torch.isfinite(label) if label.is_floating_point() else label >= 0
        total = outputs.new_zeros(len(label))
        for number, part in enumerate(self._parts(outputs)):
            rows = torch.nonzero(known[:, number])[:, 0]
            losses = self.each.losses(part[rows], label[rows, number])
            own = None if weights is None else weights[number]
            total = total.index_add(0, rows, weighted(losses, label[rows, number], own))
        return total / known.sum(1).clamp(min=1)

    def together(self, outputs: Sequence[Tensor]) -> Tensor:
        """Return what several models or heads answer as one, label by label, float32 [n, width]."""
        parts = zip(*(self._parts(each) for each in outputs), strict=True)
        return torch.cat([self.each.together(part) for part in parts], dim=1)

    def sums_of(self, batches: Batches, unit: Unit) -> Sums:
        """Return every label's sums, of the examples that have it."""
        seen, sums_by_label = list(batches), {}
        for number in range(len(self.names)):
            having = []
            for outputs, label in seen:
                rows = np.flatnonzero(is_known(label[:, number].numpy(force=True)))
                having.append((self._parts(outputs)[number][rows], label[rows, number]))
            sums = self.each.sums_of(having, unit.of_label(number))
            sums_by_label.update({f"{name}_{number}": value for name, value in sums.items()})
        return sums_by_label

    def score(self, sums: Sums) -> float:
        """Return the mean over labels of the metric."""
        return _mean([self.each.score(part) for part in self._by_label(sums)])

    def selection_metric(self, sums: Sums) -> float:
        """Return the mean over labels that have a score of what each is chosen by; of all where none has."""
        parts = self._by_label(sums)
        scored = [part for part in parts if not math.isnan(self.each.score(part))]
        return _mean([self.each.selection_metric(part) for part in scored or parts])

    def chance(self, sums: Sums) -> Chance | None:
        """Return the mean over labels that have a score of what needs no model; None where one does not tell."""
        scored = [part for part in self._by_label(sums) if not math.isnan(self.each.score(part))]
        known = [chance for chance in map(self.each.chance, scored) if chance is not None]
        if not known or len(known) < len(scored):
            return None
        return Chance(known[0].measure, _mean([chance.value for chance in known]), known[0].what)

    def scores(self, sums: Mapping[str, Sums], chosen: Sums | None = None) -> dict[str, float]:
        """Return the mean over labels of the metric of each split; arguments as of `Labels.scores`."""
        each = self._each(sums, chosen)
        return {split: _mean([measures[split][self.metric] for measures in each]) for split in sums}

    def measured(self, sums: Mapping[str, Sums], chosen: Sums | None = None) -> dict[str, dict[str, float]]:
        """Return the measures of each split, as `measures` does; arguments as of `Labels.measured`."""
        each = self._each(sums, chosen)
        return {split: self._told([measures[split] for measures in each]) for split in sums}

    def decision_thresholds(self, sums: Mapping[str, Sums]) -> dict[str, dict[str, Any]]:
        """Return how each label's class is answered, of those for which it is not the likeliest."""
        splits = {split: self._by_label(each) for split, each in sums.items()}
        told = {
            name: self.each.decision_threshold({split: parts[number] for split, parts in splits.items()})
            for number, name in enumerate(self.names)
        }
        return {name: decision_threshold for name, decision_threshold in told.items() if decision_threshold}

    def mean_loss(self, sums: Sums) -> float:
        """Return the mean over labels of the mean loss."""
        return _mean([self.each.mean_loss(part) for part in self._by_label(sums)])

    def measures(self, sums: Sums) -> dict[str, float]:
        """Return the means over labels of all measures, and the metric of each label by its name."""
        return self._told([self.each.measures(part) for part in self._by_label(sums)])

    def answers(self, outputs: Tensor, unit: Unit) -> dict[str, Array]:
        """Return the columns of every label, with its name behind theirs."""
        answers = {}
        for number, (name, part) in enumerate(zip(self.names, self._parts(outputs), strict=True)):
            columns = self.each.answers(part, unit.of_label(number))
            answers.update({f"{column}_{name}": values for column, values in columns.items()})
        return answers

    def constant(self, label: Array) -> Array:
        """Return what is best said of each label, [labels]."""
        return np.array([self.each.constant(column[is_known(column)]) for column in label.T])

    def agreement(self, predicted: Array, label: Array) -> float:
        """Return the mean over labels of the metric."""
        known = is_known(label)
        pairs = zip(predicted.T, label.T, known.T, strict=True)
        return _mean([self.each.agreement(one[rows], two[rows]) for one, two, rows in pairs])

    def _parts(self, outputs: Tensor) -> list[Tensor]:
        """Return the outputs of every label, [n, width of one]."""
        return list(torch.split(outputs, self.each.width, dim=1))

    def _told(self, measures: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """Return means over labels of their measures, and the metric of each label by its name."""
        means = {name: _mean([each[name] for each in measures]) for name in measures[0]}
        scores = {f"{self.metric}_{name}": each[self.metric] for name, each in zip(self.names, measures, strict=True)}
        return means | scores

    def _each(self, sums: Mapping[str, Sums], chosen: Sums | None) -> list[dict[str, dict[str, float]]]:
        """Return for every label the measures of each split."""
        splits = {split: self._by_label(each) for split, each in sums.items()}
        bases = [None] * len(self.names) if chosen is None else self._by_label(chosen)
        by_label = ({split: parts[number] for split, parts in splits.items()} for number in range(len(self.names)))
        return [self.each.measured(own, base) for own, base in zip(by_label, bases, strict=True)]

    def _by_label(self, sums: Sums) -> list[Sums]:
        """Return the sums of every label by their own names; {} where there are none."""
        numbers = range(len(self.names))
        wanted = [{name: f"{name}_{number}" for name in self.each.sums} for number in numbers]
        return [{name: sums[key] for name, key in names.items() if key in sums} for names in wanted]


def _mean(values: Sequence[float]) -> float:
    """Mean of those that are there; nan without any."""
    there = [value for value in values if not math.isnan(value)]
    return sum(there) / len(there) if there else math.nan
