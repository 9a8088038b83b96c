"""Graph regression: tell a number of a whole graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from fedgraft.contracts import Sums
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.domains.graphs.batches import Batch
from fedgraft.domains.graphs.graph_task import GraphData, GraphTask
from fedgraft.domains.graphs.model import GraphModel, NumberModel, NumbersTogether
from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.domains.regression import Regression, Unit, errors_in_training, groups_of, sums_of
from fedgraft.errors import require
from fedgraft.nn.layers import device_of
from fedgraft.wire.layouts import Array, Arrays


@dataclass(frozen=True)
class GraphRegression(GraphTask, Regression[GraphShard, GraphData]):
    """Graph regression: tell a number of a whole graph.

    The model is that of the task `graph`, with one output in place of classes. Clients learn in a unit of their own, in
    which their training graphs have mean 0 and variance 1; scores and answers are in the user's. The head that tells
    the number stays at the client, and so does its unit.

    Asked: tables `nodes` and `edges` with the columns of the data set `graphs`; and `graphs`, with columns "graph" and
    perhaps "client", where not one client answers for all, or in another order than that of `nodes`.

    Source: as of the task `graph`; Huber, "Robust Estimation of a Location Parameter", 1964 (`huber`).
    Differs: each client standardises by its own training graphs; nothing is published for it.

    Args:
        encoder: the convolutions; the recipe's [model].
        huber: error, in standard deviations, above which a loss is linear and no longer squared, >= 0; 0 = none.
        normalise: "batch" or "nothing", behind every convolution.
        dropout: share of the perceptron's inputs dropped in training, in [0, 1).
        places: whether the first layer sees nodes' places beside their features.
        structure: whether the model has a second channel that sees places alone; sharing methods that need one set it.
        walks: longest random walk that places are told by, >= 1.
        degrees: largest degree that places are told by, >= 1.
        wl: steps of Weisfeiler-Lehman colours whose counts the model sees beside the convolutions, >= 0; 0 = none.
        wl_width: buckets that colours are hashed into, >= 1.
        wl_root: whether counts are replaced by their square roots.
        wl_scale: length of a graph's vector of counts, > 0.
        wl_into: what counts go into: the "answer" (a linear head of their own, both numbers are averaged), "logits"
            (added to the network's number) or "hidden".
        wl_shared: whether the layer that reads counts travels; only "hidden".
    """

    network: ClassVar[type[GraphModel]] = NumberModel

    huber: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.huber >= 0, "GraphRegression.huber", ">= 0 (0 = squared errors)", self.huber)

    def outputs(self, shard: GraphShard) -> int:
        """One number."""
        return 1

    def prepare(self, shard: GraphShard, shared: Arrays) -> GraphData:
        """Batches as of the task `graph`, with the client's numbers in its own unit."""
        told = replace(shard, label=unit_of(shard).told(shard.label))
        return replace(super().prepare(told, shared), label=shard.label)

    def losses(self, model: nn.Module, hidden: Tensor, batch: Batch) -> Tensor:
        """Return errors, float32 [graphs], summed over heads: each learns as if it were alone."""
        heads = model.heads(hidden, batch)  # type: ignore[operator]
        each = [errors_in_training(told[:, 0], batch.label, self.huber) for told in heads]
        return torch.stack(each).sum(0)

    def evaluate(self, model: nn.Module, data: GraphData) -> dict[str, Sums]:
        """Return sums of errors in the user's unit."""
        device, unit, sums = device_of(model), Unit.of(data.label[data.train]), {}
        for split in SCORED_SPLITS:
            batches = data.on(device, split)
            told = [model(batch)[:, 0].numpy(force=True) for batch in batches]
            numbers = [batch.label.numpy(force=True) for batch in batches]
            predicted, known = (unit.meant(np.concatenate(parts or [np.zeros(0)])) for parts in (told, numbers))
            sums[split] = sums_of(predicted, known, unit.mean)
        return sums

    def represent(self, model: nn.Module, data: GraphData) -> tuple[Array, Array] | None:
        """The head's hidden layer over the test graphs, and in which fifth of these each number is."""
        found = super().represent(model, data)
        return None if found is None else (found[0], groups_of(found[1]))

    def together(self, models: Sequence[nn.Module]) -> nn.Module:
        """The mean of their numbers."""
        return NumbersTogether(models)

    def predict(
        self, model: nn.Module, shard: GraphShard, remembered: Mapping[str, Any], asked: GraphShard
    ) -> dict[str, Array]:
        """The number of each graph, in the user's unit."""
        told = self.outputs_of(model, asked)[:, 0].numpy()
        return {"graph": asked.ids, "prediction": unit_of(shard).meant(told)}


def unit_of(shard: GraphShard) -> Unit:
    """The unit in which a client learns: of its training graphs."""
    return Unit.of(shard.label[shard.rows("train")])
