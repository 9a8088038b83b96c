"""Laws of data sets."""

import dataclasses
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from fedgraft.contracts.data import ClientData, Data, Shards, names_of
from fedgraft.contracts.values import Indices
from fedgraft.domains.graphs.shards import GraphShard, tidy_edges
from fedgraft.domains.labels.known import is_known
from fedgraft.domains.nodes.base.shards import NodeShard, merge_shards, undirected
from fedgraft.domains.ranking.shards import RankingShard
from fedgraft.domains.ratings.shards import RatingShard
from fedgraft.domains.typed.shards import TypedGraph, merge_graphs, metapath_types
from fedgraft.testing.laws import Law, Laws, check, check_form, expect
from fedgraft.wire.layouts import digest

LAWS: Laws[Data[Any]] = Laws()
SEED = 3


def check_data(cls: type[Data[Any]], /, **options: Any) -> None:
    """Hold a data set with these options to all laws; raise `AssertionError` with the class, the law, what was seen.

    Shards for the tasks "rating", "ranking", "graph", "node" and "typed_node" must be sound as well.
    """
    check(laws(cls, **options))


def laws(cls: type[Data[Any]], /, **options: Any) -> list[Law[Data[Any]]]:
    """Return the laws of a data set with these options, to be called one by one."""
    return LAWS.held(cls, lambda: cls(**options))


def content(shard: object) -> str:
    """Return a digest of every array and the text of everything else of a shard."""
    values = dict(vars(shard)) if hasattr(shard, "__dict__") else dataclasses.asdict(shard)  # type: ignore[call-overload]
    nested = {key: value for key, value in values.items() if isinstance(value, dict)}
    values |= {f"{key}.{name}": part for key, value in nested.items() for name, part in value.items()}
    arrays = {key: np.asarray(value) for key, value in values.items() if isinstance(value, np.ndarray)}
    matrices = {key: value for key, value in values.items() if scipy.sparse.issparse(value)}
    for key, matrix in matrices.items():
        arrays |= {f"{key}.{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
    texts = {
        key: np.char.encode(array.astype(str), "utf-8") for key, array in arrays.items() if array.dtype.kind in "UO"
    }
    apart = {*arrays, *matrices, *nested}
    rest = {key: value for key, value in values.items() if key not in apart}
    return digest(arrays | texts) + (repr(rest) if len(repr(rest)) < 10_000 else str(hash(pickle.dumps(rest))))


def check_data_form(cls: type[Any]) -> None:
    """Raise `AssertionError` unless a class has the form of a data set: what needs no files to be checked."""
    check_form(cls, Data, ("Source:", "Differs:"))
    expect(isinstance(cls.task, str), "task must be a name", cls.task)


@LAWS.every
def is_a_frozen_dataclass_with_a_documented_class(data: Data[Any]) -> None:
    """Be a frozen dataclass whose documentation names its source, with the name of a task."""
    check_data_form(type(data))


@LAWS.every
def equal_seeds_give_equal_shards_and_others_do_not(data: Data[Any]) -> None:
    """Depend on the seed alone."""
    first, again, other = ([content(shard) for shard in data.load(seed)] for seed in (1, 1, 2))
    expect(first == again, "equal seeds must give equal shards", again, first)
    expect(first != other, "other seeds must give other shards", "the same")


@LAWS.every
def shards_survive_the_way_to_a_worker(data: Data[Any]) -> None:
    """Return shards that can be pickled."""
    for shard in data.load(0):
        expect(content(pickle.loads(pickle.dumps(shard))) == content(shard), "a pickled shard must be equal", shard)


@LAWS.where(lambda cls: bool(cls.task == "rating"))
def rating_shards_are_sound(data: Data[Any]) -> None:
    """Number users and items as they occur, with one rating a pair, on the scale, and categories known in training."""
    shards: Sequence[RatingShard] = data.load(SEED)
    _check_names(shards)
    for shard in shards:
        _check_ratings(shard)
        _check_links(shard)
    parts = {int(part) for shard in shards for part in np.unique(shard.split)}
    expect(parts == {0, 1, 2}, "there must be training, validation and test ratings", parts)


@LAWS.where(lambda cls: bool(cls.task == "ranking"))
def ranking_shards_are_sound(data: Data[Any]) -> None:
    """Know one catalogue, number users as they occur, with distinct pairs, and a training interaction of each user."""
    shards: Sequence[RankingShard] = data.load(SEED)
    _check_names(shards)
    first = shards[0]
    for shard in shards:
        _check_interactions(shard)
        known = np.array_equal(shard.item_ids, first.item_ids) and shard.features.keys() == first.features.keys()
        known = known and all(np.array_equal(shard.features[name], rows) for name, rows in first.features.items())
        expect(known, "all clients must know the same items, with the same features", shard.name)
    parts = {int(part) for shard in shards for part in np.unique(shard.split)}
    expect(parts == {0, 1, 2}, "there must be training, validation and test interactions", parts)


@LAWS.where(lambda cls: bool(cls.task == "graph"))
def graph_shards_are_sound(data: Data[Any]) -> None:
    """Have graphs with tidy edges, finite features, and every class among the training graphs."""
    shards: Sequence[GraphShard] = data.load(SEED)
    _check_names(shards)
    for shard in shards:
        _check_graphs(shard)
        _check_graph_labels(shard)


@LAWS.where(lambda cls: bool(cls.task == "node"))
def node_shards_are_sound(data: Data[Any]) -> None:
    """Be parts of one graph, with edges at both ends, and no split without a label."""
    shards: Sequence[NodeShard] = data.load(SEED)
    _check_names(shards)
    for k, shard in enumerate(shards):
        _check_nodes(k, shard)
        expect(shard.classes == shards[0].classes, "all clients must know the same classes", shard.classes)
        same = shard.width == shards[0].width > 0
        expect(same, "all clients must have features of one width", shard.width, shards[0].width)
    whole = merge_shards(shards)
    expect(len(set(whole.ids)) == whole.own, "no node may be at two clients", whole.own - len(set(whole.ids)))
    receiver = np.repeat(np.arange(whole.own), whole.degree)
    if whole.edge_rows is not None:
        _check_carrying(np.stack([receiver, whole.senders]), whole.edge_rows.number)
    else:
        _check_undirected(whole, receiver)
    expect({0, 1, 2} <= set(whole.split), "there must be training, validation and test nodes", set(whole.split))
    labels = set(whole.label[is_known(whole.label)])
    expect(len(labels) > 1, "there must be more than one class, or number", labels)


def _check_undirected(whole: NodeShard, receiver: Indices) -> None:
    pointers, senders, notes = undirected(np.stack([receiver, whole.senders]), whole.own, "edge")
    expect(notes == (), "there must be no loops and no repeats", notes)
    expect(np.array_equal(pointers, whole.pointers), "every edge must be both ways, at both clients", whole.pointers)
    expect(np.array_equal(senders, whole.senders), "every edge must be both ways, at both clients", whole.senders)


def _check_carrying(ends: Indices, number: Indices) -> None:
    """Raise unless edges, [2, stored], are no loops, and of each number there are two, the one the other's reverse."""
    expect((ends[0] != ends[1]).all(), "there must be no loops", ends)
    order = np.argsort(number, kind="stable")
    twice = len(order) % 2 == 0 and np.array_equal(number[order[::2]], number[order[1::2]])
    alone = len(np.unique(number)) * 2 == len(number)
    expect(twice and alone, "of each edge's number there must be two", np.sort(number))
    reverse = np.array_equal(ends[:, order[::2]], ends[::-1, order[1::2]])
    expect(reverse, "every edge must be both ways, at both clients", ends)


@LAWS.where(lambda cls: bool(cls.task == "typed_node"))
def typed_shards_are_sound(data: Data[Any]) -> None:
    """Be parts of one graph with the same types, each target node at one client, and no split without a label."""
    shards: Sequence[TypedGraph] = data.load(SEED)
    _check_names(shards)
    first = shards[0]
    for shard in shards:
        expect(shard.targets > 0, "every client must have a target node", shard.name)
        for what in ("target", "classes", "metapaths"):
            mine, others = getattr(shard, what), getattr(first, what)
            expect(mine == others, f"all clients must have the same {what}", mine, others)
        for what in ("ids", "edges"):
            mine, others = list(getattr(shard, what)), list(getattr(first, what))
            expect(mine == others, f"all clients must have the same types in {what}", mine, others)
        same = shard.width == first.width > 0
        expect(same, "all clients must have features of one width", shard.width, first.width)
        _check_typed(shard)
    merged = merge_graphs(shards)
    expect({0, 1, 2} <= set(merged.split), "there must be training, validation and test nodes", set(merged.split))
    labels = set(merged.label[merged.label >= 0])
    expect(len(labels) > 1, "there must be more than one class", labels)
    expect(first.metapaths, "data must suggest a metapath", first.metapaths)
    for metapath in first.metapaths:
        metapath_types(metapath, first)


@LAWS.having(ClientData)
def a_client_alone_is_the_client_among_all(data: Data[Any]) -> None:
    """Make the same shard of a client whoever else is made, in another process too, and know its name before."""
    assert isinstance(data, ClientData)
    shards = data.load(SEED)
    expect(isinstance(shards, Shards), "load must return shards that are made when they are asked for", shards)
    every = [content(shard) for shard in shards]
    there: Sequence[Any] = pickle.loads(pickle.dumps(data.load(SEED)))
    for client in sorted({len(every) - 1, len(every) // 2, 0}, reverse=True):
        alone = content(there[client])
        expect(alone == every[client], f"client {client} must be the same without the others", alone, every[client])
    names = [shard.name for shard in shards]
    expect(list(names_of(there)) == names, "names must be known before shards are made", list(names_of(there)), names)


def _check_names(shards: Sequence[Any]) -> None:
    names = [shard.name for shard in shards]
    expect(len(set(names)) == len(names), "clients must have different names", names)


def _check_ratings(shard: RatingShard) -> None:
    n = len(shard.rating)
    expect(shard.rating.dtype == np.float32, "ratings must be float32", shard.rating.dtype)
    expect(shard.split.dtype == np.uint8, "split must be uint8", shard.split.dtype)
    for ids, local in ((shard.users, shard.user), (shard.items, shard.item)):
        expect((np.diff(ids) > 0).all(), "ids must ascend", ids)
        expect(len(local) == n, f"there must be a user and an item for each of {n} ratings", len(local))
        expect(set(local) == set(range(len(ids))), "what has no rating here must not occur here", len(set(local)))
    expect(len(shard.user_ids) == len(shard.users), "every user must have an id", len(shard.user_ids))
    expect(len(shard.item_ids) == len(shard.items), "every item must have an id", len(shard.item_ids))
    pairs = len(np.unique(shard.user * len(shard.items) + shard.item))
    expect(pairs == n, f"there must be one rating per pair, {n} pairs", pairs)
    low, high = shard.scale
    expect(((shard.rating >= low) & (shard.rating <= high)).all(), f"ratings must be in {shard.scale}", shard.rating)


def _check_links(shard: RatingShard) -> None:
    known = ((shard.category >= 0) & (shard.category < shard.n_categories)).all()
    expect(known, f"categories must be in [0, {shard.n_categories})", shard.category)
    trained = set(shard.category[shard.split == 0]) == set(shard.category)
    expect(trained, "every category must be known in training", set(shard.category))
    expect(shard.trust.shape[0] == 2, "trust must be [2, links]", shard.trust.shape)
    users = shard.trust.size == 0 or 0 <= shard.trust.min() <= shard.trust.max() < len(shard.users)
    expect(users, "links must be between users that are here", shard.trust)
    expect((shard.trust[0] != shard.trust[1]).all(), "nobody may trust himself", shard.trust)


def _check_interactions(shard: RankingShard) -> None:
    n = len(shard.item)
    dtypes = [array.dtype.name for array in (shard.user, shard.item, shard.split)]
    expect(dtypes == ["int64", "int64", "int8"], "the arrays' types must be int64, int64, int8", dtypes)
    expect(len(shard.user) == len(shard.split) == n > 0, "each interaction must have a user and a split", n)
    expect(set(shard.user) == set(range(shard.users)), "each user must have an interaction", shard.users)
    expect(0 <= shard.item.min() <= shard.item.max() < shard.items, "items must be of the catalogue", shard.item)
    pairs = len(np.unique(shard.user * shard.items + shard.item))
    expect(pairs == n, f"there must be one interaction per pair, {n} pairs", pairs)
    trained = set(shard.user[shard.split == 0]) == set(shard.user)
    expect(trained, "each user must have a training interaction", set(shard.user))
    left = bool((np.bincount(shard.user) < shard.items).all())
    expect(left, "nobody may have every item", shard.items)
    for ids in (shard.user_ids, shard.item_ids):
        expect(ids.dtype.kind == "U" and len(set(ids)) == len(ids), "ids must be different texts", ids)
    expect(len(shard.titles) in (0, shard.items), "there must be a title for each item or for none", shard.titles)
    for name, rows in shard.features.items():
        sound = rows.dtype == np.float32 and rows.ndim == 2 and len(rows) == shard.items and np.isfinite(rows).all()
        expect(sound, f"features {name!r} must be finite float32 [items, width]", rows)


def _check_graphs(shard: GraphShard) -> None:
    expect((shard.sizes > 0).all(), "every graph must have a node", shard.sizes)
    arrays = (shard.sizes, shard.edges, shard.kind, shard.attributes, shard.label, shard.split, shard.ids)
    label = "int64" if shard.classes else "float64"
    types = ["int64", "int32", "int32", "float32", label, "int8", "object"]
    dtypes = [array.dtype.name for array in arrays]
    expect(dtypes == types, f"the arrays' types must be {types}", dtypes)
    tidy, notes = tidy_edges(shard.edges.astype(np.int64), shard.sizes, "edge")
    expect(np.array_equal(tidy, shard.edges), "edges must be within a graph, both ways, ascending", shard.edges)
    expect(notes == (), "there must be no loops and no repeats", notes)
    counts = shard.edge_starts[-1], shard.edges.shape[1], shard.degree.sum()
    expect(counts[0] == counts[1] == counts[2], "edges must be counted alike everywhere", counts)
    kinds = -1 <= shard.kind.min() <= shard.kind.max() < max(shard.kinds, 1)
    expect(kinds, f"kinds must be in [-1, {shard.kinds})", shard.kind)
    expect(shard.kinds or shard.attributes.shape[1], "every node must have a feature", shard.kinds)
    expect(len(shard.kind_names) == shard.kinds, "every kind must have a name", shard.kind_names)
    named = len(shard.attribute_names) == shard.attributes.shape[1]
    expect(named, "every attribute must have a name", shard.attribute_names)
    expect(np.isfinite(shard.attributes).all(), "attributes must be finite", shard.attributes)


def _check_graph_labels(shard: GraphShard) -> None:
    expect(set(shard.split) == {0, 1, 2}, "there must be training, validation and test graphs", set(shard.split))
    expect(len(set(shard.ids)) == shard.graphs, "graphs must have different ids", shard.ids)
    if shard.label.dtype == np.float64:
        expect(np.isfinite(shard.label).all() and not shard.classes, "numbers must be finite, without classes", shard)
        return
    known = 0 <= shard.label.min() <= shard.label.max() < len(shard.classes)
    expect(known, f"labels must be in [0, {len(shard.classes)})", shard.label)
    expect(len(np.unique(shard.label)) > 1, "there must be more than one class", shard.label)
    trained = set(shard.label[shard.split == 0]) == set(shard.label)
    expect(trained, "every class must be among the training graphs", set(shard.label))


def _check_nodes(client: int, shard: NodeShard) -> None:
    expect(shard.own > 0, f"client {client} must have a node", shard.own)
    arrays = (shard.ids, shard.features, shard.label, shard.split, shard.pointers, shard.senders)
    types = ["object", "float32", "int64" if shard.classes else "float64", "int8", "int64", "int32"]
    dtypes = [array.dtype.name for array in arrays]
    expect(dtypes == types, f"the arrays' types must be {types}", dtypes)
    halo = [array.dtype.name for array in (shard.halo_owner, shard.halo_place)]
    expect(halo == ["int32"] * 2, "addresses of the halo must be int32", halo)
    expect((shard.halo_owner != client).all(), "a halo node must be another client's", shard.halo_owner)
    heard = np.unique(shard.senders)
    each = set(heard[heard >= shard.own]) == set(range(shard.own, shard.own + shard.halo))
    expect(each, "each halo node must be a neighbour", heard)
    expect((shard.split[~is_known(shard.label)] == -1).all(), "there must be no split without a label", shard.split)


def _check_typed(shard: TypedGraph) -> None:
    arrays = (*shard.ids.values(), shard.features, shard.label, shard.split, *shard.edges.values())
    types = [*["object"] * len(shard.ids), "float32", "int64", "int8", *["int32"] * len(shard.edges)]
    dtypes = [array.dtype.name for array in arrays]
    expect(dtypes == types, f"the arrays' types must be {types}", dtypes)
    stored = shard.features if isinstance(shard.features, np.ndarray) else shard.features.data
    expect(np.isfinite(stored).all(), "features must be finite", shard.name)
    for kind, ids in shard.ids.items():
        expect(len(set(ids)) == len(ids), f"nodes of type {kind!r} must have different ids", shard.name)
    for (one, other), ends in shard.edges.items():
        if one == other:
            expect((ends[0] != ends[1]).all(), f"{one}-{other}: there must be no loops", shard.name)
            ends = np.sort(ends, axis=0)
        once = np.unique(ends, axis=1).shape[1] == ends.shape[1]
        expect(once, f"{one}-{other}: each edge must be there once", shard.name)
