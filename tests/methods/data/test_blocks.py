import numpy as np
import pytest
from scipy import sparse

from fedgraft.domains.nodes.base.shards import WholeGraph, merge_shards, undirected
from fedgraft.errors import InputError
from fedgraft.methods.data.blocks import WORDS, Blocks


def neighbours(graph: WholeGraph) -> sparse.csr_matrix:
    return sparse.csr_matrix((np.ones(len(graph.senders)), graph.senders, graph.pointers), (graph.nodes, graph.nodes))


@pytest.mark.parametrize(("homophily", "classes"), [(0.7, 5), (1.0, 3), (0.0, 4)])
def test_degree_and_homophily_are_what_was_asked_for(homophily: float, classes: int) -> None:
    graph = Blocks(degree=12.0, homophily=homophily, classes=classes).graph(1)
    assert 2 * graph.edges / graph.nodes == pytest.approx(12, rel=0.01)
    receiver = np.repeat(np.arange(graph.nodes), graph.degree)
    assert (graph.label[receiver] == graph.label[graph.senders]).mean() == pytest.approx(homophily, abs=0.01)
    assert np.bincount(graph.label).min() >= 2000 // classes
    assert (graph.degree == 0).sum() < 5
    # Sound as it is: both ways, ascending, no loops, no repeats.
    pointers, senders, notes = undirected(np.stack([receiver, graph.senders]), graph.nodes, "edge")
    assert notes == ()
    assert (np.array_equal(pointers, graph.pointers), np.array_equal(senders, graph.senders)) == (True, True)


def test_draws_reach_every_pair() -> None:
    # Ten nodes of two classes, as dense as may be: over many seeds each of the 45 pairs is drawn.
    seen = np.zeros((10, 10))
    for seed in range(60):
        graph = Blocks(nodes=10, classes=2, clients=1, degree=4.4, homophily=0.45).graph(seed)
        order = np.argsort(graph.label, kind="stable")
        seen += neighbours(graph).toarray()[np.ix_(order, order)]
    assert (seen[~np.eye(10, dtype=bool)] > 0).all()
    assert np.trace(seen) == 0
    inside = np.kron(np.eye(2), np.ones((5, 5))).astype(bool) & ~np.eye(10, dtype=bool)
    for pairs in (inside, np.kron(1 - np.eye(2), np.ones((5, 5))).astype(bool)):
        assert seen[pairs].std() < 0.25 * seen[pairs].mean(), "all of a kind are as likely"


@pytest.mark.parametrize(("is_sparse", "signal"), [(False, 1.5), (True, 3.0)])
def test_neighbours_know_more_than_a_node_itself(is_sparse: bool, signal: float) -> None:
    data = Blocks(sparse=is_sparse, signal=signal, features=60)
    graph = data.graph(1)
    assert sparse.issparse(graph.features) == is_sparse
    own = graph.features.toarray() if is_sparse else graph.features
    both = (neighbours(graph) @ own + own) / (graph.degree + 1)[:, None]
    train = np.arange(graph.nodes) < 1000
    scores = []
    for x in (own, both):
        centre = np.stack([x[train & (graph.label == k)].mean(axis=0) for k in range(5)])
        guess = ((x[:, None] - centre) ** 2).sum(axis=2).argmin(axis=1)
        scores.append(float((guess == graph.label)[~train].mean()))
    assert 0.4 < scores[0] < scores[1] - 0.1
    silent = Blocks(sparse=is_sparse, signal=0.0, features=60).graph(1).features
    values = silent.toarray() if is_sparse else silent
    centre = np.stack([values[graph.label == k].mean(axis=0) for k in range(5)])
    assert np.ptp(centre, axis=0).max() < 0.3, "without signal classes are alike"


def test_words_are_ones() -> None:
    words = Blocks(sparse=True, features=50).graph(1).features
    assert set(words.data) == {1.0}
    assert 0.8 * WORDS * (1 - WORDS / 100) < words.sum(axis=1).mean() <= WORDS
    assert words.has_canonical_format


def test_shards() -> None:
    shards = Blocks(nodes=300, partition="dirichlet", clients=6, edges=0.5).load(1)
    assert [shard.name for shard in shards] == [f"blocks-{k}" for k in range(6)]
    together = merge_shards(shards)
    assert np.bincount(together.split).tolist() == [192, 48, 60]
    assert len(together.senders) == pytest.approx(0.5 * 300 * 6, rel=0.02)
    assert sum(shard.halo for shard in shards) > 0
    assert len(Blocks(nodes=10, classes=2, clients=10, degree=0.0).load(0)) == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": 1}, "Blocks.classes must be >= 2; got 1"),
        ({"nodes": 24}, r"Blocks.nodes must be in \[25 \(5 per class\), 2\^31 - 1\]; got 24"),
        ({"nodes": 2**31}, r"Blocks.nodes must be in \[25 \(5 per class\), 2\^31 - 1\]; got 2147483648"),
        ({"clients": 2001}, r"Blocks.clients must be at most 2000 \(nodes\); got 2001"),
        ({"clients": 0}, "Blocks.clients must be >= 1; got 0"),
        ({"features": 0}, "Blocks.features must be >= 1; got 0"),
        ({"features": 4, "sparse": True}, "Blocks.features must be >= 5; got 4"),
        ({"homophily": 1.1}, r"Blocks.homophily must be in \[0, 1\]; got 1.1"),
        ({"signal": -1.0}, "Blocks.signal must be >= 0; got -1.0"),
        ({"signal": 21.0, "sparse": True}, r"Blocks.signal must be in \[0, 20\]; got 21.0"),
        ({"degree": -1.0}, "Blocks.degree must be >= 0; got -1.0"),
        ({"degree": 300.0}, r"Blocks.degree must be at most 285, or half of the edges .* would exist; got 300.0"),
        ({"partition": "even"}, "Blocks.partition must be one of"),
        ({"edges": 0.0}, r"Blocks.edges must be in \(0, 1\]; got 0.0"),
        ({"fold": -1}, r"Blocks.fold must be in \[0, 4\]; got -1"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Blocks(**options)  # type: ignore[arg-type]
