"""Reads a graph out of one file, GraphML, GEXF, GML, Pajek or a list of edges, by networkx: its nodes and its edges."""

import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Final, TypeGuard

import pandas as pd

from fedgraft.domains.tables.schema import Names
from fedgraft.errors import InputError
from fedgraft.tables.packed_files import content, packing

SUFFIXES: Final = (".graphml", ".gexf", ".gml", ".net", ".edgelist", ".adjlist")
"""Of files that hold a whole graph; each may be compressed."""


def is_graph_file(source: object) -> TypeGuard[str | Path]:
    """Return whether a path is that of a file with a whole graph."""
    if not isinstance(source, str | Path):
        return False
    path = Path(source)
    return (path.with_suffix("") if packing(path) else path).suffix.lower() in SUFFIXES


def tables_of_file(path: Path, names: Names) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return (nodes, edges) of a file: ids of nodes and their attributes, and the ends of edges, by these names.

    An attribute that is named as the column of ids must say other things. Raises `InputError` for a file that networkx
    cannot read.
    """
    graph = _graph(path)
    column = names["node"]
    nodes = pd.DataFrame([dict(data) for _, data in graph.nodes(data=True)], index=range(len(graph)))
    ids = [str(node) for node in graph.nodes]
    kept = [name for name in nodes if not nodes[name].map(lambda value: isinstance(value, dict | list)).any()]
    if ".gexf" in path.name.lower() and "label" in kept and names["label"] != "label":
        kept.remove("label")  # GEXF's name of a node
    nodes = nodes[[name for name in kept if name != column]]
    nodes.insert(0, column, pd.Series(ids, dtype=object))
    one, other = names["source"], names["target"]
    ends = [
        {one: str(first), other: str(second), **_others(data, one, other)}
        for first, second, data in graph.edges(data=True)
    ]
    return nodes, pd.DataFrame(ends, columns=None if ends else [one, other], dtype=object)


def _others(data: Mapping[str, Any], *taken: str) -> dict[str, Any]:
    return {str(name): value for name, value in data.items() if str(name) not in taken}


def _graph(path: Path) -> Any:
    import networkx as nx  # takes a while, which who has tables should not wait for

    if not path.is_file():
        raise InputError(f"Nodes.nodes: no file {path}.")
    suffix = (path.with_suffix("") if packing(path) else path).suffix.lower()
    readers = {
        ".graphml": nx.read_graphml,
        ".gexf": nx.read_gexf,
        ".gml": lambda file: nx.read_gml(file, label=_label_of_gml(file)),
        ".net": nx.read_pajek,
        ".edgelist": nx.read_edgelist,
        ".adjlist": nx.read_adjlist,
    }
    try:
        return readers[suffix](BytesIO(content(path)))
    except Exception as error:  # parsers of XML and networkx have types of their own
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(f"{path} cannot be read as {suffix[1:]} by networkx ({reason}).") from error


def _label_of_gml(file: BytesIO) -> str:
    """What names a node of GML: "label" where all have one, and each another; else its number."""
    text = file.getvalue().decode("utf-8", errors="ignore")
    labels = re.findall(r"\blabel\s+(\"[^\"]*\"|\S+)", text)
    nodes = len(re.findall(r"\bnode\s*\[", text))
    return "label" if len(labels) == nodes == len(set(labels)) else "id"
