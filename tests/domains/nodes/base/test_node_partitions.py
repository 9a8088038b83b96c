import logging

import numpy as np
import pytest

from fedgraft.domains import dealing
from fedgraft.domains.nodes.base.partitions import NodeDealing, louvain, louvain_even, metis, thin
from fedgraft.errors import InputError
from helpers.toy_nodes import directed, whole

CLIQUES = [(a + s, b + s) for s in (0, 5) for a in range(5) for b in range(a)] + [(0, 5)]
"""Two cliques of five nodes, and an edge between them."""


def g(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_too_few_nodes_for_the_clients() -> None:
    with pytest.raises(InputError, match=r"Toy.clients must be at most 6, the nodes of toy; got 7"):
        NodeDealing("Toy", 7).deal(whole(), 0)


def test_communities_go_to_clients() -> None:
    graph = whole(CLIQUES, [0, 1] * 5)
    owner = louvain(graph, 2, g())
    assert (owner == owner[[0] * 5 + [5] * 5]).all(), "a client each"
    assert owner[0] != owner[5]


def test_the_largest_community_first_to_the_client_with_the_fewest_nodes() -> None:
    sizes = [6, 5, 4, 3]
    starts = np.cumsum([0, *sizes])
    edges = [(int(s) + a, int(s) + b) for s, n in zip(starts, sizes, strict=False) for a in range(n) for b in range(a)]
    owner = louvain(whole(edges, [0, 1] * 9), 2, g())
    assert np.bincount(owner).tolist() == [9, 9]
    assert [int(owner[s]) for s in starts[:-1]] == [0, 1, 1, 0]


def test_an_even_cut_deals_pieces_of_communities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cliques of 7, 3 and 2; three clients' share is 4, pieces have 3 at most: 3 3 1, 3 and 2."""
    monkeypatch.setattr(dealing, "SLACK", 1)
    sizes = [7, 3, 2]
    starts = np.cumsum([0, *sizes])
    edges = [(int(s) + a, int(s) + b) for s, n in zip(starts, sizes, strict=False) for a in range(n) for b in range(a)]
    owner = louvain_even(whole(edges, [0, 1] * 6), 3, g())
    assert owner.tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 0, 0], "3 3 3 in turn, 2 where fewest are, 1 to the next"


@pytest.mark.parametrize("cut", [louvain_even, metis], ids=lambda each: each.__name__)
def test_even_cuts_give_clients_equal_numbers(cut) -> None:
    if cut is metis:
        pytest.importorskip("pymetis")
    ring = [(k, (k + step) % 300) for k in range(300) for step in (1, 2)]
    owner = cut(whole(ring, [0, 1] * 150), 5, g())
    counts = np.bincount(owner, minlength=5)
    assert counts.sum() == 300
    assert np.abs(counts - 60).max() <= dealing.SLACK
    assert owner.tolist() == cut(whole(ring, [0, 1] * 150), 5, g()).tolist()


def test_edges_between_clients_may_be_dropped() -> None:
    graph = whole(CLIQUES, [0, 1] * 5)
    kept, dropped = (NodeDealing("Toy", 2, "louvain", between=between).deal(graph, 1) for between in (True, False))
    assert [shard.halo for shard in kept] == [1, 1]
    assert [shard.halo for shard in dropped] == [0, 0]
    assert directed(dropped) == [pair for pair in directed(kept) if {int(node) < 5 for node in pair} != {True, False}]


def test_more_clients_than_communities_take_a_finer_resolution(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        owner = louvain(whole(CLIQUES, [0, 1] * 5), 4, g())
    assert set(owner) == {0, 1, 2, 3}
    assert "communities for 4 clients, at resolution" in caplog.text
    assert set(louvain(whole([], [0, 1] * 5), 10, g())) == set(range(10)), "a lone node is a community"


def test_communities_of_a_large_graph_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dealing, "LOUVAIN_EDGES", 4)
    with pytest.raises(InputError, match=r"found in graphs of at most 4 edges; toy has 5\. Take partition 'iid'"):
        louvain(whole(), 2, g())


def test_a_share_of_the_edges_is_kept_both_ways() -> None:
    graph = whole(CLIQUES, [0, 1] * 5)
    left = thin(graph, 0.5, g())
    assert len(left.senders) == 20, "10 of 21 undirected edges"
    receiver = np.repeat(np.arange(10), left.degree)
    kept = set(zip(receiver.tolist(), left.senders.tolist(), strict=True))
    assert kept == {(b, a) for a, b in kept}
    assert kept < {(a, b) for one, two in CLIQUES for a, b in ((one, two), (two, one))}
    assert thin(graph, 1.0, g()) is graph


def test_an_alpha_that_the_partition_does_not_read_is_told(caplog: pytest.LogCaptureFixture) -> None:
    graph = whole(CLIQUES, [0, 1] * 5)
    for partition, alpha in (("iid", 0.5), ("dirichlet", 9.0), ("iid", 0.1)):
        NodeDealing("Toy", 1, partition, alpha).deal(graph, 1)
    assert caplog.messages == ["Toy.alpha = 0.1 is of 'dirichlet' alone; partition is 'iid'."]


def test_who_holds_a_node_depends_on_the_seed_and_not_on_edges_and_fold() -> None:
    graph = whole(CLIQUES, [0, 1] * 5)
    plain, thinned, again, other = (
        NodeDealing("Toy", 2, edges=edges, fold=fold).deal(graph, seed)
        for edges, fold, seed in ((1.0, 0, 1), (0.5, 1, 1), (1.0, 0, 1), (1.0, 0, 2))
    )
    held = [[shard.ids.tolist() for shard in shards] for shards in (plain, thinned, again, other)]
    assert held[0] == held[1] == held[2] != held[3]
    assert directed(plain) == directed(again)
    assert set(directed(thinned)) < set(directed(plain))
    assert [shard.name for shard in plain] == ["toy-0", "toy-1"]
    assert sorted(np.concatenate([shard.split for shard in plain])) == [0] * 6 + [1] * 2 + [2] * 2
    halved = NodeDealing("Toy", 2, shares="80:10:10").deal(graph, 1)
    assert [shard.ids.tolist() for shard in halved] == held[0]
    assert sorted(np.concatenate([shard.split for shard in halved])) == [0] * 8 + [1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 0}, "Toy.clients must be >= 1; got 0"),
        ({"partition": "even"}, "one of 'iid', 'dirichlet', 'louvain', 'louvain_even', 'metis', 'hash'; got 'even'"),
        ({"alpha": 0.0}, "Toy.alpha must be > 0; got 0.0"),
        ({"alpha": float("inf")}, "Toy.alpha must be finite; got inf"),
        ({"edges": 0.0}, r"Toy.edges must be in \(0, 1\]; got 0.0"),
        ({"edges": 1.5}, r"Toy.edges must be in \(0, 1\]; got 1.5"),
        ({"fold": 5}, r"Toy.fold must be in \[0, 4\]; got 5"),
        ({"shares": "8:1:1"}, "Toy.shares must be one of '64:16:20', '80:10:10', '20:40:40'; got '8:1:1'"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        NodeDealing("Toy", **{"clients": 2, **options})  # type: ignore[arg-type]
