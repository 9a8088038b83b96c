"""What the task `node` answers with a trained model: classes of nodes, and their last hidden layer."""

from collections.abc import Mapping
from typing import Any

import torch

from fedgraft.contracts.classifying import Classified, ClassifyingTask
from fedgraft.contracts.encoder import LayeredEncoder
from fedgraft.contracts.task_abilities import EmbeddingTask
from fedgraft.domains.labels.classes import likeliest
from fedgraft.domains.labels.smoothed_answers import SmoothedAnswers
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.reading.queries import Asked, test_nodes
from fedgraft.domains.nodes.task.node_task import NodeTask
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.domains.nodes.training.neighbours import Neighbours
from fedgraft.wire.layouts import Array


class AnsweredNodes(
    SmoothedAnswers[NodeShard, NodeData],
    NodeTask,
    EmbeddingTask[NodeShard, NodeData],
    ClassifyingTask[NodeShard, NodeData],
):
    """Answer questions about nodes, old and new."""

    @property
    def refit_width(self) -> int:
        """Width of the last hidden layer."""
        assert isinstance(self.encoder, LayeredEncoder), "whole networks are refused"
        return self.encoder.width

    def hidden_states(self, model: torch.nn.Module, data: NodeData) -> Array:
        """Return the last hidden layer."""
        return self.embeddings(model, data)

    def answered(self, data: NodeData) -> Neighbours:
        """Return own nodes and all their neighbours."""
        assert data.neighbours is not None, "it was prepared by a task that smooths"
        return data.neighbours

    def predict(
        self, model: torch.nn.Module, shard: NodeShard, remembered: Mapping[str, Any], asked: Asked
    ) -> dict[str, Array]:
        """The likeliest class of each node, and how likely the model takes it, and each class, to be.

        From the client's own part with all new nodes in it, and of its halo from what it was told: features, states.
        """
        data = self.with_asked(shard, remembered, asked)
        shares = self.as_remembered(model, data, remembered)
        return {"node": asked.ids, **likeliest(shard.classes, shares[asked.nodes])}

    def embed(
        self, model: torch.nn.Module, shard: NodeShard, remembered: Mapping[str, Any], asked: Asked | None
    ) -> tuple[dict[str, Array], Array]:
        """The last hidden layer of nodes, from what `predict` answers from."""
        asked = test_nodes(shard) if asked is None else asked
        return {"node": asked.ids}, self.embeddings(model, self.with_asked(shard, remembered, asked))[asked.nodes]

    def classified(
        self, model: torch.nn.Module, shard: NodeShard, data: NodeData, remembered: Mapping[str, Any]
    ) -> Classified:
        """The likeliest classes of the test nodes."""
        with torch.no_grad():
            shares = self.as_remembered(model, data, remembered)
        test = data.rows["test"]
        return Classified(shard.classes, data.label[test], shares[test].argmax(1), shares[test])
