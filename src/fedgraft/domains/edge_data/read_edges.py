"""What an exported model reads of edges, as arguments of its source text."""

from dataclasses import dataclass
from typing import Self

from fedgraft.contracts.abilities.plain import PlainEncoder
from fedgraft.contracts.encoder import Encoder
from fedgraft.errors import InputError


@dataclass(frozen=True)
class ReadEdges:
    """What a model reads of edges: so many `columns`, and whether their weights and which way they go."""

    columns: int
    weighted: bool
    directed: bool = False

    @classmethod
    def of(cls, encoder: Encoder, inputs: int, columns: int, weighted: bool, averages: bool) -> Self:
        """Return what an encoder reads of edges that have so many columns, and perhaps weights.

        Raises `InputError` where features are averaged by weight before it, which no exported model does.
        """
        if weighted and averages:
            raise InputError(
                "A model with inputs.propagate over edges with weights cannot be exported: it averages by these."
            )
        read = encoder.reads(inputs, columns)
        is_weighted = weighted and encoder.reads_neighbours and "weights" in read
        return cls(columns * ("columns" in read), is_weighted, isinstance(encoder, PlainEncoder) and encoder.directed)

    @property
    def names(self) -> list[str]:
        """Names of further arguments."""
        return ["edge_attr"] * (self.columns > 0) + ["edge_weight"] * self.weighted + ["along"] * self.directed

    def arguments(self, *others: str) -> str:
        """Return those of `forward`, with others behind them."""
        return ", ".join(["self", "x", "edge_index", *self.names, *others])

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
