"""What an exported model reads of edges, as further arguments."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from fedgraft.contracts.encoder import EdgeLayeredEncoder, Encoder
from fedgraft.domains.edge_data.edge_rows import EdgeRows
from fedgraft.domains.notes import tell


@dataclass(frozen=True)
class ReadEdges:
    """What a model reads of edges: so many `columns`, and whether their weights and which way they go."""

    columns: int
    weighted: bool
    directed: bool = False

    @classmethod
    def of(cls, encoder: Encoder, inputs: int, columns: int, weighted: bool, averages: bool) -> Self:
        """Return what is read of edges that have so many columns, and perhaps weights.

        `inputs` is the width of what the encoder reads; `averages` says whether features are averaged before it.
        """
        read = encoder.reads(inputs, columns)
        by_weight = averages or (encoder.reads_neighbours and "weights" in read)
        directed = isinstance(encoder, EdgeLayeredEncoder) and encoder.reads_direction
        return cls(columns * ("columns" in read), weighted and by_weight, directed)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of further arguments."""
        read = {"edge_attr": self.columns > 0, "edge_weight": self.weighted, "along": self.directed}
        return tuple(name for name, is_read in read.items() if is_read)

    def usage(self, lines: str) -> str:
        """Return lines that use a model, with further arguments."""
        return lines.replace("edge_index", ", ".join(["edge_index", *self.names]))

    @property
    def told(self) -> str:
        """Sentences about further arguments, for people to read."""
        texts = {
            "edge_attr": f"float32 [edges, {self.columns}], columns of edges, scaled as those of the training data; "
            "where two nodes have several edges, `edge_index` has each",
            "edge_weight": "float32 [edges], how much each counts, above 0",
            "along": "bool [edges], true; where edges have a direction `edge_index` has each both ways, too, false for "
            "that back",
        }
        return "".join(f"- `{name}`: {texts[name]}.\n" for name in self.names)


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


def note_unread(task: Any, inputs: int, rows: EdgeRows | None, reading: Mapping[str, str] = READING) -> None:
    """Add a note on columns of edges, and one on weights, that are there and that a task's encoder does not read.

    `inputs` is the width of nodes' states before its first layer; `reading` says who reads each. Nothing is said of
    what the task knows already: the note was added when it was found.
    """
    if not (carried := carried_by(rows)) or task.edge_features or task.edge_weights:
        return
    width, model = carried.get("edge_features", 0), type(task.encoder).__name__
    read, notes = task.encoder.reads(inputs, width), []
    if width and "columns" not in read:
        columns = f"{width} column{'s' * (width > 1)}"
        notes.append(f"task: edges carry {columns}, which model {model} does not read; {reading['columns']}")
    if "edge_weights" in carried and "weights" not in read:
        notes.append(f"task: edges have weights, which model {model} does not read; {reading['weights']}")
    tell(notes)
