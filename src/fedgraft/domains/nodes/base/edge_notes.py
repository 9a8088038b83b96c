"""What a task must know of a graph's edges, and what people are told of what its model does not read of them."""

from typing import Any, Final

from fedgraft.contracts.encoder import Encoder
from fedgraft.domains.nodes.base.shards import LabelledNodes

_READING: Final = {
    "columns": "model.name = 'gine', 'gat' and 'multigraph' do.",
    "weights": "all others but some of 'pyg' and 'network' do.",
}
"""Who reads what edges carry."""


def carried_by(graph: LabelledNodes) -> dict[str, Any]:
    """Return {option: value} of what edges carry: how many columns, and whether they have weights; of what is there."""
    carried = {"edge_features": graph.edge_width, "edge_weights": graph.weighted}
    return {name: value for name, value in carried.items() if value}


def unread(encoder: Encoder, inputs: int, graph: LabelledNodes) -> list[str]:
    """Return a note on columns of edges, and one on weights, that are there and that an encoder does not read.

    `inputs` is the width of nodes' states before its first layer.
    """
    width, model = graph.edge_width, type(encoder).__name__
    read = encoder.reads(inputs, width) if width or graph.weighted else frozenset()
    notes = []
    if width and "columns" not in read:
        columns = f"{width} column{'s' * (width > 1)}"
        notes.append(f"task: edges carry {columns}, which model {model} does not read; {_READING['columns']}")
    if graph.weighted and "weights" not in read:
        notes.append(f"task: edges have weights, which model {model} does not read; {_READING['weights']}")
    return notes
