"""A whole task for a domain whose things have labels, or pairs of them: the domain adds what things are told by.

What is labelled is an example: one thing, such as a node, or two, such as the ends of an edge. The shard says which,
and of what kind the labels are; so one task class is enough for all of them.
"""

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fedgraft.contracts.abilities import PlainModel, PredictingTask
from fedgraft.contracts.labels import Labels, Unit
from fedgraft.contracts.loss import ClassShares
from fedgraft.contracts.values import SCORED_SPLITS, SPLITS, Batch, Indices, Questions, Sums
from fedgraft.domains.labelled.labels_of_data import Labelled, LabelsOfData, labels_of
from fedgraft.domains.labels.class_weights import shares_of, weighted
from fedgraft.domains.labels.known import groups_of
from fedgraft.domains.labels.numbers import training_labels
from fedgraft.domains.labels.several import Several
from fedgraft.domains.tables.query_routing import clients_said
from fedgraft.domains.tables.reader import read_asked
from fedgraft.domains.tables.schema import Column, Table
from fedgraft.errors import InputError, require
from fedgraft.nn.layers import device_of, linear
from fedgraft.wire.layouts import Array, Arrays

Inputs = tuple[Tensor, ...]
"""What a network reads of a client."""


class LabelModel(nn.Module):
    """A domain's network, and a linear layer that tells what is asked of a thing, or of two in either order.

    The network's class is made of `sizes`, of which the last is the width, and a generator, from which everything is
    drawn; it takes inputs to states, float32 [things, width]. An example is made of so many `ends`; `outputs` are told
    of it.
    """

    def __init__(
        self, network: type[nn.Module], sizes: Sequence[int], ends: int, outputs: int, g: torch.Generator
    ) -> None:
        super().__init__()
        self.network = network(*sizes, g)
        self.head = linear(sizes[-1] * ends, outputs, g)

    def represent(self, inputs: Inputs, ends: Tensor) -> Tensor:
        """Return what the last layer reads, [examples, n]: the state of one; of two their sum and product."""
        states = self.network(*inputs)
        one, other = states[ends[0]], states[ends[-1]]
        return one if len(ends) == 1 else torch.cat([one + other, one * other], dim=1)

    def forward(self, inputs: Inputs, ends: Tensor) -> Tensor:
        """Return outputs, float32 [examples, outputs]."""
        outputs: Tensor = self.head(self.represent(inputs, ends))
        return outputs


CLIENT = Column("client", needed=False)
EXAMPLES = {
    1: Table("examples", (Column("node"), CLIENT)),
    2: Table("examples", (Column("source"), Column("target"), CLIENT)),
}
"""{things that an example is made of: the table of questions, with columns of their ids}."""


@dataclass(frozen=True, eq=False)
class LabelledData:
    """A client's data, ready to train on: what the network reads, and labels of the examples, in the unit of numbers.

    `ends` is int64 [1 or 2, examples], `rows` {split: int64 [examples]}, `weights` of classes float32 [classes] or
    [labels, classes].
    """

    inputs: Inputs
    ends: Tensor
    label: Tensor
    rows: dict[str, Indices]
    unit: Unit
    weights: Tensor | None = None
    shares: ClassShares | None = None


_USAGE = """from model import load

outputs = load()(inputs, ends)
"""


@dataclass(frozen=True)
class LabelTask(
    LabelsOfData[Labelled, LabelledData],
    PredictingTask[Labelled, LabelledData],
):
    """Tell labels of things, or of pairs of them, that a network has states of; numbers in all clients' common unit.

    Asked: a table `examples` with a column "node" or, of pairs, columns "source" and "target": ids of one client's
    things; and perhaps a column "client".

    Args:
        class_names: of the classes; taken from the data.
        ends: things that an example is made of, 1 or 2; 0 = as the data have.
        label_names: of the labels where an example has several; taken from the data.
        judged: what a model is chosen by and told as; taken from evaluation.metric and the data.
        positive_class: the rarer of two, of which average precision and F1 are; taken from the data. Of several
            labels it is that which fewer validation examples have.
        objective: the loss, of classes or numbers; a domain's task says which by default.
    """

    asks: ClassVar[tuple[str, ...]] = ("examples",)
    network: ClassVar[type[nn.Module]]
    """The class of the network: made of `sizes` and a generator, it takes `inputs` to float32 [things, width]."""

    ends: int = 0
    label_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not self.objective.dropout, "loss.dropout", "0: the network drops nothing", self.objective.dropout)

    @cached_property
    def labels(self) -> Labels:
        """As the data have them; several where they have names."""
        return labels_of(self.class_names, self.label_names, self.judged, self.positive_class, self.objective)

    @abstractmethod
    def inputs(self, shard: Labelled) -> Inputs:
        """Return what the network reads of a client, tensors."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """Sizes that the network is made of; the last one is the width of its states."""

    def known_of(self, shard: Labelled) -> dict[str, Any]:
        """Return what is known of labels, and how many things an example is made of."""
        return {**super().known_of(shard), "label_names": shard.label_names, "ends": len(shard.ends)}

    def prepare(self, shard: Labelled, shared: Arrays) -> LabelledData:
        """Inputs, and labels in the common unit; in the client's own where nothing is known of it."""
        unit, own = self.unit_of(shard, shared), self.labels.constant(training_labels(shard))
        rows = {split: shard.rows(split) for split in SPLITS}
        label = torch.from_numpy(self.labels.standardize(shard.label, unit))
        return LabelledData(
            self.inputs(shard),
            torch.from_numpy(shard.ends),
            label,
            rows,
            unit.around(own),
            self.weights_of(shard, shared),
            None if shard.label_names else shares_of(self.objective, shard, len(self.class_names)),
        )

    def examples(self, data: LabelledData) -> int:
        """Return how many training examples the client has."""
        return len(data.rows["train"])

    def model(self, g: torch.Generator, variant: Hashable = None) -> nn.Module:
        """Return a model, the same for all clients."""
        return LabelModel(self.network, self.sizes, self.ends or 1, self.labels.width, g)

    def loss(self, model: nn.Module, data: LabelledData, draw: Batch, encoded: Tensor | None) -> Tensor:
        """Return the labels' losses, float32 [n]."""
        rows = data.rows["train"][draw.examples]
        outputs = self._outputs(model, data.inputs, data.ends[:, rows])
        label = data.label[rows].to(outputs.device)
        if isinstance(self.labels, Several):
            weights = None if data.weights is None else data.weights.to(label.device)
            return self.labels.losses(outputs, label, weights=weights)
        return weighted(self.labels.losses(outputs, label, data.shares), label, data.weights)

    def evaluate(self, model: nn.Module, data: LabelledData) -> dict[str, Sums]:
        """Return the labels' sums."""
        rows = {split: data.rows[split] for split in SCORED_SPLITS}
        outputs = {split: self._outputs(model, data.inputs, data.ends[:, of]).cpu() for split, of in rows.items()}
        return {split: self.labels.sums_of([(outputs[split], data.label[of])], data.unit) for split, of in rows.items()}

    def represent(self, model: nn.Module, data: LabelledData) -> tuple[Array, Array] | None:
        """What the last layer reads, [test examples, n], and their classes or in which fifth the first number is."""
        test, device = data.rows["test"], device_of(model)
        with torch.no_grad():
            inputs = tuple(each.to(device) for each in data.inputs)
            hidden = model.represent(inputs, data.ends[:, test].to(device))  # type: ignore[operator]
        return hidden.cpu().numpy(), groups_of(data.label[test].numpy())

    def questions(self, shards: Sequence[Labelled], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
        """Examples by the ids of their things, each of the client whose they are."""
        rows = read_asked(tables, EXAMPLES[self.ends or 1])
        ids = np.stack([rows[column].texts() for column in rows.table.roles if column != "client"])
        client = clients_said(rows, [shard.name for shard in shards])
        places = [{str(name): place for place, name in enumerate(shard.ids)} for shard in shards]
        rows_of: dict[int, list[int]] = {}
        for row, names in enumerate(ids.T.tolist()):
            having = [
                k for k, known in enumerate(places) if client[row] in (-1, k) and all(name in known for name in names)
            ]
            if len(having) != 1:
                raise InputError(f"{rows.row(row)}: {' and '.join(map(repr, names))} must be of one client alone.")
            rows_of.setdefault(having[0], []).append(row)
        ends = {k: [[places[k][name] for name in names] for names in ids[:, of].tolist()] for k, of in rows_of.items()}
        return {k: Questions(np.array(of), np.array(ends[k], np.int64)) for k, of in sorted(rows_of.items())}

    def predict(
        self, model: nn.Module, shard: Labelled, remembered: Mapping[str, Any], asked: Indices
    ) -> dict[str, Array]:
        """What the labels tell of each example."""
        unit = self.unit_of(shard, remembered.get("shared", {}))
        with torch.no_grad():
            outputs = self._outputs(model, self.inputs(shard), torch.from_numpy(asked))
        return self.labels.answers(outputs.cpu(), unit)

    def plain(self, model: nn.Module, shard: Labelled | None, shared: Arrays) -> PlainModel:
        """The network, whose source text is told as it is, and the last layer."""
        assert isinstance(model, LabelModel), "there are no other models"
        what = ", ".join(self.label_names) or "the label"
        unit = "" if self.labels.numbers is None else ", in the unit in which all training examples have variance 1"
        classes = f": logits of {', '.join(self.class_names)}" if self.class_names else ""
        inputs = (
            f"- `inputs`: what `{self.network.__name__}.forward` takes.\n"
            "- `ends`: int64 [1 or 2, examples], the things that each example is made of, by their place.\n"
        )
        return PlainModel(model, inputs, _USAGE, f"{what}{classes}{unit}.")

    @staticmethod
    def _outputs(model: nn.Module, inputs: Inputs, ends: Tensor) -> Tensor:
        device = device_of(model)
        outputs: Tensor = model(tuple(each.to(device) for each in inputs), ends.to(device))
        return outputs
