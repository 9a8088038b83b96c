"""A trained model of the task `edge` in the words of PyTorch Geometric; it counts what came before an edge itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fedgraft.contracts.abilities.plain import OUTPUTS, PlainEncoder, PlainModel, Tensors
from fedgraft.contracts.labels import Unit
from fedgraft.domains.edge_data.read_edges import ReadEdges
from fedgraft.domains.edges.model import EdgeModel
from fedgraft.domains.edges.unrolled import COUNTS
from fedgraft.domains.nodes.training.plain_inputs import ReadFeatures
from fedgraft.domains.plain_source import call_of, listed, source_of

_HISTORY: Final = '''
def before(key, asked, rows):
    """Return of the edges of each key log(1 + how many there are), and the means of their columns; zeros of none."""
    known, place = torch.unique(torch.cat([key, asked]), return_inverse=True)
    sums = rows.new_zeros(len(known), rows.shape[1]).index_add(0, place[: len(key)], rows)[place[len(key) :]]
    return torch.cat([sums[:, :1].log1p(), sums[:, 1:] / sums[:, :1].clamp(min=1)], 1).float()


def history(edge_index, edge_attr, pairs, nodes):
    """Return what came before: from source to target and back, then out of and into the source, and the target."""
    source, target = edge_index
    rows = torch.cat([edge_attr.new_ones(len(source), 1), edge_attr], 1).double()
    both = torch.where((pairs >= 0).all(0), pairs[0] * nodes + pairs[1], -1)
    between = [before(one * nodes + other, both, rows) for one, other in ((source, target), (target, source))]
    return torch.cat([*between, *(before(end, asked, rows) for asked in pairs for end in (source, target))], 1)
'''
_USAGE: Final = """from model import CLASSES, load

logits = load()({arguments})
likeliest = [CLASSES[k] for k in logits.argmax(1)]
"""
_USAGE_OF_NUMBERS: Final = """from model import load

numbers = load()({arguments})[:, 0]
"""
_NUMBERS: Final = "a number for each pair, in the unit of the labels."


@dataclass(frozen=True)
class ReadPairs:
    """What an exported model reads, as arguments of its source text.

    Args:
        features: how its inputs are made of features of nodes.
        edges: what its convolutions read of edges.
        carried: how many columns edges carry; what came before counts them even where no convolution reads them.
        columns: how many are known of an edge that is told.
    """

    features: ReadFeatures
    edges: ReadEdges
    carried: int
    columns: int

    @property
    def arguments(self) -> str:
        """Those of `forward`."""
        carried = ["edge_attr"] * (self.carried > 0) + ["edge_weight"] * self.edges.weighted
        return ", ".join(["x", "edge_index", *carried, "pairs", *["pair_attr"] * (self.columns > 0)])

    def lines(self, encoder: PlainEncoder) -> list[str]:
        """Return the lines of `forward`."""
        both = {"edge_attr": self.edges.columns > 0, "edge_weight": self.edges.weighted}
        attributes = "edge_attr" if self.carried else "x.new_zeros(edge_index.shape[1], 0)"
        return [
            f"told = history(edge_index, {attributes}, pairs, len(x))",
            "ones = x.new_ones(edge_index.shape[1])",
            "counts = [x.new_zeros(len(x)).index_add(0, end, ones) for end in (edge_index[1], edge_index[0])]",
            *self.features.lines(),
            "x = torch.cat([x, torch.stack(counts, 1).log1p()], 1)",
            *(["along = torch.cat([ones, 0 * ones]) > 0"] * encoder.directed),
            "edge_index = torch.cat([edge_index, edge_index.flip(0)], 1)  # messages go along edges and back",
            *(f"{name} = torch.cat([{name}, {name}])" for name, is_read in both.items() if is_read),
            "for conv in self.convs:",
            f"    x = torch.relu({call_of(encoder, self.edges.columns, self.edges.weighted)})",
            "x = torch.cat([x, x.new_zeros(1, x.shape[1])])  # the last is -1, of which nothing is known",
            f"read = torch.cat([x[pairs[0]], x[pairs[1]], {'pair_attr, ' * (self.columns > 0)}told], 1)",
            "return self.outer(torch.relu(self.inner(read)))",
        ]

    @property
    def told(self) -> str:
        """What these arguments are, for people to read."""
        texts = {
            "x": f"float32 [nodes, {self.features.features}], the nodes' features, columns in the order of the "
            f"training data; zeros of a new node.{self.features.told}".rstrip("."),
            "edge_index": "int64 [2, edges], source over target of all edges before those that are asked, each once, "
            "no loops",
            "edge_attr": f"float32 [edges, {self.carried}], what they carry, made as of the training data",
            "edge_weight": "float32 [edges], how much each counts, above 0",
            "pairs": "int64 [2, pairs], source over target of the edges that are asked; -1 for a node of which nothing "
            "is known, not even that it is new",
            "pair_attr": f"float32 [pairs, {self.columns}], what is known of these, made as of the training data",
        }
        return "".join(f"- `{name}`: {texts[name]}.\n" for name in self.arguments.split(", "))


def plain_edges(
    model: EdgeModel,
    encoder: PlainEncoder,
    widths: Sequence[int],
    classes: Sequence[str],
    read: ReadPairs,
    unit: Unit | None,
) -> PlainModel:
    """Return the plain model of a trained one.

    `widths` are those behind each convolution, `read` is what the model reads, and `unit` that in which it tells
    numbers; None for `classes`.
    """
    inner, outer = model.inner, model.outer
    made = [
        listed(encoder, [read.features.features + COUNTS, *widths], read.edges.columns),
        f"self.inner = nn.Linear({inner.in_features}, {inner.out_features})",
        f"self.outer = nn.Linear({outer.in_features}, {outer.out_features})",
    ]
    told, features = "numbers" if unit else "logits", read.features.features
    says = f"From features [nodes, {features}], edges and pairs of nodes to {told} [pairs, {outer.out_features}]."
    text = source_of(encoder, classes, says, made, f"self, {read.arguments}", read.lines(encoder), helpers=_HISTORY)
    usage, outputs = (_USAGE_OF_NUMBERS, _NUMBERS) if unit else (_USAGE, OUTPUTS)
    arrays = _arrays(model, encoder, unit or Unit())
    return PlainModel(text, arrays, read.told, usage.format(arguments=read.arguments), outputs)


def _arrays(model: EdgeModel, encoder: PlainEncoder, unit: Unit) -> Tensors:
    """The state dict; what it tells is in the user's unit."""
    spread, mean = float(unit.spread), float(unit.mean)
    return {
        **{
            f"convs.{number}.{name}": array
            for number, convolution in enumerate(model.convolutions)
            for name, array in encoder.arrays(convolution).items()
        },
        "inner.weight": model.inner.used,
        "inner.bias": model.inner.bias,
        "outer.weight": model.outer.used * spread,
        "outer.bias": model.outer.bias * spread + mean,
    }
