"""Questions to tasks about nodes: new nodes beside a client's own, and what is known of nodes of others beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from torch import nn

from fedgraft.contracts import HaloRows, Indices, Questions
from fedgraft.contracts.abilities.informed import Everybody, InformedTask
from fedgraft.contracts.abilities.matching import CLIENTS
from fedgraft.domains.examples import Features, stacked
from fedgraft.domains.nodes.base.historical_embeddings import States
from fedgraft.domains.nodes.base.shards import NodeShard, addresses
from fedgraft.domains.nodes.reading.queries import Asked, remembered_halo, split_nodes_asked, with_new_nodes
from fedgraft.domains.nodes.task.node_task import NodeTask
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.domains.nodes.training.halo_setup import ToldRows
from fedgraft.domains.nodes.training.neighbour_sums import added
from fedgraft.domains.nodes.training.smoothed_inputs import prepared
from fedgraft.wire.layouts import Array, Arrays

UNREAD: Final = "the run's model reads nothing of nodes elsewhere"
SUMS_ALONE: Final = "the run told its clients sums over nodes elsewhere, and nothing of single ones"
"""Why edges to nodes of others have no part in answers."""


@dataclass(frozen=True, eq=False)
class Told:
    """What their owners know of nodes, in the order of `Asked.others`.

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


class InformedNodes(NodeTask, InformedTask[NodeShard, NodeData]):
    """Answer questions about nodes of a graph that is cut over clients."""

    @property
    def reads_sums(self) -> bool:
        """Whether nodes of others have a part in answers of which a client knows sums alone."""
        return self.inputs.sums_neighbours

    def questions(self, shards: Sequence[NodeShard], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
        """Nodes that clients have, by id, and new ones with features and edges, each with the client that answers."""
        unread = "" if self._connected else UNREAD
        if unread and self.reads_sums:
            unread = SUMS_ALONE if CLIENTS in tables else ""
        return split_nodes_asked(shards, tables, unread)

    def predict(
        self, model: nn.Module, shard: NodeShard, remembered: Mapping[str, Any], asked: Asked
    ) -> dict[str, Array]:
        """What the labels tell of each node: its class, or its number in the user's unit."""
        data = self.with_asked(shard, remembered, asked)
        return {"node": asked.ids, **self.labels.answers(data.scored(model)[asked.nodes], data.unit)}

    def with_asked(self, shard: NodeShard, remembered: Mapping[str, Any], questions: Asked) -> NodeData:
        """Return the client's own part with all new nodes in it, and of its halo what it was told: features, states.

        Of nodes that new ones have brought into its halo it has what their owners know.
        """
        wide = with_new_nodes(shard, questions)
        before, after = self._linked(shard), self._linked(wide)
        slots = np.searchsorted(addresses(after), addresses(before))
        heard = np.flatnonzero(np.isin(questions.others, addresses(after)))
        at = np.searchsorted(addresses(after), questions.others[heard])
        told = questions.told.take(heard) if questions.told else None
        shared = remembered.get("shared", {})
        if self._connected and after.halo != before.halo:
            rows = ToldRows(at, told.degree, told.features) if told else None
            shared = self._halo_setup.widened(shared, slots, after.halo, rows)
        data = self.prepare(wide, self._with_sums(shared, wide, shard.own, questions))
        if self.exchange.states:
            known = remembered_halo(remembered.get("states"), shard.own, before.halo, self.halo_widths)
            if told:
                data.states.receive([HaloRows(at[rows.slot], rows.rows) for rows in told.states])
            data.states.receive([HaloRows(slots[rows.slot], rows.rows) for rows in known])
        return data

    def informed(self, asked: Asked, everybody: Everybody[NodeShard]) -> Asked:
        """Return them with what owners know of the nodes of others to which new ones are joined."""
        if not len(asked.others):
            return asked
        owner, place = asked.others >> 32, asked.others & 0xFFFFFFFF
        parts = [self._told_by(who, place[owner == who], everybody) for who in np.unique(owner).tolist()]
        return replace(asked, told=_together(parts))

    def _with_sums(self, shared: Arrays, wide: NodeShard, own: int, asked: Asked) -> Arrays:
        """What a client was told before training, with sums for its new nodes, which follow so many own ones."""
        if not asked.told or asked.told.sums is None:
            return shared
        at = np.searchsorted(addresses(wide), asked.others)
        return self._aggregates.widened(shared, wide, own, added(at, wide.halo, [asked.told.sums]))

    def _told_by(self, who: int, places: Indices, everybody: Everybody[NodeShard]) -> Told:
        """What one client knows of nodes of its own."""
        shard, memory = everybody.shards[who], everybody.memory(who)
        seen = self._seen(shard)
        published = prepared(self.inputs, seen) if self.exchange.features else None
        sums = self._aggregates.scaled(published) if self.inputs.sums_neighbours and published else None
        states = States(seen.own, seen.halo, self.halo_widths, memory.get("states"))
        known = [np.flatnonzero(each[places]) for each in states.known]
        return Told(
            published.features[places] if published and not self.inputs.sums_neighbours else None,
            (seen.weighted_degree if self.edge_weights else seen.degree.astype(np.uint32))[places],
            None if sums is None else sums[places],
            [HaloRows(slot, rows[places[slot]]) for slot, rows in zip(known, states.rows, strict=True)],
            self.answers_of(who, places, everybody),
        )

    def answers_of(self, who: int, places: Indices, everybody: Everybody[NodeShard]) -> Sequence[Array]:
        """Return what a client tells of nodes of its own in every hop of smoothing, [nodes, width]; by default none."""
        return ()


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
