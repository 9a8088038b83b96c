"""From PyG `HeteroData` objects, in memory or in files, to typed graphs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.values import Indices
from fedgraft.domains.dealing import Collection
from fedgraft.domains.edge_data.edge_columns import CarriedRows
from fedgraft.domains.edge_data.graph_form import GraphForm
from fedgraft.domains.examples import Features
from fedgraft.domains.labels.class_notes import class_notes
from fedgraft.domains.tables import pyg_objects as pyg
from fedgraft.domains.tables.columns import of_matrix
from fedgraft.domains.tables.own_tables import columns_of
from fedgraft.domains.tables.pyg_objects import columns_of_edges, unread
from fedgraft.domains.tables.rows import Rows
from fedgraft.domains.tables.schema import Names
from fedgraft.domains.typed.carried_edges import Relation, alike, gathered, listed, relations
from fedgraft.domains.typed.shards import JOIN, EdgeType, TypedGraph, merge_graphs, metapath_types, shortest_metapaths
from fedgraft.domains.typed.tables import BOTH, ENDS, TYPE, edges_between, in_order
from fedgraft.errors import InputError, require_one_of

IDS = ("node_id", "n_id")
"""What objects may call the ids of a type's nodes."""
OF_EACH = ("weight", "time")
"""What edges of some relations may have, and of others not."""


def is_object(source: object) -> bool:
    """Return whether an object, the path of a file with one, or a folder of such files was given."""
    if isinstance(source, str | Path):
        path = Path(source)
        return path.suffix == pyg.SUFFIX or path.is_dir()
    return not isinstance(source, pd.DataFrame | Mapping)


def collection_of(
    source: Any,
    target: str,
    metapaths: Sequence[str],
    where: str,
    form: GraphForm,
) -> Collection[TypedGraph]:
    """Return an object, or that of a file, as one graph; of a folder each file is a client, named after it.

    Nodes of the type `target` are classified. `metapaths` are those that the graph suggests; none = the shortest.
    `where` is what errors call it. Nodes are in the order of ids, but of a folder as they come.
    """
    if isinstance(source, str | Path) and Path(source).is_dir():
        return _of_folder(Path(source), target, metapaths, where, form)
    if isinstance(source, str | Path):
        source, where = pyg.read_object(Path(source), where, "HeteroData"), str(source)
    collection = _graph(source, target, metapaths, where, form)
    graph = collection.whole
    columns = of_matrix(graph.features, f"{where}[{target!r}]")
    notes = (*collection.notes, *class_notes(graph.label, graph.classes, where, form.na_labels))
    return in_order(replace(collection, notes=notes, feature_names=columns.names, columns=columns), metapaths)


def tables_of(collection: Collection[TypedGraph], columns: Names) -> dict[str, pd.DataFrame]:
    """Return {"nodes": ..., "edges": ...}, one table of all nodes and one of all edges, that say the same.

    `columns` names all columns but those of features, which have their own names.
    """
    whole, names, features = collection.whole, collection.feature_names, collection.columns
    assert features is not None, "a user's own graph is read raw"
    for name in (*names, *(columns[role] for role in ("node", "label", "client", "split"))):
        if name == TYPE:
            raise InputError(
                f"{whole.name}: column {TYPE!r} must have another name: a run keeps all nodes in one table, whose "
                f"column {TYPE!r} says of which type each is."
            )
    own = {TYPE: whole.target, columns["node"]: list(map(str, whole.ids[whole.target]))}
    own |= columns_of(collection, columns)
    first = pd.concat([pd.DataFrame(own), features.frame()], axis=1)
    others = {kind: ids for kind, ids in whole.ids.items() if kind != whole.target}
    kinds = np.repeat(np.array(list(others), dtype=object), [len(ids) for ids in others.values()])
    rest = pd.DataFrame({TYPE: kinds, columns["node"]: [str(each) for ids in others.values() for each in ids]})
    edges = []
    for pair, ends in whole.edges.items():
        sides = zip(ENDS, BOTH, pair, ends, strict=True)
        columns_of_end = [{of: kind, columns[end]: list(map(str, whole.ids[kind][at]))} for of, end, kind, at in sides]
        frame = pd.DataFrame(columns_of_end[0] | columns_of_end[1])
        if whole.edge_rows is not None:
            frame = listed(frame, collection.edges.take(whole.edge_rows[pair].number), columns)
        edges.append(frame)
    return {"nodes": pd.concat([first, rest], ignore_index=True), "edges": pd.concat(edges, ignore_index=True)}


# --- several clients --------------------------------------------------------------------------------------------------


def _of_folder(
    folder: Path, target: str, metapaths: Sequence[str], where: str, form: GraphForm
) -> Collection[TypedGraph]:
    """Return all clients' graphs, each as its file has it, with the same types, classes and features."""
    paths = sorted(path for path in folder.iterdir() if path.suffix == pyg.SUFFIX)
    if not paths:
        raise InputError(f"{where}: folder {folder} holds no file that ends in {pyg.SUFFIX}.")
    parts, splits, rows_of_files = [], [], []
    notes: list[str] = []
    for path in paths:
        read = pyg.read_object(path, where, "HeteroData")
        of_file = _graph(read, target, (), str(path), form, path.stem)
        parts.append(replace(of_file.whole, name=path.stem))
        rows_of_files.append(of_file.edges)
        splits.append(of_file.split)
        notes += of_file.notes
    if len(set(splits)) > 1:
        lacking, having = paths[splits.index(False)], paths[splits.index(True)]
        raise InputError(f"{lacking} has no {pyg.MASKS[0]}, but {having} has one; all files need masks, or none.")
    for path, part in zip(paths, parts, strict=True):
        if part.width != parts[0].width:
            raise InputError(f"{path}: {part.width} features of {target!r}, but {paths[0]} has {parts[0].width}.")
    seen: dict[object, Path] = {}
    for path, part in zip(paths, parts, strict=True):
        for name in part.ids[target]:
            if (other := seen.setdefault(name, path)) != path:
                raise InputError(f"{path}: node {name!r} of type {target!r} is in {other} too; each must be at one.")
    parts, edges = _renumbered(parts, rows_of_files, form.names)
    parts = _alike(parts, metapaths)
    client = np.repeat(np.arange(len(parts)), [part.targets for part in parts])
    names = tuple(path.stem for path in paths)
    whole = replace(merge_graphs(parts), name=str(folder))
    notes += class_notes(whole.label, whole.classes, str(folder), form.na_labels)
    columns = of_matrix(whole.features, f"{folder}[{target!r}]")
    return Collection(whole, client, names, splits[0], tuple(notes), columns.names, tuple(parts), columns, edges)


def _renumbered(
    parts: Sequence[TypedGraph], carried: Sequence[CarriedRows | None], names: Names
) -> tuple[list[TypedGraph], CarriedRows | None]:
    """(parts whose edges have numbers of rows among those of all, the rows of all); None where they carry nothing."""
    there = [rows for rows in carried if rows is not None]
    if not there:
        return list(parts), None
    every, found, begin = CarriedRows.stacked(alike(there, names)), [], 0
    for part, own in zip(parts, there, strict=True):
        edge_rows = {pair: replace(rows, number=rows.number + begin) for pair, rows in (part.edge_rows or {}).items()}
        found.append(replace(part, edge_rows=edge_rows))
        begin += len(own)
    return found, replace(every, number=np.arange(begin))


def _alike(parts: Sequence[TypedGraph], metapaths: Sequence[str]) -> list[TypedGraph]:
    """Give all parts the types, classes, pairs of types and metapaths of any."""
    classes = tuple(sorted({name for part in parts for name in part.classes}, key=int))
    kinds = list(dict.fromkeys(kind for part in parts for kind in part.ids))
    pairs = list(dict.fromkeys(pair for part in parts for pair in part.edges))
    suggested = tuple(metapaths) or shortest_metapaths(parts[0].target, pairs)
    is_sparse = any(not isinstance(part.features, np.ndarray) for part in parts)
    carried = [{} if part.edge_rows is None else dict(part.edge_rows) for part in parts]
    nothing = [rows.take(np.zeros(0, np.int64)) for own in carried for rows in own.values()][:1]
    parts_alike = [
        replace(
            part,
            ids={kind: part.ids.get(kind, np.zeros(0, dtype=object)) for kind in kinds},
            features=sparse.csr_matrix(part.features) if is_sparse else part.features,
            # Of label -1, which is unknown, the last entry.
            label=np.array([*map(classes.index, part.classes), -1])[part.label],
            classes=classes,
            edges={pair: part.edges.get(pair, np.zeros((2, 0), np.int32)) for pair in pairs},
            edge_rows={pair: own.get(pair, nothing[0]) for pair in pairs} if nothing else None,
            metapaths=suggested,
        )
        for part, own in zip(parts, carried, strict=True)
    ]
    for metapath in suggested:
        metapath_types(metapath, parts_alike[0], "TypedGraph.metapaths")
    return parts_alike


# --- one object -------------------------------------------------------------------------------------------------------


def _graph(
    data: Any, target: str, metapaths: Sequence[str], where: str, form: GraphForm, client: str = ""
) -> Collection[TypedGraph]:
    """Return one object as a graph with features; `client` goes before ids that are numbers within a file."""
    if not hasattr(data, "edge_types"):
        raise InputError(f"{where} must be a torch_geometric.data.HeteroData; got {type(data).__name__}.")
    stores = {kind: data[kind] for kind in data.node_types}
    ends, notes = _edges(data, where, form.names)
    of_pairs = _by_pair(ends)
    for kind in dict.fromkeys(kind for pair in of_pairs for kind in pair):
        stores.setdefault(kind, {})
    require_one_of("TypedGraph.target", target, stores)
    for kind in stores:
        if JOIN in kind or not any(kind in pair for pair in of_pairs):
            why = f"a type's name must be without {JOIN!r}, which joins types" if JOIN in kind else "it has no edges"
            raise InputError(f"{where}: node type {kind!r}: {why}.")
    ids = {kind: _ids(store, kind, of_pairs, f"{where}[{kind!r}]", client) for kind, store in stores.items()}
    for pair, places in of_pairs.items():
        _check_places(where, pair, places, ids)
    own, what, count = stores[target], f"{where}[{target!r}]", len(ids[target])
    label, classes = _labels(own, count, what, form.na_labels)
    split, is_split = pyg.split_of(own, count, what, counted=False)
    if len(lost := np.flatnonzero((label < 0) & (split >= 0))):
        raise InputError(f"{what}: node {lost[0]} is in a mask, but has no label ({len(lost)} such nodes).")
    links = gathered(_relations(data, ends, where, form), form.reader, where, are_counted=False)
    graph = TypedGraph(
        name=where,
        target=target,
        ids=ids,
        features=_features(own, count, what),
        label=label,
        classes=classes,
        split=split,
        edges=links.ends,
        metapaths=tuple(metapaths) or shortest_metapaths(target, list(links.ends)),
        edge_rows=links.edge_rows,
    )
    if not client:
        for metapath in graph.metapaths:
            metapath_types(metapath, graph, "TypedGraph.metapaths")
    number, clients = pyg.clients_of(own.get("client"), count, what)
    return Collection(graph, number, tuple(clients.tolist()), is_split, (*notes, *links.notes), edges=links.carried)


def _edges(data: Any, where: str, names: Names) -> tuple[list[tuple[EdgeType, Indices]], tuple[str, ...]]:
    """([types in the order of their names, int64 [2, listed]] of each relation, notes on those that are as one)."""
    found: list[tuple[EdgeType, Indices]] = []
    for one, relation, other in data.edge_types:
        edge_index = data[one, relation, other]["edge_index"]
        ends = pyg.ends_of(edge_index, f"{_named(where, (one, relation, other))}.edge_index").astype(np.int64)
        found.append(((one, other), ends) if one <= other else ((other, one), ends[::-1]))
    if not found:
        raise InputError(f"{where} has no edges.")
    several = [pair for pair, count in Counter(pair for pair, _ in found).items() if count > 2]
    notes = [f"{where}: {JOIN.join(pair)}: several relations are taken as one." for pair in several]
    notes += dict.fromkeys(note for kind in data.edge_types for note in unread(data[kind], where, names))
    return found, tuple(notes)


def _by_pair(ends: Sequence[tuple[EdgeType, Indices]]) -> dict[EdgeType, Indices]:
    """{types: int64 [2, listed]}; all relations between two types are one."""
    pairs = dict.fromkeys(pair for pair, _ in ends)
    return {pair: np.concatenate([places for each, places in ends if each == pair], axis=1) for pair in pairs}


def _named(where: str, relation: tuple[str, str, str]) -> str:
    """What errors call a relation."""
    return f"{where}[{', '.join(map(repr, relation))}]"


def _relations(data: Any, ends: Sequence[tuple[EdgeType, Indices]], where: str, form: GraphForm) -> list[Relation]:
    """The relations of an object, by `_edges`, and what they carry; column k of edge_attr is "TYPE-TYPE.k"."""
    if form.reader is None:
        return [Relation(pair, Rows.of_frame(pd.DataFrame(), where), ends=places) for pair, places in ends]
    tables, names = [], form.names
    for (pair, _), kind in zip(ends, data.edge_types, strict=True):
        store, what = data[kind], _named(where, kind)
        there = {role: names[role] if getattr(store, names[role] or "", None) is not None else "" for role in OF_EACH}
        of_ends = dict(zip(("source", "target"), (names[end] for end in BOTH), strict=True))
        columns = columns_of_edges(store, what, {**names, **there, **of_ends}, "TypedGraph")
        frame = pd.DataFrame({_of_pair(name, pair): values for name, values in columns.items()})
        tables.append(edges_between(frame, form, what, may_be_empty=True))
    found = relations([pair for pair, _ in ends], tables, form)
    return [replace(each, ends=places) for each, (_, places) in zip(found, ends, strict=True)]


def _of_pair(name: str, pair: EdgeType) -> str:
    """The name of a column of edge_attr, which has a number, among those of all relations."""
    return f"{JOIN.join(pair)}.{name}" if name.isdecimal() else name


def _ids(store: Any, kind: str, ends: Mapping[EdgeType, Indices], where: str, client: str) -> NDArray[np.object_]:
    """Object [nodes]: the ids that the object says, else numbers."""
    for key in IDS:
        if key in store:
            named = np.array([str(one) for one in pyg.numpy_of(store[key], f"{where}.{key}").tolist()], dtype=object)
            if len(set(named)) != len(named):
                again = next(one for place, one in enumerate(named) if one in named[:place])
                raise InputError(f"{where}.{key} must be different for all nodes; got {again!r} twice.")
            return named
    sizes = [len(store[key]) for key in ("x", "y") if store.get(key) is not None]
    if store.get("num_nodes") is not None:
        sizes.append(int(store["num_nodes"]))
    highest = max(
        int(places[end].max(initial=-1)) for pair, places in ends.items() for end in (0, 1) if pair[end] == kind
    )
    numbers = np.arange(sizes[0] if sizes else highest + 1)
    return np.array([f"{client}:{number}" for number in numbers] if client else list(numbers), dtype=object)


def _check_places(where: str, pair: EdgeType, places: Indices, ids: Mapping[str, NDArray[np.object_]]) -> None:
    for kind, numbers in zip(pair, places, strict=True):
        count = len(ids[kind])
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < count:
            wrong = int(((numbers < 0) | (numbers >= count)).argmax())
            raise InputError(
                f"{where}: an edge {JOIN.join(pair)} has node {numbers[wrong]} of type {kind!r}; there are {count}."
            )


def _features(store: Any, count: int, where: str) -> Features:
    """Float32 [count, f]; no columns where the object has no x."""
    x = store.get("x")
    if x is None:
        return np.zeros((count, 0), np.float32)
    return pyg.features_of(x, f"{where}.x", count)


def _labels(store: Any, count: int, where: str, na_labels: Sequence[str]) -> tuple[Indices, tuple[str, ...]]:
    """(class of each node, -1 = unknown; names of the classes, the numbers that occur)."""
    if store.get("y") is None:
        raise InputError(f"{where} has no y; nodes to learn from need a class.")
    y = pyg.classes_of(pyg.known_of(store["y"], f"{where}.y", na_labels, -1), count, f"{where}.y")
    if (y < 0).all():
        raise InputError(f"{where}.y is -1 at every node; nodes to learn from need a class.")
    return pyg.occurring(y)
