"""Reads sets of graphs in the layout of the TU collection from their text files.

Arrow reads every file. Not PyG's `read_tu_data`, which loses the last line of a file without a final newline, the names
of labels and the number of repeated edges, widens labels to one-hot columns, and names no file when one is damaged.
What it would give is what is read here; a test holds the two against each other. Nothing is written beside the files.
"""

import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.edge_columns import CarriedRows, EdgeReader
from fedgraft.domains.edge_data.edge_rows import EdgeRows
from fedgraft.domains.graphs.shards import Edges, GraphShard, check_graphs, check_labels, tidy_edges, with_degrees
from fedgraft.domains.graphs.tables import carried_edges
from fedgraft.domains.graphs.tu_sets import NUMBERED, SETS
from fedgraft.domains.notes import tell
from fedgraft.domains.tables.columns import Columns
from fedgraft.errors import InputError, nearest, require
from fedgraft.nn.sparse import ranges
from fedgraft.wire.layouts import Array

ADDRESS = "https://www.chrsmrrs.com/graphkerneldatasets/{}.zip"
MOST_KINDS = 1 << 12
"""Numbers from the lowest label of nodes to the highest, up to which each is a kind."""
EDGE_FEATURES = ("", "labels", "attributes", "all")
"""What edges may carry: nothing, a column for each of their labels, their attributes, or both where there are both."""
LAST = EdgeReader(lambda carried: np.asarray(carried.columns.numbers, np.float32), duplicate_edges="last")
"""Each way of an edge has what its own line says, of several lines the last."""
Paths = dict[str, Path]
"""{what a file is of: its path}, such as "A" or "node_labels"; "blocks" is a packed set."""


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
    paths = _find(root, name, name in NUMBERED.values() if are_numbers is None else are_numbers)
    paths |= _edge_files_of(next(iter(paths.values())).parent, name, edge_features)
    packed = paths.get("blocks")
    sizes, label, ends = _read_blocks(packed, name) if packed else _read_text(paths)
    nodes, where = int(sizes.sum()), (f"{packed}: edge", 0) if packed else (f"{paths['A']}, line", 1)
    of_nodes = nodes, f"nodes of {paths.get('graph_indicator')}"
    kind, kind_names = _numbered(_told(paths, "node_labels", int, *of_nodes))
    values = _told(paths, "node_attributes", float, *of_nodes).astype(np.float32)
    edges, rows, edge_names, notes = _edges(paths, ends, sizes, *where)
    tell(notes, f"{name}: ")
    taken = attributes == "always" or (attributes == "auto" and len(kind_names) == 0)
    values = np.ascontiguousarray(values if taken else values[:, :0])
    classes: Array = np.array([], dtype=str)
    if label.ndim > 1:
        require(number < label.shape[1], f"TU.number of {name}", f"below {label.shape[1]}", number)
        label = np.ascontiguousarray(label[:, number])
    else:
        classes, label = np.unique(label, return_inverse=True)
    shard = GraphShard(
        name=name,
        sizes=sizes,
        edges=edges,
        kind=kind.astype(np.int32),
        kinds=len(kind_names),
        attributes=values,
        label=label,
        classes=tuple(map(str, classes.tolist())),
        split=np.zeros(len(sizes), np.int8),
        ids=np.arange(1, len(sizes) + 1).astype(object),
        kind_names=kind_names,
        attribute_names=_attribute_names(values),
        edge_rows=rows,
        edge_names=edge_names,
    )
    check_graphs(shard)
    check_labels(shard)
    return shard if shard.kinds or values.shape[1] else with_degrees(shard)


def _attribute_names(values: Array) -> tuple[str, ...]:
    return tuple(f"attribute {column + 1}" for column in range(values.shape[1]))


def _edges(
    paths: Paths, ends: Indices, sizes: Indices, where: str, base: int
) -> tuple[Edges, EdgeRows | None, tuple[str, ...], tuple[str, ...]]:
    """(edges, what they carry, its names, notes): attributes and then, as in PyG, a column for each label."""
    if not {"edge_attributes", "edge_labels"} & paths.keys():
        edges, notes = tidy_edges(ends, sizes, where, base)
        return edges, None, (), notes
    of = ends.shape[1], f"edges of {paths['A']}"
    numbers, labels = _told(paths, "edge_attributes", float, *of), _told(paths, "edge_labels", int, *of)
    every = np.concatenate([numbers, labels], 1, dtype=np.float64)
    carried = CarriedRows(Columns(tuple(map(str, range(every.shape[1]))), every, {}), None, None, np.arange(len(every)))
    edges, stored, notes = carried_edges(ends, sizes, carried, LAST, where, base)
    numbers, labels = np.split(np.asarray(stored.carried.columns.numbers)[stored.row], [numbers.shape[1]], axis=1)
    label, names = _numbered(labels.astype(np.int64))
    values = np.concatenate([numbers, label[:, None] == np.arange(len(names))], 1, dtype=np.float32)
    rows = EdgeRows(values, np.ones(len(label), bool), np.arange(len(label)))
    return edges, rows, (*_attribute_names(numbers), *(f"label={each}" for each in names)), notes


def _numbered(labels: Indices) -> tuple[Indices, tuple[str, ...]]:
    """The column of each of the labels, [n, 1], or -1 where there are none; the columns' names."""
    if not labels.size:
        return np.full(len(labels), -1), ()
    # As in PyG, a column for each number from the lowest to the highest, whether or not it occurs.
    first, last = int(labels.min()), int(labels.max())
    if last - first < MOST_KINDS:
        names, number = np.arange(first, last + 1), labels[:, 0] - first
    else:  # numbers that are no count: those alone that occur
        names, number = np.unique(labels[:, 0], return_inverse=True)
    return number, tuple(map(str, names.tolist()))


# --- which files ------------------------------------------------------------------------------------------------------


def _edge_files_of(folder: Path, name: str, asked: str) -> Paths:
    """Return the files that say what edges carry, where these are asked for."""
    wanted = EDGE_FEATURES[1:-1] if asked == "all" else (asked,) * bool(asked)
    files = {part: folder / f"{name}_edge_{part}.txt" for part in EDGE_FEATURES[1:-1]}
    there = [part for part, path in files.items() if path.is_file()]
    if lacking := [part for part in wanted if part not in there and (asked != "all" or not there)]:
        has = f"the set's edges have {there[0]} alone" if there else "the set's edges carry nothing"
        raise InputError(f"TU.edge_features = {asked!r}: no file {files[lacking[0]]}; {has}.")
    return {f"edge_{part}": files[part] for part in wanted if part in there}


def sets_in(root: Path) -> list[str]:
    """Names of the sets whose files are in a folder, in the layout of the collection."""
    if not root.is_dir():
        return []
    names = {folder.name for folder in root.iterdir()} | {
        file.name.removesuffix("_A.txt") for file in root.glob("*_A.txt")
    }
    return sorted(name for name in names if any(map(Path.is_file, _edge_files(root, name))))


def _edge_files(root: Path, name: str) -> list[Path]:
    """Where the list of edges may be; the other files are beside it."""
    return [folder / f"{name}_A.txt" for folder in (root / name / "raw", root / name, root)]


def _find(root: Path, name: str, are_numbers: bool) -> Paths:
    for edges in filter(Path.is_file, _edge_files(root, name)):
        kinds = ("graph_labels", "graph_attributes")
        parts = ("A", "graph_indicator", kinds[are_numbers], "node_labels", "node_attributes")
        paths = {part: edges.parent / f"{name}_{part}.txt" for part in parts}
        for part in parts[:3]:
            if not paths[part].is_file():
                other = "classes" if are_numbers else "numbers"
                has_other = part in kinds and (edges.parent / f"{name}_{kinds[not are_numbers]}.txt").is_file()
                hint = f"data.labels = {other!r} reads the {other} that it has." if has_other else _hint(root, name)
                raise InputError(f"TU: no file {paths[part]}; {hint}")
        return {part: path for part, path in paths.items() if path.is_file()}
    packed = [root / "COLLAB.zip", root.parent / "COLLAB_txt" / "COLLAB.zip"] if name == "COLLAB" else []
    for path in filter(Path.is_file, packed):
        return {"blocks": path}
    raise InputError(f"TU: no file {root / name / 'raw' / f'{name}_A.txt'}; {_hint(root, name)}")


def _hint(root: Path, name: str) -> str:
    """What to do where a set is missing: one of the collection is there to download, another may be misspelt."""
    if name not in {*SETS.values(), *NUMBERED.values()}:
        there = sets_in(root)
        listed = f"sets there: {', '.join(there[:20])}" if there else "no set in that layout is there"
        return f"{listed}.{nearest(name, [*there, *SETS, *NUMBERED])}"
    return f"download {ADDRESS.format(name)} and unpack it in {root}."


# --- one number per node, edge and graph: the layout of the collection ------------------------------------------------


def _read_text(paths: Paths) -> tuple[Indices, Array, Indices]:
    """(nodes per graph, label per graph or numbers [graphs, n], edges [2, m])."""
    indicator = _table(paths["graph_indicator"], int, 1)[:, 0]
    back = np.flatnonzero(np.diff(indicator, prepend=1) < 0)
    if len(back):
        path, line = paths["graph_indicator"], int(back[0])
        raise InputError(f"{path}, line {line + 1}: graphs must be numbered from 1, ascending; got {indicator[line]}.")
    part = "graph_attributes" if "graph_attributes" in paths else "graph_labels"
    label: Array = _table(paths[part], float) if part == "graph_attributes" else _table(paths[part], int, 1)[:, 0]
    sizes = np.bincount(indicator - 1, minlength=len(label))
    if len(sizes) > len(label):
        what = f"{len(label)} labels for the {len(sizes)} graphs of {paths['graph_indicator']}"
        raise InputError(f"{paths[part]}: {what}.")
    _check_finite(paths[part], label)
    return sizes, label, _table(paths["A"], int, 2).T - 1


def _told(paths: Paths, part: str, number: type[int] | type[float], count: int, of: str) -> Array:
    """What a file tells of so many nodes or edges, [count, columns]; no columns where there is no such file."""
    if part not in paths:
        return np.zeros((count, 0), number)
    values = _table(paths[part], number, int(number is int))
    if len(values) != count:
        raise InputError(f"{paths[part]}: {len(values)} lines for the {count} {of}.")
    _check_finite(paths[part], values)
    return values


def _check_finite(path: Path, values: Array) -> None:
    if len(broken := np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))):
        line = int(broken[0])
        raise InputError(f"{path}, line {line + 1}: attributes must be finite numbers; got {values[line].tolist()}.")


def _table(path: Path, number: type[int] | type[float], columns: int = 0) -> Array:
    """The numbers of a file, a line each, separated by commas; `columns` = 0: as many as the first line has."""
    try:
        if not columns:
            with path.open(encoding="utf-8") as file:
                columns = file.readline().count(",") + 1
        kinds = {f"f{column}": pa.int64() if number is int else pa.float64() for column in range(columns)}
        try:
            table = pyarrow.csv.read_csv(
                path,
                pyarrow.csv.ReadOptions(autogenerate_column_names=True, use_threads=False),
                pyarrow.csv.ParseOptions(quote_char=False, ignore_empty_lines=False),
                pyarrow.csv.ConvertOptions(column_types=kinds, null_values=[]),
            )
        except pa.ArrowInvalid:
            return _by_lines(path, number, columns)
        if table.num_columns != columns:
            return _by_lines(path, number, columns)
        return np.stack([column.to_numpy() for column in table.columns], axis=1)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error}).") from error


def _by_lines(path: Path, number: type[int] | type[float], columns: int) -> Array:
    """The same of a file that Arrow does not read, which says the line that is wrong."""
    rows: list[list[float]] = []
    with path.open(encoding="utf-8") as lines:
        for place, line in enumerate(lines, start=1):
            try:
                rows.append([number(field) for field in line.split(",")])
            except ValueError:
                rows.append([])
            if len(rows[-1]) != columns or (number is int and max(map(abs, rows[-1])) > np.iinfo(np.int64).max):
                wanted = f"{columns} {'whole ' if number is int else ''}number{'s' if columns > 1 else ''}"
                raise InputError(f"{path}, line {place}: {wanted} expected; got {line.strip()!r}.")
    if not rows:
        raise InputError(f"{path} is empty.")
    return np.array(rows, number)


# --- one block of lines per graph: COLLAB as some repositories pack it ------------------------------------------------


def _read_blocks(path: Path, name: str) -> tuple[Indices, Indices, Indices]:
    """Return (nodes per graph, label per graph, edges [2, m]) of a packed set.

    The number of graphs; per graph a line "nodes label", then per node "tag neighbours neighbour neighbour ...".
    Neighbours count from 0 within the graph, and so do its labels; those returned count from 1, as the collection's do.
    """
    member = f"{name}/{name}.txt"
    try:
        with zipfile.ZipFile(path) as archive:
            if member not in archive.namelist():
                raise InputError(f"{path} holds no {member}; unpack it where it is.")
            text = archive.read(member)
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(f"{path} is damaged ({error}).") from error
    try:
        return _blocks(text)
    except (ValueError, IndexError) as error:
        raise InputError(f"{path}: {member} is damaged ({error}).") from error


def _blocks(text: bytes) -> tuple[Indices, Indices, Indices]:
    """(nodes per graph, label per graph, edges [2, m]); ValueError or IndexError where the text is not as it should."""
    rows = np.frombuffer(text, np.uint8)
    space = rows <= ord(" ")
    if not (space | ((rows >= ord("0")) & (rows <= ord("9")))).all():
        raise ValueError("something in it is no whole number")
    lines = np.concatenate([[0], np.flatnonzero(rows == ord("\n")) + 1])
    firsts = ~space & np.concatenate([[True], space[:-1]])
    per_line = np.add.reduceat(firsts, lines[lines < len(rows)], dtype=np.int64)
    tokens = np.fromstring(text, np.int32, sep=" ")
    at = np.cumsum(per_line) - per_line
    graphs, header = int(tokens[0]), 1
    headers = np.zeros(graphs, np.int64)
    for graph in range(graphs):
        headers[graph] = header
        header += 1 + int(tokens[at[header]])
    if header != len(per_line) or (per_line[headers] != 2).any():
        raise ValueError(f"its {len(per_line)} lines are not the {header} of its {graphs} graphs")
    sizes, labels = tokens[at[headers]].astype(np.int64), tokens[at[headers] + 1].astype(np.int64) + 1
    lines = np.delete(np.arange(1, len(per_line)), headers - 1)
    degree = per_line[lines] - 2
    if (degree < 0).any() or (tokens[at[lines] + 1] != degree).any():
        raise ValueError("a node has not as many neighbours as its line says")
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    neighbour = tokens[ranges(at[lines] + 2, degree)]
    if (neighbour >= np.repeat(np.repeat(sizes, sizes), degree)).any():
        raise ValueError("a neighbour is outside its graph")
    return sizes, labels, np.stack([np.repeat(np.arange(len(lines)), degree), neighbour + np.repeat(starts, degree)])
