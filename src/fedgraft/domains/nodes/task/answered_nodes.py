"""What the task `node` answers with a trained model: classes of nodes, and their last hidden layer."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse

from fedgraft.contracts.abilities.classifying import Classified, ClassifyingTask
from fedgraft.contracts.abilities.informed import Everybody
from fedgraft.contracts.abilities.smoothing import Means, coded, means_in
from fedgraft.contracts.abilities.tasks import EmbeddingTask
from fedgraft.contracts.encoder import LayeredEncoder
from fedgraft.contracts.values import Indices
from fedgraft.domains.labels.classes import likeliest
from fedgraft.domains.labels.smoothed_answers import SmoothedAnswers
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.reading.queries import Asked, test_nodes
from fedgraft.domains.nodes.task.informed_nodes import InformedNodes
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.domains.nodes.training.neighbours import Neighbours
from fedgraft.wire.layouts import Array


class AnsweredNodes(
    SmoothedAnswers[NodeShard, NodeData],
    InformedNodes,
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
        shares = self.as_remembered(model, data, self._with_means(shard.own, remembered, asked, data))
        return {"node": asked.ids, **likeliest(shard.classes, shares[asked.nodes])}

    @property
    def reads_sums(self) -> bool:
        """Whether answers of nodes of others have a part, too."""
        return super().reads_sums or self.answering.smoothing > 0

    def answers_of(self, who: int, places: Indices, everybody: Everybody[NodeShard]) -> Sequence[Array]:
        """Return their answers, smoothed over 0, 1 .. hops."""
        kept = everybody.memory(who).get("smoothing", {})
        if not self.answering.smoothing or "choice" not in kept:
            return ()
        remembered = everybody.memory(who)
        data = self.prepare(everybody.shards[who], remembered.get("shared", {}))
        if "answers" in kept:
            answers = kept["answers"]
        else:
            with torch.no_grad():
                answers = self.answers(everybody.model(who), self.opened(data, remembered.get("states")))
        told = kept.get("told", answers)
        return [self.told_of(data, told, means_in(kept), hop, places) for hop in range(self.answering.smoothing)]

    def _with_means(self, own: int, remembered: Mapping[str, Any], asked: Asked, data: NodeData) -> Mapping[str, Any]:
        """What a client remembers, with the means of what is told to new nodes, which follow so many own ones."""
        if not (asked.told and asked.told.answers):
            return remembered
        kept, border = remembered["smoothing"], self.answered(data).border
        before = int(np.searchsorted(border.nodes, own))
        row = np.repeat(np.arange(len(border.nodes)), border.counts)
        new = np.flatnonzero(row >= before)
        at = np.searchsorted(asked.others, border.owner[new] << 32 | border.place[new])
        weight = np.ones(len(new), np.float32) if border.weight is None else border.weight[new]
        shape = len(border.nodes) - before, len(asked.others)
        mean = sparse.csr_matrix((weight / border.totals[row[new]], (row[new] - before, at)), shape=shape)
        nothing = Means(np.zeros((before, self.row_width), np.float32), np.zeros(before, bool))
        means = [*means_in(kept), *[nothing] * self.answering.smoothing][: self.answering.smoothing]
        scale = np.float32(kept.get("scale", 1.0))
        rows = [
            coded(scale * np.concatenate([each.rows, mean @ told]))
            for each, told in zip(means, asked.told.answers, strict=True)
        ]
        known = [np.packbits(np.concatenate([each.known, np.ones(shape[0], bool)])) for each in means]
        return {**remembered, "smoothing": {**kept, "rows": rows, "known": known}}

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
