"""What an exported model reads of edges, as further arguments."""

from dataclasses import dataclass
from typing import Self

from fedgraft.contracts.encoder import EdgeLayeredEncoder, Encoder


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
