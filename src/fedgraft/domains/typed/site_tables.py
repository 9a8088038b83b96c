"""One client's part of a typed graph at its site, from two tables: all of its nodes, and all edges between them."""

from dataclasses import replace

from fedgraft.contracts.table_files import Given
from fedgraft.domains.tables.columns import check_one_client
from fedgraft.domains.typed.shards import TypedGraph
from fedgraft.domains.typed.tables import Columns, read_typed_graph


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
    found = read_typed_graph(nodes, edges, target, columns, metapaths, "--data", classes)
    check_one_client(found.client_names, f"column {columns.client!r} of {found.whole.name}", name)
    return replace(found.whole, name=name), found.split
