"""Join target nodes along metapaths: sparse matrices, never dense ones, made once for a client."""

import itertools
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.encoder import MetapathEncoder, Paths
from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.edge_rows import EdgeRows
from fedgraft.domains.edge_data.read_edges import carried_by
from fedgraft.domains.notes import tell
from fedgraft.domains.typed.shards import JOIN, TypedGraph, metapath_types

ROWS = 1024
"""Rows of a metapath's matrix that are multiplied at once: what is dropped of them is never all in memory."""


def metapath_matrix(graph: TypedGraph, metapath: str, most: int = 0) -> sparse.csr_matrix:
    """Return which target nodes a metapath joins, and every node to itself, 1 or 0, float32 [targets, targets].

    The metapath is such as "paper-author-paper"; the target type alone joins every node to itself. At most `most`
    neighbours of a node are kept, those that most paths lead to, ties drawn at random; 0 = all.
    """
    types = metapath_types(metapath, graph)
    steps = [graph.adjacency(one, other) for one, other in itertools.pairwise(types)]
    if not steps:
        return _with_itself(sparse.csr_matrix((graph.targets, graph.targets), dtype=np.float32))
    half = len(steps) // 2 if types == types[::-1] and len(steps) % 2 == 0 else len(steps) - 1
    left, right = _product(steps[:half], graph.targets), _product(steps[half:], graph.targets)
    g = np.random.default_rng(zlib.crc32(metapath.encode()))
    matrices = []
    for start in range(0, graph.targets, ROWS):
        paths = sparse.csr_matrix(left[start : start + ROWS] @ right)
        matrices.append(_strongest(paths, most, g, start) if most else paths)
    return _with_itself(sparse.csr_matrix(sparse.vstack(matrices, format="csr")))


def carried_paths(graph: TypedGraph, metapath: str, joined: sparse.csr_matrix) -> Paths:
    """Return what the paths carry between target nodes that a metapath joins; `joined` is its `metapath_matrix`.

    A path counts by the product of its edges' weights, and a node to another by the mean of this over the paths between
    the two. Values are means over these paths, each as it counts, of what the first edge carries, the second ...
    """
    steps = list(itertools.pairwise(metapath_types(metapath, graph)))
    rows = [_rows_of_step(graph, one, other) for one, other in steps]
    weights = [np.ones(len(each)) if each.weight is None else each.weight.astype(np.float64) for each in rows]
    counting = [graph.matrix(*step, np.ones(len(each))) for step, each in zip(steps, rows, strict=True)]
    weighing = [graph.matrix(*step, weight) for step, weight in zip(steps, weights, strict=True)]
    entries = joined.tocoo()
    places = entries.row, entries.col
    counts = _sums(counting, places)
    back = counts > 0  # of nodes joined to themselves alone no path leads back
    places, counts = (entries.row[back], entries.col[back]), counts[back]
    totals = _sums(weighing, places)
    values = np.empty((len(counts), sum(each.width for each in rows)), np.float32)
    column = 0
    for place, (step, each, weight) in enumerate(zip(steps, rows, weights, strict=True)):
        for number in each.values.T:
            of_step = graph.matrix(*step, weight * number)
            values[:, column] = _sums([*weighing[:place], of_step, *weighing[place + 1 :]], places) / totals
            column += 1
    matrix = sparse.csr_matrix(((totals / counts).astype(np.float32), places), shape=joined.shape)
    return Paths(matrix, values)


def graph_of(encoder: MetapathEncoder, graph: TypedGraph, metapath: str, joined: sparse.csr_matrix, width: int) -> Any:
    """Return the graph of a metapath as an encoder reads it; edges carry so many numbers, others as `carried_paths`."""
    if graph.edge_rows is not None and JOIN in metapath and encoder.reads(graph.width, width):
        return encoder.carried_graph(carried_paths(graph, metapath, joined))
    return encoder.graph(joined)


def note_unpassed(graph: TypedGraph, metapaths: Sequence[str], alike: Sequence[str]) -> None:
    """Add a note on edges that no metapath passes, of which some carry something else than others.

    And one on options, `alike`, that count neighbours alike though edges have weights.
    """
    if alike and "edge_weights" in carried_by(graph.carried):
        tell([f"{' and '.join(alike)}: each node that a metapath joins counts alike, whatever edges weigh."])
    steps = {frozenset(step) for metapath in metapaths for step in itertools.pairwise(metapath.split(JOIN))}
    lost = [pair for pair, rows in (graph.edge_rows or {}).items() if frozenset(pair) not in steps and _differ(rows)]
    edges = ", ".join(JOIN.join(pair) for pair in lost)
    if lost:
        tell([f"task: no metapath passes edges {edges}; what they carry is not read."])


def _differ(rows: EdgeRows) -> bool:
    """Whether edges carry different things."""
    weights = () if rows.weight is None else np.unique(rows.weight)
    return len(weights) > 1 or bool((rows.values != rows.values[:1]).any())


def _rows_of_step(graph: TypedGraph, one: str, other: str) -> EdgeRows:
    """What the edges of a step carry."""
    assert graph.edge_rows is not None, "whoever asks knows that edges carry something"
    return graph.edge_rows[graph.pair_of(one, other)]


def _sums(steps: list[sparse.csr_matrix], places: tuple[Indices, Indices]) -> NDArray[np.float64]:
    """Sums over paths of the products of their edges' numbers, at entries (rows, columns), rows ascending."""
    rows, columns = places
    half, targets = len(steps) // 2, steps[0].shape[0]
    left, right = _product(steps[:half], targets), _product(steps[half:], targets)
    found = np.zeros(len(rows))
    for start in range(0, targets, ROWS):
        part = slice(*np.searchsorted(rows, [start, start + ROWS]))
        if part.start < part.stop:
            sums = sparse.csr_matrix(left[start : start + ROWS] @ right)
            sums.sort_indices()  # an entry is then found by halves
            found[part] = np.asarray(sums[rows[part] - start, columns[part]]).ravel()
    return found


def cross_client_targets(graph: TypedGraph, metapaths: Iterable[str], most: int = 0) -> Indices:
    """Return different target nodes that a metapath joins, int64 [2, edges], each pair once either way."""
    joined = sparse.csr_matrix((graph.targets, graph.targets), dtype=np.float32)
    for metapath in metapaths:
        joined = joined + metapath_matrix(graph, metapath, most)
    either = sparse.coo_matrix(joined + joined.T)
    pairs = np.stack([either.col, either.row]).astype(np.int64)
    return pairs[:, pairs[0] != pairs[1]]


def page_rank(graph: TypedGraph, damping: float = 0.85, steps: int = 50) -> np.ndarray:
    """Return the PageRank of the target nodes among the nodes of all types, float32 [targets], of mean 1.

    Source: Brin and Page, "The anatomy of a large-scale hypertextual Web search engine", WWW 1998.
    """
    starts = dict(zip(graph.ids, np.cumsum([0, *(len(ids) for ids in graph.ids.values())]), strict=False))
    ends = [
        np.stack([pair[0] + starts[one], pair[1] + starts[other]]).astype(np.int64)
        for (one, other), pair in graph.edges.items()
    ]
    one_way = np.concatenate([np.zeros((2, 0), np.int64), *ends], axis=1)
    both = np.concatenate([one_way, one_way[::-1]], axis=1)
    nodes = graph.nodes
    links = sparse.csr_matrix((np.ones(both.shape[1]), (both[0], both[1])), shape=(nodes, nodes))
    degree = np.asarray(links.sum(1)).ravel()
    rank = np.full(nodes, 1.0 / max(1, nodes))
    for _ in range(steps):
        sent = np.divide(rank, degree, out=np.zeros(nodes), where=degree > 0)
        lost = rank[degree == 0].sum() / max(1, nodes)
        rank = (1 - damping) / max(1, nodes) + damping * (links.T @ sent + lost)
    first = int(starts[graph.target])
    own = rank[first : first + graph.targets] * nodes
    return own.astype(np.float32)


def _product(steps: list[sparse.csr_matrix], targets: int) -> sparse.csr_matrix:
    """The product of matrices, or of none the identity; entries count paths."""
    product = sparse.identity(targets, dtype=np.float32, format="csr") if not steps else steps[0]
    for step in steps[1:]:
        product = product @ step
    return sparse.csr_matrix(product)


def _strongest(paths: sparse.csr_matrix, most: int, g: np.random.Generator, start: int) -> sparse.csr_matrix:
    """Rows of a matrix with at most so many entries each, the largest; `start` is the first row's own column."""
    rows = np.repeat(np.arange(paths.shape[0]), np.diff(paths.indptr))
    other = paths.indices != rows + start
    rows, columns, strength = rows[other], paths.indices[other], paths.data[other]
    row_by_row = rows * (strength.max(initial=0) + 2.0)  # one sort: rows lie further apart than strengths
    order: Indices = np.argsort(row_by_row - (strength + g.random(len(rows))))
    counts = np.bincount(rows, minlength=paths.shape[0])
    place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = order[place < most]
    return sparse.csr_matrix((strength[kept], (rows[kept], columns[kept])), shape=paths.shape)


def _with_itself(paths: sparse.csr_matrix) -> sparse.csr_matrix:
    """The matrix with ones where there are entries and on its diagonal."""
    joins = sparse.csr_matrix(paths + sparse.identity(paths.shape[0], dtype=np.float32, format="csr"))
    joins.data[:] = 1.0
    joins.sort_indices()
    return joins
