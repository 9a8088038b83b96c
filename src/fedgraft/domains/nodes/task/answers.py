"""The part of tasks about nodes that answers questions, of new nodes too, with what is known of others' nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
import pandas as pd
import torch
from scipy import sparse
from torch import nn

from fedgraft.contracts import Classified, HaloRows, Indices, PredictingTask, Questions
from fedgraft.contracts.abilities.matching import CLIENTS
from fedgraft.contracts.abilities.predicting import Everybody
from fedgraft.contracts.abilities.smoothing import Means, coded, means_in
from fedgraft.domains.examples import Features, stacked
from fedgraft.domains.labels.classes import likeliest
from fedgraft.domains.labels.known import groups_of
from fedgraft.domains.labels.smoothed_answers import SmoothedAnswers
from fedgraft.domains.nodes.base.historical_embeddings import States
from fedgraft.domains.nodes.base.shards import NodeShard, addresses
from fedgraft.domains.nodes.reading.queries import (
    NodeQuery,
    remembered_halo,
    split_nodes_asked,
    test_nodes,
    with_new_nodes,
)
from fedgraft.domains.nodes.task.node_task import NodeTask
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.domains.nodes.training.halo_setup import PublishedRows
from fedgraft.domains.nodes.training.neighbour_sums import added
from fedgraft.wire.layouts import Array, Arrays

UNREAD: Final = "the run's model reads nothing of nodes elsewhere"
SUMS_ALONE: Final = "the run told its clients sums over nodes elsewhere, and nothing of single ones"
"""Why edges to nodes of others have no part in answers."""


@dataclass(frozen=True, eq=False)
class Told:
    """What their owners know of nodes, in the order of `NodeQuery.others`.

    Args:
        features: as owners publish them, [nodes, f]; None where they do not.
        degree: how many edges lead to each, by weight where edges have some, [nodes].
        sums: what sums over nodes elsewhere are made of, [nodes, f]; None without them.
        states: those known of each hidden layer.
        answers: float32 [nodes, width], what is told of each in every hop of smoothing.
    """

    features: "Features | None"
    degree: Array
    sums: "Features | None"
    states: Sequence[HaloRows]
    answers: Sequence[Array]

    def take(self, nodes: Indices) -> "Told":
        """Return what is known of some of them, int64 [nodes], ascending."""
        kept = [np.isin(rows.slot, nodes) for rows in self.states]
        return Told(
            None if self.features is None else self.features[nodes],
            self.degree[nodes],
            None if self.sums is None else self.sums[nodes],
            [
                HaloRows(np.searchsorted(nodes, rows.slot[there]), rows.rows[there])
                for rows, there in zip(self.states, kept, strict=True)
            ],
            [rows[nodes] for rows in self.answers],
        )


@dataclass(frozen=True, eq=False)
class NodeAnswers(PredictingTask[NodeShard, NodeData]):
    """Answer questions about nodes, old and new, of a graph that is cut over clients.

    Args:
        task: whose model answers.
        smoothed: how answers, which are classes then, are bettered after training; None for numbers.
    """

    asks: ClassVar[tuple[str, ...]] = ("nodes", "edges")

    task: NodeTask
    smoothed: SmoothedAnswers | None = None

    @property
    def _smooths(self) -> bool:
        return self.smoothed is not None and self.smoothed.ways.hops > 0

    def questions(self, shards: Sequence[NodeShard], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
        """Nodes that clients have, by id, and new ones with features and edges, each with the client that answers."""
        unread = "" if self.task.connected else UNREAD
        if unread and (
            self.task.inputs.sums_neighbours or self._smooths
        ):  # a client knows sums alone of nodes of others
            unread = SUMS_ALONE if CLIENTS in tables else ""
        return split_nodes_asked(shards, tables, unread)

    def predict(
        self, model: nn.Module, shard: NodeShard, remembered: Mapping[str, Any], asked: NodeQuery
    ) -> dict[str, Array]:
        """What the labels tell of each node: its class, and how likely each is, or its number in the user's unit.

        From the client's own part with all new nodes in it, and of its halo from what it was told: features, states.
        """
        data = self.with_asked(shard, remembered, asked)
        if self.smoothed is None:
            answers = self.task.labels.answers(data.scored(model)[asked.nodes], data.unit)
            return {"node": asked.ids, **answers}
        told = self._with_means(self.smoothed, shard.own, remembered, asked, data)
        shares = self.smoothed.as_remembered(model, data, told)
        return {"node": asked.ids, **likeliest(shard.classes, shares[asked.nodes])}

    def represent(self, model: nn.Module, data: NodeData) -> tuple[Array, Array] | None:
        """The last hidden layer [test nodes, width], and their classes or in which fifth of these each number is."""
        test = data.rows["test"]
        return self.task.embeddings(model, data)[test], groups_of(data.label[test])

    @property
    def embeds(self) -> bool:
        """Whether nodes have classes."""
        return self.smoothed is not None

    def embed(
        self, model: nn.Module, shard: NodeShard, remembered: Mapping[str, Any], asked: NodeQuery | None
    ) -> tuple[dict[str, Array], Array]:
        """The last hidden layer of nodes, from what `predict` answers from."""
        asked = test_nodes(shard) if asked is None else asked
        data = self.with_asked(shard, remembered, asked)
        return {"node": asked.ids}, self.task.embeddings(model, data)[asked.nodes]

    def classified(
        self, model: nn.Module, shard: NodeShard, data: NodeData, remembered: Mapping[str, Any]
    ) -> Classified | None:
        """The likeliest classes of the test nodes."""
        if self.smoothed is None:
            return None
        with torch.no_grad():
            shares = self.smoothed.as_remembered(model, data, remembered)
        test = data.rows["test"]
        return Classified(shard.classes, data.label[test], shares[test].argmax(1), shares[test])

    def with_asked(self, shard: NodeShard, remembered: Mapping[str, Any], questions: NodeQuery) -> NodeData:
        """Return the client's own part with all new nodes in it, and of its halo what it was told: features, states.

        Of nodes that new ones have brought into its halo it has what their owners know.
        """
        wide = with_new_nodes(shard, questions)
        before, after = self.task.linked(shard), self.task.linked(wide)
        slots = np.searchsorted(addresses(after), addresses(before))
        heard = np.flatnonzero(np.isin(questions.others, addresses(after)))
        at = np.searchsorted(addresses(after), questions.others[heard])
        told = questions.told.take(heard) if questions.told else None
        shared = remembered.get("shared", {})
        if self.task.connected and after.halo != before.halo:
            rows = PublishedRows(at, told.degree, told.features) if told else None
            shared = self.task.halo_setup.widened(shared, slots, after.halo, rows)
        data = self.task.prepare(wide, self._with_sums(shared, wide, shard.own, questions))
        if self.task.exchange.states:
            known = remembered_halo(remembered.get("states"), shard.own, before.halo, self.task.exchanged.halo_widths)
            if told:
                data.states.receive([HaloRows(at[rows.slot], rows.rows) for rows in told.states])
            data.states.receive([HaloRows(slots[rows.slot], rows.rows) for rows in known])
        return data

    def informed(self, asked: NodeQuery, everybody: Everybody[NodeShard]) -> NodeQuery:
        """Return them with what owners know of the nodes of others to which new ones are joined."""
        if not len(asked.others):
            return asked
        owner, place = asked.others >> 32, asked.others & 0xFFFFFFFF
        parts = [self._told_by(who, place[owner == who], everybody) for who in np.unique(owner).tolist()]
        return replace(asked, told=_together(parts))

    def _with_sums(self, shared: Arrays, wide: NodeShard, own: int, asked: NodeQuery) -> Arrays:
        """What a client was told before training, with sums for its new nodes, which follow so many own ones."""
        if not asked.told or asked.told.sums is None:
            return shared
        at = np.searchsorted(addresses(wide), asked.others)
        return self.task.aggregated.widened(shared, wide, own, added(at, wide.halo, [asked.told.sums]))

    def _told_by(self, who: int, places: Indices, everybody: Everybody[NodeShard]) -> Told:
        """What one client knows of nodes of its own."""
        shard, memory = everybody.shards[who], everybody.memory(who)
        seen = self.task.seen(shard)
        published = self.task.told(shard) if self.task.exchange.features else None
        sums = self.task.aggregated.scaled(published) if self.task.inputs.sums_neighbours and published else None
        states = States(seen.own, seen.halo, self.task.exchanged.halo_widths, memory.get("states"))
        known = [np.flatnonzero(each[places]) for each in states.known]
        return Told(
            published.features[places] if published and not self.task.inputs.sums_neighbours else None,
            (seen.weighted_degree if self.task.edge_weights else seen.degree.astype(np.uint32))[places],
            None if sums is None else sums[places],
            [HaloRows(slot, rows[places[slot]]) for slot, rows in zip(known, states.rows, strict=True)],
            self._answers_of(who, places, everybody),
        )

    def _answers_of(self, who: int, places: Indices, everybody: Everybody[NodeShard]) -> Sequence[Array]:
        """Return what a client tells of nodes of its own in every hop of smoothing, [nodes, width]."""
        kept, smoothed = everybody.memory(who).get("smoothing", {}), self.smoothed
        if smoothed is None or not smoothed.ways.hops or "choice" not in kept:
            return ()
        remembered = everybody.memory(who)
        data = self.task.prepare(everybody.shards[who], remembered.get("shared", {}))
        if "answers" in kept:
            answers = kept["answers"]
        else:
            with torch.no_grad():
                answers = smoothed.answers(everybody.model(who), data.opened(remembered.get("states")))
        told = kept.get("told", answers)
        return [smoothed.told_of(data, told, means_in(kept), hop, places) for hop in range(smoothed.ways.hops)]

    @staticmethod
    def _with_means(
        smoothed: SmoothedAnswers, own: int, remembered: Mapping[str, Any], asked: NodeQuery, data: NodeData
    ) -> Mapping[str, Any]:
        """What a client remembers, with the means of what is told to new nodes, which follow so many own ones."""
        if not (asked.told and asked.told.answers):
            return remembered
        kept, boundary = remembered["smoothing"], smoothed.answered(data).boundary
        before = int(np.searchsorted(boundary.nodes, own))
        row = np.repeat(np.arange(len(boundary.nodes)), boundary.counts)
        new = np.flatnonzero(row >= before)
        at = np.searchsorted(asked.others, boundary.owner[new] << 32 | boundary.place[new])
        weight = np.ones(len(new), np.float32) if boundary.weight is None else boundary.weight[new]
        shape = len(boundary.nodes) - before, len(asked.others)
        mean = sparse.csr_matrix((weight / boundary.totals[row[new]], (row[new] - before, at)), shape=shape)
        nothing = Means(np.zeros((before, smoothed.row_width), np.float32), np.zeros(before, bool))
        means = [*means_in(kept), *[nothing] * smoothed.ways.hops][: smoothed.ways.hops]
        scale = np.float32(kept.get("scale", 1.0))
        rows = [
            coded(scale * np.concatenate([each.rows, mean @ told]))
            for each, told in zip(means, asked.told.answers, strict=True)
        ]
        known = [np.packbits(np.concatenate([each.known, np.ones(shape[0], bool)])) for each in means]
        return {**remembered, "smoothing": {**kept, "rows": rows, "known": known}}


def _together(parts: Sequence[Told]) -> Told:
    """What several clients know of their nodes, one after the other."""
    starts = np.cumsum([0, *(len(part.degree) for part in parts)])
    layers = zip(*(part.states for part in parts), strict=True)
    features = [part.features for part in parts if part.features is not None]
    sums = [part.sums for part in parts if part.sums is not None]
    return Told(
        stacked(features) if features else None,
        np.concatenate([part.degree for part in parts]),
        stacked(sums) if sums else None,
        [
            HaloRows(
                np.concatenate([start + rows.slot for start, rows in zip(starts, layer, strict=False)]),
                np.concatenate([rows.rows for rows in layer]),
            )
            for layer in layers
        ],
        [np.concatenate(rows) for rows in zip(*(part.answers for part in parts), strict=True)],
    )
