"""What a task must know of a graph's edges, and what people are told of what its model does not read of them."""

from collections.abc import Mapping
from typing import Any, Final

from fedgraft.contracts.encoder import Encoder
from fedgraft.domains.edge_data.edge_rows import EdgeRows

READING: Final = {
    "columns": "model.name = 'gine', 'gat' and 'multigraph' do.",
    "weights": "all others but some of 'pyg' and 'network' do.",
}
"""Who reads what edges carry."""


def carried_by(rows: EdgeRows | None) -> dict[str, Any]:
    """Return {option: value} of what edges carry: how many columns, and whether they have weights; of what is there."""
    if rows is None:
        return {}
    carried = {"edge_features": rows.width, "edge_weights": rows.weight is not None}
    return {name: value for name, value in carried.items() if value}


def unread(encoder: Encoder, inputs: int, rows: EdgeRows | None, reading: Mapping[str, str] = READING) -> list[str]:
    """Return a note on columns of edges, and one on weights, that are there and that an encoder does not read.

    `inputs` is the width of nodes' states before its first layer; `reading` says who reads each.
    """
    if not (carried := carried_by(rows)):
        return []
    width, model = carried.get("edge_features", 0), type(encoder).__name__
    read, notes = encoder.reads(inputs, width), []
    if width and "columns" not in read:
        columns = f"{width} column{'s' * (width > 1)}"
        notes.append(f"task: edges carry {columns}, which model {model} does not read; {reading['columns']}")
    if "edge_weights" in carried and "weights" not in read:
        notes.append(f"task: edges have weights, which model {model} does not read; {reading['weights']}")
    return notes
