import time

import numpy as np
import pytest
from scipy import sparse

from fedgraft.domains.typed.shards import TypedGraph, merge_graphs
from fedgraft.errors import InputError
from fedgraft.methods.data.typed_blocks import WORDS, TypedBlocks


def around(part: TypedGraph, kind: str) -> np.ndarray:
    """Means of the words of papers with the same author or venue, itself among them."""
    matrix = part.adjacency("paper", kind)
    joined = (matrix @ matrix.T).toarray()
    return joined / np.maximum(joined.sum(axis=1, keepdims=True), 1) @ part.features


def accuracy(parts: list[TypedGraph], metapaths: bool) -> float:
    """Of the nearest mean of a class in training, over a paper's own words or those along metapaths too."""
    kinds = ("author", "venue") if metapaths else ()
    x = np.concatenate([np.concatenate([p.features, *(around(p, kind) for kind in kinds)], axis=1) for p in parts])
    label, split = (np.concatenate([getattr(part, key) for part in parts]) for key in ("label", "split"))
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-6)
    centre = np.stack([x[(split == 0) & (label == k)].mean(axis=0) for k in range(label.max() + 1)])
    guess = ((x[split == 2][:, None] - centre) ** 2).sum(axis=2).argmin(axis=1)
    return float((guess == label[split == 2]).mean())


def test_metapaths_know_more_than_a_paper_itself() -> None:
    began = time.perf_counter()
    parts = TypedBlocks().load(1)
    assert time.perf_counter() - began < 0.5
    alone, joined = accuracy(parts, False), accuracy(parts, True)
    assert 0.45 < alone < 0.75
    assert joined > alone + 0.1
    noise = TypedBlocks(noise=1.0).load(1)
    assert abs(accuracy(noise, True) - accuracy(noise, False)) < 0.08, "where all is noise they tell nothing"
    silent = TypedBlocks(signal=0.0).load(1)
    assert accuracy(silent, False) < 0.35


def test_the_graph_is_what_was_asked_for() -> None:
    graph = TypedBlocks(papers=30, clients=4, classes=3, authors=5, venues=2, features=12).graph(1)
    assert {kind: len(ids) for kind, ids in graph.ids.items()} == {"paper": 120, "author": 15, "venue": 6}
    assert np.bincount(graph.label).tolist() == [40, 40, 40]
    assert graph.edges["paper", "venue"].shape == (2, 120)
    assert 2 * 120 < graph.edges["paper", "author"].shape[1] <= 3 * 120
    assert graph.ids["author"][0] == "author 0"
    pure = TypedBlocks(noise=0.0, classes=4, authors=20).graph(1)
    paper, author = pure.edges["paper", "author"]
    assert (author // 20 == pure.label[paper]).all()


def test_words_are_ones() -> None:
    words = TypedBlocks(sparse=True).graph(1).features
    assert isinstance(words, sparse.csr_matrix)
    assert set(words.data) == {1.0}
    assert (words != sparse.csr_matrix(TypedBlocks().graph(1).features)).nnz == 0
    assert words.sum(axis=1).max() <= WORDS


def test_shards() -> None:
    parts = TypedBlocks(papers=30, clients=5, partition="dirichlet").load(1)
    assert [part.name for part in parts] == [f"typed_blocks-{k}" for k in range(5)]
    assert np.bincount(np.concatenate([part.split for part in parts])).tolist() == [90, 30, 30]
    merged = merge_graphs(parts)
    assert merged.targets == 150
    assert merged.metapaths == ("paper-author-paper", "paper-venue-paper")
    divided = TypedBlocks(papers=30, clients=5, others="divided").load(1)
    assert sum(len(part.ids["venue"]) for part in divided) == 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"papers": 4}, "TypedBlocks.papers must be >= 5; got 4"),
        ({"clients": 0}, "TypedBlocks.clients must be >= 1; got 0"),
        ({"classes": 1}, r"TypedBlocks.classes must be 2\.\.200 \(5 papers each\); got 1"),
        ({"papers": 5, "clients": 2}, r"TypedBlocks.classes must be 2\.\.2 \(5 papers each\); got 4"),
        ({"authors": 0}, "TypedBlocks.authors must be >= 1; got 0"),
        ({"venues": 0}, "TypedBlocks.venues must be >= 1; got 0"),
        ({"features": 3}, "TypedBlocks.features must be >= 4; got 3"),
        ({"signal": 21.0}, r"TypedBlocks.signal must be in \[0, 20\]; got 21.0"),
        ({"noise": -0.1}, r"TypedBlocks.noise must be in \[0, 1\]; got -0.1"),
        ({"partition": "iid"}, "TypedBlocks.partition must be one of"),
        ({"fold": 5}, r"TypedBlocks.fold must be in \[0, 4\]; got 5"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TypedBlocks(**options)  # type: ignore[arg-type]
