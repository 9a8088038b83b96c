"""Reads sets of graphs in the layout of the TU collection from their text files, and keeps what it read.

PyG's `parse_txt_array` reads every file, in blocks of lines. Not `read_tu_data` around it, which loses the last line of
a file without a final newline, the names of labels and the number of repeated edges, widens labels to one-hot columns,
names no file when one is damaged, and holds all lines of a file as Python objects at once (COLLAB: 25 million). What it
would give is what is read here; a test holds the two against each other.

Nothing is written beside the files. The parsed arrays go to $XDG_CACHE_HOME/fedgraft/graphs (~/.cache by default), as
parsing takes seconds, of COLLAB up to minutes; a source file of another size or time, or a damaged copy, makes a set be
read again.
"""

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.edge_columns import CarriedRows, EdgeReader
from fedgraft.domains.edge_data.edge_rows import EdgeRows
from fedgraft.domains.graphs.shards import GraphShard, check_graphs, check_labels, tidy_edges, with_degrees
from fedgraft.domains.graphs.tables import carried_edges
from fedgraft.domains.graphs.tu_blocks import read_blocks
from fedgraft.domains.graphs.tu_sets import NUMBERED, SETS
from fedgraft.domains.notes import LOG, tell
from fedgraft.domains.tables.columns import Columns
from fedgraft.errors import InputError, nearest, require
from fedgraft.wire.layouts import Array, Arrays

ADDRESS = "https://www.chrsmrrs.com/graphkerneldatasets/{}.zip"
FORMAT = 1
"""Of the stored arrays; another number makes every set be read again."""
MOST_KINDS = 1 << 12
"""Numbers from the lowest label of nodes to the highest, up to which each is a kind."""
BLOCK = 1 << 18
"""Lines parsed at a time: Python objects for them take some 100 MB."""


def read_set(
    root: Path,
    name: str,
    attributes: str = "auto",
    number: int = 0,
    are_numbers: bool | None = None,
    edge_features: str = "",
) -> GraphShard:
    """A whole set, every graph of it for training, by its original name; what was left out goes to the log.

    The folder has NAME/raw/NAME_A.txt ... as PyG lays them out, or NAME/NAME_A.txt as the archives unpack. "auto" takes
    a node's attributes only where it has no label; "always" and "never" say it. Where labels `are_numbers` (None = as
    those of the sets `NUMBERED` are), `number` says which of a graph's is its label, from 0. Where neither labels nor
    attributes are taken, a node's kind is its degree. `edge_features` says what edges carry, one of `EDGE_FEATURES`.
    """
    are_numbers = name in NUMBERED.values() if are_numbers is None else are_numbers
    read, files = _find(root, name, are_numbers)
    files += _edge_files_of(files[0], name, edge_features)
    arrays = _kept(name, read, files)
    tell(arrays["notes"].tolist(), f"{name}: ")
    taken = attributes == "always" or (attributes == "auto" and len(arrays["kind_names"]) == 0)
    values = arrays["attributes"] if taken else arrays["attributes"][:, :0]
    label, classes = arrays["label"], tuple(arrays["classes"].tolist())
    if are_numbers:
        numbers = arrays["numbers"]
        require(number < numbers.shape[1], f"TU.number of {name}", f"below {numbers.shape[1]}", number)
        label, classes = np.ascontiguousarray(numbers[:, number]), ()
    starts = np.cumsum(arrays["sizes"]) - arrays["sizes"]
    degree = arrays["degree"]
    receiver = np.repeat(np.arange(len(degree), dtype=np.int32), degree)
    sender = arrays["sender"].astype(np.int32) + np.repeat(np.repeat(starts, arrays["sizes"]).astype(np.int32), degree)
    shard = GraphShard(
        name=name,
        sizes=arrays["sizes"],
        edges=np.stack([receiver, sender]),
        kind=arrays["kind"],
        kinds=len(arrays["kind_names"]),
        attributes=np.ascontiguousarray(values),
        label=label,
        classes=classes,
        split=np.zeros(len(arrays["sizes"]), np.int8),
        ids=np.arange(1, len(arrays["sizes"]) + 1).astype(object),
        kind_names=tuple(arrays["kind_names"].tolist()),
        attribute_names=_attribute_names(values),
    )
    if edge_features:
        rows, names = _edge_rows(arrays)
        shard = replace(shard, edge_rows=rows, edge_names=names)
    check_graphs(shard)
    check_labels(shard)
    return shard if shard.kinds or (taken and values.shape[1]) else with_degrees(shard)


def _attribute_names(values: Array) -> tuple[str, ...]:
    return tuple(f"attribute {column + 1}" for column in range(values.shape[1]))


def _edge_rows(arrays: Arrays) -> tuple[EdgeRows, tuple[str, ...]]:
    """What edges carry, attributes and then, as in PyG, a column for each label; and the names of these."""
    attributes, label, names = (arrays[key] for key in EDGE_ARRAYS)
    values = [attributes, label[:, None] == np.arange(len(names))]
    along, number = np.ones(len(label), bool), np.arange(len(label))
    labels = tuple(f"label={each}" for each in names.tolist())
    return EdgeRows(np.concatenate(values, 1, dtype=np.float32), along, number), (
        *_attribute_names(attributes),
        *labels,
    )


def _edge_files_of(edges: Path, name: str, asked: str) -> list[Path]:
    """Return the files that say what edges carry, where these are asked for, beside that of the edges."""
    wanted = EDGE_FEATURES[1:-1] if asked == "all" else (asked,) * bool(asked)
    files = {part: edges.parent / f"{name}_edge_{part}.txt" for part in EDGE_FEATURES[1:-1]}
    there = [part for part, path in files.items() if path.is_file()]
    if lacking := [part for part in wanted if part not in there and (asked != "all" or not there)]:
        has = f"the set's edges have {there[0]} alone" if there else "the set's edges carry nothing"
        raise InputError(f"TU.edge_features = {asked!r}: no file {files[lacking[0]]}; {has}.")
    return [files[part] for part in wanted if part in there]


def sets_in(root: Path) -> list[str]:
    """Return the names of the sets that a folder has."""
    if not root.is_dir():
        return []
    names = {folder.name for folder in root.iterdir()} | {
        file.name.removesuffix("_A.txt") for file in root.glob("*_A.txt")
    }
    return sorted(name for name in names if any(map(Path.is_file, _edge_files(root, name))))


def _edge_files(root: Path, name: str) -> list[Path]:
    """Where the edges of a set may be."""
    return [folder / f"{name}_A.txt" for folder in (root / name / "raw", root / name, root)]


def _find(root: Path, name: str, are_numbers: bool) -> tuple[Callable[[list[Path], str], Arrays], list[Path]]:
    """Return how to read a set, and its files."""
    for edges in _edge_files(root, name):
        folder = edges.parent
        if edges.is_file():
            kinds = ("graph_labels", "graph_attributes")
            files = [folder / f"{name}_{part}.txt" for part in ("A", "graph_indicator", kinds[are_numbers])]
            for path in files:
                if not path.is_file():
                    other = "classes" if are_numbers else "numbers"
                    has_other = path == files[-1] and (folder / f"{name}_{kinds[not are_numbers]}.txt").is_file()
                    hint = f"data.labels = {other!r} reads the {other} that it has." if has_other else _hint(root, name)
                    raise InputError(f"TU: no file {path}; {hint}")
            more = [folder / f"{name}_{part}.txt" for part in ("node_labels", "node_attributes")]
            return _read_raw, files + [path for path in more if path.is_file()]
    packed = [root / "COLLAB.zip", root.parent / "COLLAB_txt" / "COLLAB.zip"] if name == "COLLAB" else []
    for path in packed:
        if path.is_file():
            return _read_blocks, [path]
    raise InputError(f"TU: no file {root / name / 'raw' / f'{name}_A.txt'}; {_hint(root, name)}")


def _hint(root: Path, name: str) -> str:
    if name not in {*SETS.values(), *NUMBERED.values()}:
        there = sets_in(root)
        listed = f"sets there: {', '.join(there[:20])}" if there else "no set in that layout is there"
        return f"{listed}.{nearest(name, [*there, *SETS, *NUMBERED])}"
    return f"download {ADDRESS.format(name)} and unpack it in {root}."


# --- what was read before ------------------------------------------------------------------------------------------


def _kept(name: str, read: Callable[[list[Path], str], Arrays], files: list[Path]) -> Arrays:
    """The arrays of a set: those kept for files of these names, sizes and times, or read and then kept."""
    stats = [(str(path.resolve()), path.stat()) for path in files]
    carried = any("_edge_" in path.name for path in files)
    key = "|".join([str(FORMAT), *(f"{path}:{stat.st_size}:{stat.st_mtime_ns}" for path, stat in stats)])
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    # One copy per place, so that a set that changed replaces its old copy.
    place = hashlib.blake2b(stats[0][0].encode(), digest_size=8).hexdigest()
    store = home / "fedgraft" / "graphs" / f"{name}{'-edges' * carried}-{place}.npz"
    try:
        with store.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            arrays = dict(kept)
        wanted = ARRAYS.union(EDGE_ARRAYS * carried)
        if str(arrays.pop("key")) == key and not wanted.symmetric_difference({*arrays} - {NUMBERS}):
            return arrays
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        pass  # never kept, or damaged: read it
    arrays = read(files, name)
    stored: dict[str, Any] = {"key": np.array(key), **arrays}
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=store.parent, suffix=".part", delete=False) as part:
            try:
                np.savez(part, **stored)
                Path(part.name).replace(store)
            except BaseException:
                Path(part.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        LOG.warning(f"{name}: what was read cannot be kept in {store.parent} ({error}); it will be read again.")
    return arrays


NUMBERS = "numbers"
"""float64 [graphs, n]: what is kept of graphs that have numbers."""
ARRAYS = frozenset(("sizes", "degree", "sender", "kind", "kind_names", "attributes", "label", "classes", "notes"))
"""What is kept of a set, beside `NUMBERS` where it has some. An edge is its sender's number within the graph: two bytes
where graphs are small."""
EDGE_FEATURES = ("", "labels", "attributes", "all")
"""What edges may carry: nothing, what one of two files says, or both."""
EDGE_ARRAYS = ("edge_attributes", "edge_label", "edge_label_names")
"""What is kept beside them of edges that carry something: float32 [edges, a]; int32 [edges]; the names of labels."""
LAST = EdgeReader(lambda carried: np.asarray(carried.columns.numbers, np.float32), duplicate_edges="last")
"""Of a line that is there twice the last counts."""


def _arrays(
    sizes: Indices,
    ends: Indices,
    where: str,
    base: int,
    labels: Indices,
    node_labels: Indices | None,
    attributes: Array | None,
    told: tuple[Array, Array] | None = None,
) -> Arrays:
    """What is kept; `told` are attributes and labels of edges, float64 [edges, any] and [edges, 0 or 1]."""
    carried: Arrays = {}
    if told is None:
        edges, notes = tidy_edges(ends, sizes, where, base)
    else:
        every = np.concatenate(told, 1)
        names = tuple(map(str, range(every.shape[1])))
        rows = CarriedRows(Columns(names, every, {}), None, None, np.arange(len(every)))
        edges, stored, notes = carried_edges(ends, sizes, rows, LAST, where, base)
        values = np.asarray(stored.carried.columns.numbers)[stored.row]
        label, label_names = _numbered(values[:, told[0].shape[1] :].astype(np.int64))
        of_edges = values[:, : told[0].shape[1]].astype(np.float32), label.astype(np.int32), label_names
        carried = dict(zip(EDGE_ARRAYS, of_edges, strict=True))
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    local = edges[1] - starts[edges[1]]
    classes, label = np.unique(labels, return_inverse=True)
    nodes = int(sizes.sum())
    kind, kind_names = _numbered(np.zeros((nodes, 0), np.int64) if node_labels is None else node_labels[:, None])
    return {
        **carried,
        "sizes": sizes,
        "degree": np.bincount(edges[0], minlength=nodes).astype(np.int32),
        "sender": local.astype(np.uint16 if sizes.max(initial=0) <= np.iinfo(np.uint16).max else np.int32),
        "kind": kind.astype(np.int32),
        "kind_names": kind_names,
        "attributes": np.zeros((nodes, 0), np.float32) if attributes is None else attributes.astype(np.float32),
        "label": label.astype(np.int64),
        "classes": classes.astype(str),
        "notes": np.array(notes, dtype=str),
    }


def _numbered(labels: Indices) -> tuple[Indices, Array]:
    """(a number for each row, int64 [rows], -1 without a label; names as text), of labels, int64 [rows, 0 or 1]."""
    if not labels.size:
        return np.full(len(labels), -1), np.array([], dtype=str)
    # As in PyG, a column for each number from the lowest to the highest, whether or not it occurs.
    first, last = int(labels.min()), int(labels.max())
    if last - first < MOST_KINDS:
        names, number = np.arange(first, last + 1), labels[:, 0] - first
    else:  # numbers that are no count: those alone that occur
        names, number = np.unique(labels[:, 0], return_inverse=True)
    return number, np.array([str(name) for name in names], dtype=str)


# --- one number per node, edge and graph: the layout of the collection ------------------------------------------------


def _read_raw(files: list[Path], name: str) -> Arrays:
    paths = {path.name.removeprefix(f"{name}_").removesuffix(".txt"): path for path in files}
    indicator = _column(paths["graph_indicator"])
    back = np.flatnonzero(np.diff(indicator, prepend=1) < 0)
    if len(back):
        path, line = paths["graph_indicator"], int(back[0])
        raise InputError(f"{path}, line {line + 1}: graphs must be numbered from 1, ascending; got {indicator[line]}.")
    numbers = _table(paths["graph_attributes"], float) if "graph_attributes" in paths else None
    labels = _column(paths["graph_labels"]) if numbers is None else np.zeros(len(numbers), np.int64)
    sizes = np.bincount(indicator - 1, minlength=len(labels))
    if len(sizes) > len(labels):
        file = paths["graph_labels" if numbers is None else "graph_attributes"]
        raise InputError(f"{file}: {len(labels)} labels for the {len(sizes)} graphs of {paths['graph_indicator']}.")
    if numbers is not None:
        _check_finite(paths["graph_attributes"], numbers)
    node_labels = attributes = None
    if "node_labels" in paths:
        node_labels = _column(paths["node_labels"])
        _check_nodes(paths["node_labels"], len(node_labels), paths["graph_indicator"], len(indicator))
    if "node_attributes" in paths:
        attributes = _table(paths["node_attributes"], float)
        _check_nodes(paths["node_attributes"], len(attributes), paths["graph_indicator"], len(indicator))
        _check_finite(paths["node_attributes"], attributes)
    edges = _table(paths["A"], int, columns=2).T - 1
    told = _of_edges(paths, edges.shape[1])
    arrays = _arrays(sizes, edges, f"{paths['A']}, line", 1, labels, node_labels, attributes, told)
    return arrays if numbers is None else {**arrays, NUMBERS: numbers}


def _of_edges(paths: dict[str, Path], edges: int) -> tuple[Array, Array] | None:
    """Attributes and labels of so many edges, of the files that there are; None where there is neither."""
    there = {part: paths[part] for part in ("edge_attributes", "edge_labels") if part in paths}
    told: dict[str, Array] = {part: np.zeros((edges, 0)) for part in ("edge_attributes", "edge_labels")}
    for part, path in there.items():
        told[part] = _column(path)[:, None].astype(np.float64) if part == "edge_labels" else _table(path, float)
        if len(told[part]) != edges:
            raise InputError(f"{path}: {len(told[part])} lines for the {edges} edges of {paths['A']}.")
        _check_finite(path, told[part])
    return (told["edge_attributes"], told["edge_labels"]) if there else None


def _check_finite(path: Path, attributes: Array) -> None:
    if len(broken := np.flatnonzero(~np.isfinite(attributes).all(axis=1))):
        line = int(broken[0])
        raise InputError(
            f"{path}, line {line + 1}: attributes must be finite numbers; got {attributes[line].tolist()}."
        )


def _check_nodes(path: Path, count: int, indicator: Path, nodes: int) -> None:
    if count != nodes:
        raise InputError(f"{path}: {count} lines for the {nodes} nodes of {indicator}.")


def _column(path: Path) -> Indices:
    return np.asarray(_table(path, int, columns=1)[:, 0])


def _table(path: Path, number: type[int] | type[float], columns: int = 0) -> Any:
    """[lines, columns] of a file of numbers apart by commas; 0 columns = as many as the first line has."""
    from torch_geometric.io import parse_txt_array  # takes seconds; a set that is kept does without

    dtype = torch.int64 if number is int else torch.float64
    parts: list[Array] = []
    done = 0
    try:
        with path.open(encoding="utf-8") as file:
            while lines := list(islice(file, BLOCK)):
                columns = columns or lines[0].count(",") + 1
                try:
                    block = parse_txt_array(lines, sep=",", dtype=dtype).reshape(len(lines), -1).numpy()
                    sound = block.shape[1] == columns
                except (ValueError, RuntimeError):  # no number; lines of different lengths; a number out of range
                    sound = False
                if not sound:
                    raise _damaged(path, lines, done, number, columns)
                parts.append(block)
                done += len(lines)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error}).") from error
    if not parts:
        raise InputError(f"{path} is empty.")
    return np.concatenate(parts)


def _damaged(path: Path, lines: list[str], before: int, number: type[int] | type[float], columns: int) -> InputError:
    wanted = f"{columns} {'whole ' if number is int else ''}number{'s' if columns > 1 else ''}"
    for place, line in enumerate(lines):
        try:
            numbers = [number(field) for field in line.split(",")]
        except ValueError:
            numbers = []
        if len(numbers) != columns or (number is int and max(map(abs, numbers)) > np.iinfo(np.int64).max):
            return InputError(f"{path}, line {before + place + 1}: {wanted} expected; got {line.strip()!r}.")
    return InputError(f"{path}, after line {before}: {wanted} a line expected.")


# --- one block of lines per graph: COLLAB as some repositories pack it ------------------------------------------------


def _read_blocks(files: list[Path], name: str) -> Arrays:
    sizes, labels, ends = read_blocks(files[0], name)
    return _arrays(sizes, ends, f"{files[0]}: edge", 0, labels + 1, None, None)
