"""New nodes that are joined to nodes of others: what a client then knows of these, from what it was told and owners."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.contracts.abilities.matching import CLIENTS, ELSEWHERE
from fedgraft.contracts.abilities.predicting import Everybody
from fedgraft.contracts.abilities.smoothing import coded, means_in
from fedgraft.contracts.values import HaloRows
from fedgraft.domains.nodes.base.features import FeatureRows
from fedgraft.domains.nodes.base.historical_embeddings import States
from fedgraft.domains.nodes.base.shards import NodeShard, addresses, cut
from fedgraft.domains.nodes.task.answers import SUMS_ALONE, UNREAD
from fedgraft.domains.nodes.training.halo_setup import thinned
from fedgraft.methods.exchanges.halo import Halo
from fedgraft.methods.models.mlp import MLP
from fedgraft.methods.models.sage import SAGE
from fedgraft.methods.tasks.node import Node
from helpers.stages import staged
from helpers.toy_nodes import whole

NAMES = ("a", "b", "c")
WAYS: dict[str, dict[str, Any]] = {
    "features": {"exchange.states": False},
    "features, at most one": {"exchange.states": False, "exchange.halo": 1},
    "encrypted features": {"exchange.states": False, "exchange.encrypted_rows": True},
    "averaged features": {"exchange.states": False, "inputs.propagate": 1},
    "sums": {"exchange.states": False, "inputs.aggregates": True},
}


def rows_of(features: FeatureRows, nodes: Any) -> list[list[float]]:
    """Rows of some nodes, own ones first."""
    return features.filled(np.asarray(nodes)).tolist()


def graphs(seed: int, is_sparse: bool) -> tuple[list[NodeShard], list[NodeShard], list[tuple[str, str]], int]:
    """Shards of a graph, those without some last nodes of the first client, the edges of these, and how many."""
    g = np.random.default_rng(seed)
    new, known = int(g.integers(1, 4)), int(g.integers(6, 20))
    owner = np.concatenate([[0, 1, 2, 0, 1, 2], g.integers(0, 3, known - 6), np.zeros(new, int)])
    ends = g.integers(0, known + new, (3 * len(owner), 2))
    edges = [(int(one), int(other)) for one, other in ends if one != other]
    edges = [pair for pair in edges if max(pair) < known or min(pair) < known or owner[min(pair)] == 0]
    label = [0] * len(owner)
    inner = [pair for pair in edges if max(pair) < known]
    full = cut(whole(edges, label, is_sparse=is_sparse), owner, NAMES)
    rest = cut(whole(inner, label[:known], is_sparse=is_sparse), owner[:known], NAMES)
    added = list(dict.fromkeys((str(min(pair)), str(max(pair))) for pair in edges if max(pair) >= known))
    return full, rest, added, new


def asking(how: Node, rest: Sequence[NodeShard], added: Sequence[tuple[str, str]], new: int) -> Any:
    """Questions about the new nodes, to the first client."""
    begin = sum(shard.own for shard in rest)
    nodes = pd.DataFrame([(str(v), v, 1, "a") for v in range(begin, begin + new)], columns=["node", "0", "1", "client"])
    edges = pd.DataFrame(added, columns=["source", "target"])
    return how.asked.questions(rest, {"nodes": nodes, "edges": edges})[0].asked


def told_of(how: Node, shards: Sequence[NodeShard]) -> Mapping[int, Mapping[str, np.ndarray]]:
    """What each client is told before training."""
    return how.publications.combine({client: how.publications.statistics(each) for client, each in enumerate(shards)})


def everybody(rest: Sequence[NodeShard], memories: Mapping[int, Mapping[str, Any]]) -> Everybody[NodeShard]:
    return Everybody(rest, memories.__getitem__, lambda client: None)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), way=st.sampled_from(sorted(WAYS)), is_sparse=st.booleans())
def test_new_nodes_know_what_they_would_had_they_always_been_there(seed: int, way: str, is_sparse: bool) -> None:
    full, rest, added, new = graphs(seed, is_sparse)
    how = Node(**staged("node", {"encoder": SAGE(hidden=(4,)), **WAYS[way]})).fitted(full)
    told, wanted = told_of(how, rest), how.prepare(full[0], told_of(how, full)[0])
    memories = {client: {"shared": each} for client, each in told.items()}
    asked = how.asked.informed(asking(how, rest, added, new), everybody(rest, memories))
    found = how.asked.with_asked(rest[0], memories[0], asked)
    begin, behind = rest[0].own, np.arange(rest[0].own, full[0].own)
    np.testing.assert_array_equal(found.around.edges, wanted.around.edges)
    if how.inputs.aggregates:
        np.testing.assert_allclose(rows_of(found.sums, behind), rows_of(wanted.sums, behind), rtol=1e-6)
    elif way != "averaged features":  # where the new ones add to rows of others
        nodes = np.arange(wanted.own + wanted.halo)
        np.testing.assert_allclose(rows_of(found.features, nodes), rows_of(wanted.features, nodes), rtol=1e-6)
    assert found.halo == wanted.halo
    np.testing.assert_array_equal(found.known, wanted.known)
    assert found.own == begin + new


def test_states_of_nodes_elsewhere_are_those_told_and_else_their_owners() -> None:
    shards = cut(whole([(0, 2), (1, 2), (2, 3), (3, 4)], [0] * 6), np.array([0, 0, 1, 1, 2, 2]), NAMES)
    how = Node(encoder=SAGE(hidden=(4, 3)), exchange=Halo(halo=1)).fitted(shards)
    told = told_of(how, shards)
    memories: dict[int, dict[str, Any]] = {}
    for client, shard in enumerate(shards):
        halo = thinned(shard, 1).halo
        states = States(shard.own, halo, how.exchanged.halo_widths)
        states.write(
            0, np.arange(shard.own - (client == 2)), np.full((shard.own - (client == 2), 4), client, np.float32)
        )
        states.receive([HaloRows(np.arange(halo), np.full((halo, 4), 9, np.float32))])
        memories[client] = {"shared": told[client], "states": states.to_tree()}
    nodes = pd.DataFrame([("x", 6, 1, "a"), ("y", 7, 1, "a")], columns=["node", "0", "1", "client"])
    edges = pd.DataFrame([("x", "2"), ("y", "4"), ("x", "y")], columns=["source", "target"])
    asked = how.asked.questions(shards, {"nodes": nodes, "edges": edges})[0].asked
    assert asked.others.tolist() == [1 << 32, 2 << 32]
    here = how.asked.with_asked(shards[0], memories[0], how.asked.informed(asked, everybody(shards, memories)))
    assert here.halo == 2
    assert rows_of(here.features, [4, 5]) == [[2, 1], [4, 1]]
    assert here.states.rows[0][4:].tolist() == [[9] * 4, [2] * 4], "what it was told counts before what owners know"
    assert here.states.known[0][4:].tolist() == [True, True]
    site = how.asked.with_asked(shards[0], memories[0], asked)
    assert rows_of(site.features, [4, 5]) == [[2, 1], [0, 0]]
    assert site.known[4:].tolist() == [True, False]
    blank = how.asked.with_asked(shards[0], {}, how.asked.informed(asked, everybody(shards, {1: {}, 2: {}})))
    assert rows_of(blank.features, [4, 5]) == [[2, 1], [4, 1]]


def test_smoothed_answers_of_neighbours_elsewhere_are_their_owners() -> None:
    shards = cut(whole([(0, 2), (1, 3), (2, 3), (4, 2)], [0, 1, 0, 1, 0, 1]), np.array([0, 0, 1, 1, 2, 2]), NAMES)
    options = {"exchange.features": False, "exchange.states": False, "answers.smoothing": 2}
    how = Node(**staged("node", {"encoder": MLP(hidden=4), **options})).fitted(shards)
    shares = np.array([[0.9, 0.1], [0.2, 0.8]], np.float32)
    means = {"rows": [coded(np.full((b, 1), 0.5, np.float32)) for b in (2, 2)], "known": [np.packbits([1, 1])] * 2}
    alone = {"rows": [np.zeros((1, 1), np.int8)] * 2, "known": [np.packbits([1])] * 2}
    memories = {
        client: {"smoothing": {"choice": 1, "answers": shares, **(alone if client == 2 else means)}}
        for client in range(3)
    }
    nodes = pd.DataFrame([("x", 6, 1, "a")], columns=["node", "0", "1", "client"])
    edges = pd.DataFrame([("x", "2"), ("x", "5"), ("x", "0")], columns=["source", "target"])
    (questions,) = how.asked.questions(shards, {"nodes": nodes, "edges": edges}).values()
    asked = how.asked.informed(questions.asked, everybody(shards, memories))
    data = how.asked.with_asked(shards[0], memories[0], asked)
    found = means_in(how.asked._with_means(how.smoothed, shards[0].own, memories[0], asked, data)["smoothing"])
    assert [each.known.tolist() for each in found] == [[True] * 3] * 2
    # Nodes 2 and 5 have 0.9 and 0.2; after a hop 2 has the mean of 3 (0.2) and 0, 4 elsewhere (0.5 each), 5 is alone.
    one_hop = ((0.2 + 2 * 0.5) / 3 + 0.2) / 2
    np.testing.assert_allclose([each.rows[2, 0] for each in found], [(0.9 + 0.2) / 2, one_hop], atol=0.01)
    assert found[0].rows[:2, 0] == pytest.approx([0.5, 0.5], abs=0.01)


@pytest.mark.parametrize(
    ("options", "is_site", "note"),
    [
        ({}, False, ""),
        ({}, True, ""),
        (WAYS["sums"], False, ""),
        (WAYS["sums"], True, SUMS_ALONE),
        ({"exchange.features": False, "exchange.states": False}, False, UNREAD),
        ({"exchange.features": False, "exchange.states": False, "answers.smoothing": 1}, False, ""),
        ({"exchange.features": False, "exchange.states": False, "answers.smoothing": 1}, True, SUMS_ALONE),
    ],
)
def test_edges_that_have_no_part_are_named(
    options: dict[str, Any], is_site: bool, note: str, caplog: pytest.LogCaptureFixture
) -> None:
    shards = cut(whole([(0, 2)], [0] * 4), np.array([0, 0, 1, 1]), ("a", "b"))
    how = Node(**staged("node", {"encoder": SAGE(hidden=(4, 4)), **options})).fitted(shards)
    tables = {
        "nodes": pd.DataFrame([("x", 6, 1), ("y", 7, 1)], columns=["node", "0", "1"]).assign(client="a"),
        "edges": pd.DataFrame([("x", "2"), ("x", "0"), ("x", "y")], columns=["source", "target"]),
    }
    if is_site:
        tables[CLIENTS] = pd.DataFrame({"name": ["a", "b"]})
        tables[ELSEWHERE] = pd.DataFrame({"owner": [1], "place": [0], "node": ["2"]})
    asked = how.asked.questions(shards[: 2 - is_site], tables)[0].asked
    assert (f"predict.edges: 1 edges to nodes of other clients left out: {note}." in caplog.text) == bool(note)
    assert asked.others.tolist() == ([] if note else addresses(shards[0]).tolist())
