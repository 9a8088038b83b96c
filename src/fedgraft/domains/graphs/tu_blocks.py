"""Reads sets of graphs packed as one block of lines per graph, as some repositories pack COLLAB."""

import zipfile
from pathlib import Path

import numpy as np

from fedgraft.contracts.values import Indices
from fedgraft.errors import InputError
from fedgraft.nn.sparse import ranges


def read_blocks(path: Path, name: str) -> tuple[Indices, Indices, Indices]:
    """Return (nodes per graph, label per graph, edges [2, m]) of a packed set.

    The number of graphs; per graph a line "nodes label", then per node "tag neighbours neighbour neighbour ...".
    Neighbours count from 0 within the graph; labels count from 0 where the collection's own count from 1.
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
    sizes, labels = tokens[at[headers]].astype(np.int64), tokens[at[headers] + 1].astype(np.int64)
    lines = np.delete(np.arange(1, len(per_line)), headers - 1)
    degree = per_line[lines] - 2
    if (degree < 0).any() or (tokens[at[lines] + 1] != degree).any():
        raise ValueError("a node has not as many neighbours as its line says")
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    neighbour = tokens[ranges(at[lines] + 2, degree)]
    if (neighbour >= np.repeat(np.repeat(sizes, sizes), degree)).any():
        raise ValueError("a neighbour is outside its graph")
    return sizes, labels, np.stack([np.repeat(np.arange(len(lines)), degree), neighbour + np.repeat(starts, degree)])
