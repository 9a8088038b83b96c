"""One client's part of a typed graph at its site, from two tables: all of its nodes, and all edges between them."""

from dataclasses import replace

import numpy as np

from fedgraft.contracts.table_files import Given
from fedgraft.domains.tables import check_one_client
from fedgraft.domains.typed.shards import TypedGraph
from fedgraft.domains.typed.tables import Columns, read_typed_graph
from fedgraft.errors import InputError


def site_part(
    nodes: Given,
    edges: Given,
    target: str,
    columns: Columns,
    metapaths: tuple[str, ...],
    classes: tuple[str, ...],
    name: str,
) -> tuple[TypedGraph, bool]:
    """Return one client's nodes and the edges between them, and whether the table names a split.

    Args:
        nodes: one row per node, with its type.
        edges: one row per edge, with the types of both ends.
        target: the type whose nodes are classified.
        columns: names of columns; `features` says which, in order.
        metapaths: that the recipe names.
        classes: their names, the same at all sites; a site may lack some.
        name: of the client.
    """
    found = read_typed_graph(nodes, edges, target, columns, metapaths, "--data")
    whole = found.whole
    check_one_client(found.client_names, f"column {columns.client!r} of {whole.name}", name)
    if strange := [each for each in whole.classes if each not in classes]:
        listed = ", ".join(map(repr, classes))
        raise InputError(
            f"{whole.name}: {columns.label!r} must be one of task.class_names, {listed}; got {strange[0]!r}."
        )
    places = np.array([classes.index(each) for each in whole.classes], np.int64)
    label = np.where(whole.label < 0, -1, places[whole.label])
    return replace(whole, name=name, label=label, classes=classes), found.split
