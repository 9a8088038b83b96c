"""Metapaths by hand: which papers they join; and PageRank against networkx."""

import networkx
import numpy as np
import pytest

from fedgraft.domains.typed.metapath_graphs import cross_client_targets, metapath_matrix, page_rank
from fedgraft.errors import InputError
from helpers.typed_graphs import typed_graph


def joined(graph, metapath, most=0):
    matrix = metapath_matrix(graph, metapath, most)
    assert set(matrix.data.tolist()) <= {1.0}
    return {(int(i), int(j)) for i, j in zip(*matrix.nonzero(), strict=True) if i != j}


def test_papers_by_their_authors():
    # author 0 wrote papers 0 and 1, author 1 papers 1 and 2; nobody else wrote two
    graph = typed_graph({("paper", "author"): [(0, 0), (1, 0), (1, 1), (2, 1), (3, 2)]})
    assert joined(graph, "paper-author-paper") == {(0, 1), (1, 0), (1, 2), (2, 1)}


def test_authors_by_the_venues_of_their_papers():
    edges = {("author", "paper"): [(0, 0), (1, 1), (2, 2)], ("paper", "venue"): [(0, 0), (1, 0), (2, 1)]}
    graph = typed_graph(edges, target="author")
    assert joined(graph, "author-paper-venue-paper-author") == {(0, 1), (1, 0)}


def test_a_metapath_by_edges_within_a_type_goes_both_ways():
    edges = {("author", "paper"): [(0, 0), (1, 1), (2, 2)], ("paper", "paper"): [(0, 1)]}
    assert joined(typed_graph(edges, target="author"), "author-paper-paper-author") == {(0, 1), (1, 0)}
    assert joined(typed_graph({("paper", "paper"): [(0, 1), (1, 2)]}), "paper-paper") == {
        (0, 1),
        (1, 0),
        (1, 2),
        (2, 1),
    }


def test_every_node_is_joined_to_itself_and_by_its_type_alone_to_nothing_else():
    graph = typed_graph({("paper", "author"): [(0, 0), (1, 0)]})
    assert (metapath_matrix(graph, "paper-author-paper").diagonal() == 1).all()
    assert joined(graph, "paper") == set()


def test_the_neighbours_that_most_paths_lead_to_are_kept():
    # papers 0 and 1 share two authors, papers 0 and 2 one
    graph = typed_graph({("paper", "author"): [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (2, 2)]})
    assert joined(graph, "paper-author-paper", most=1) == {(0, 1), (1, 0), (2, 0)}


def test_edges_are_there_once_and_either_way_whichever_metapath_joins():
    # papers 0 and 1 share an author and a venue, papers 0 and 2 two authors; with one neighbour each, 1 chooses 0
    edges = {
        ("paper", "author"): [(0, 0), (1, 0), (0, 1), (2, 1), (0, 2), (2, 2)],
        ("paper", "venue"): [(0, 0), (1, 0)],
    }
    graph, metapaths = typed_graph(edges), ("paper-author-paper", "paper-venue-paper")
    for most, paths in ((0, metapaths), (1, metapaths[:1])):
        found = cross_client_targets(graph, paths, most).T.tolist()
        assert sorted(found) == [[0, 1], [0, 2], [1, 0], [2, 0]]
    assert cross_client_targets(graph, ["paper"]).shape == (2, 0)


def test_the_same_neighbours_are_kept_every_time():
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, [60, 5], (150, 2)), axis=0).tolist()
    graph = typed_graph({("paper", "author"): pairs})
    first, again = (joined(graph, "paper-author-paper", most=3) for _ in range(2))
    assert first == again
    counts = np.bincount([i for i, _ in first])
    assert counts.max() == 3


def test_means_are_over_others():
    graph = typed_graph({("paper", "author"): [(0, 0), (1, 0), (2, 0), (3, 1)]})
    others = metapath_matrix(graph, "paper-author-paper").toarray() - np.eye(4)
    means = others / np.maximum(others.sum(axis=1, keepdims=True), 1)
    assert means[0].tolist() == [0, 0.5, 0.5, 0]
    assert means[3].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("metapath", "text"),
    [
        ("paper-autor-paper", r"No node type named 'autor'\. Did you mean 'author'\? Known: author, paper, venue"),
        ("paper-author-venue-paper", r"there are no edges author-venue\. There are, for example: paper-author-paper"),
        ("paper-author", r"it must begin and end at 'paper'"),
    ],
)
def test_a_metapath_that_does_not_exist_is_refused_with_those_that_do(metapath, text):
    graph = typed_graph({("paper", "author"): [(0, 0)], ("paper", "venue"): [(0, 0)]})
    with pytest.raises(InputError, match=text):
        metapath_matrix(graph, metapath)


def test_page_rank_is_networkx_s():
    graph = typed_graph({("paper", "author"): [(0, 0), (1, 0), (1, 1), (2, 1)], ("paper", "venue"): [(0, 0), (3, 0)]})
    network = networkx.Graph()
    network.add_nodes_from((kind, k) for kind, ids in graph.ids.items() for k in range(len(ids)))
    for (one, other), ends in graph.edges.items():
        network.add_edges_from(((one, int(a)), (other, int(b))) for a, b in ends.T)
    wanted = networkx.pagerank(network, alpha=0.85, tol=1e-10, max_iter=1000)
    expected = [wanted["paper", k] * graph.nodes for k in range(graph.targets)]
    assert page_rank(graph).tolist() == pytest.approx(expected, rel=1e-3)
