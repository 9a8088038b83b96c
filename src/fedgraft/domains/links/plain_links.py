"""A trained model of the task `link` in the words of PyTorch Geometric."""

from collections.abc import Sequence

from torch import Tensor

from fedgraft.contracts.abilities.plain import PlainEncoder, PlainModel
from fedgraft.contracts.encoder import NetworkEncoder
from fedgraft.domains.edge_data.read_edges import ReadEdges
from fedgraft.domains.links.model import LIKENESS, LinkModel
from fedgraft.domains.nodes.training.plain_inputs import ReadFeatures
from fedgraft.domains.plain_source import call_of, called, listed, module_text
from fedgraft.nn.whole_networks import WholeNetwork

USAGE = """from model import load

odds = load()(x, edge_index, pairs)
score = odds.sigmoid()
"""
OUTPUTS = (
    "log odds, float32 [pairs]; their sigmoid is how likely the model takes a pair to be an edge and no drawn one."
)


def plain_links(
    model: LinkModel,
    encoder: PlainEncoder | NetworkEncoder,
    widths: Sequence[int],
    read: ReadFeatures,
    edges: ReadEdges,
) -> PlainModel:
    """Return the plain model of a trained one.

    `widths` are those of the inputs and behind each convolution, or behind the network; `read` says how inputs are made
    of features, and `edges` what else it reads.
    """
    imports, made, states, arrays = _network(model, encoder, widths, edges)
    arrays |= read.arrays(model.nodes)
    made += read.made
    forward = ["h = x", *read.lines("h"), *states]
    if model.nodes.head is not None:
        arrays |= {"head.weight": model.nodes.head.weight, "head.bias": model.nodes.head.bias}
        made.append(f"self.head = nn.Linear({widths[-1]}, {model.nodes.head.out_features})")
        forward.append("h = self.head(h)" if isinstance(encoder, NetworkEncoder) else "h = self.head(torch.relu(h))")
    forward.append("joined = h[pairs[0]] * h[pairs[1]]")
    if model.inner is not None and model.outer is not None:
        sizes = model.inner.in_features, model.inner.out_features
        made += [f"self.inner = nn.Linear{sizes}", f"self.outer = nn.Linear({sizes[1]}, 1)"]
        arrays |= {f"inner.{name}": array for name, array in model.inner.state_dict().items()}
        arrays |= {f"outer.{name}": array for name, array in model.outer.state_dict().items()}
        forward.append("odds = self.outer(torch.relu(self.inner(joined)))[:, 0]")
    else:
        made.append("self.bias = nn.Parameter(torch.zeros(1))")
        arrays |= {"bias": model.bias}  # type: ignore[dict-item]
        forward.append("odds = joined.sum(1) + self.bias")
    if model.likeness is not None:
        made.append("self.likeness = nn.Parameter(torch.ones(1))")
        arrays |= {"likeness": model.likeness}
        cosine = "nn.functional.cosine_similarity(x[pairs[0]], x[pairs[1]])"
        forward.append(f"odds = odds + {LIKENESS} * self.likeness * {cosine}")
    forward.append("return odds")
    says = f"From features [nodes, {read.features}], edges and pairs of nodes to log odds [pairs]."
    layer = "" if isinstance(encoder, NetworkEncoder) or not encoder.layer_source else f"\n{encoder.layer_source}"
    source = module_text(imports, layer, says, made, edges.arguments("pairs"), forward)
    inputs = (
        f"- `x`: float32 [nodes, {read.features}], the nodes' features, columns in the order of the training data."
        f"{read.told}\n"
        "- `edge_index`: int64 [2, edges], source over target; an undirected edge both ways, no loops, none twice.\n"
        f"{edges.told}"
        "- `pairs`: int64 [2, pairs], the nodes to score.\n"
    )
    return PlainModel(source, arrays, inputs, edges.usage(USAGE), OUTPUTS)


def _network(
    model: LinkModel, encoder: PlainEncoder | NetworkEncoder, widths: Sequence[int], edges: ReadEdges
) -> tuple[list[str], list[str], list[str], dict[str, Tensor]]:
    """(imports, lines that make the layers, lines of `forward` that make states `h`, arrays)."""
    convolutions = model.nodes.convolutions
    if isinstance(encoder, NetworkEncoder):
        network = convolutions[0]
        assert isinstance(network, WholeNetwork), "of a NetworkEncoder"
        line, maker = encoder.source(widths[0])
        call = called(network, "edge_index.new_zeros(len(x))", edges.columns, edges.weighted).replace("(x,", "(h,", 1)
        arrays = {f"network.{name}": array for name, array in network.module.state_dict().items()}
        return [line], [f"self.network = {maker}"], [f"h = {call}"], arrays
    arrays = {
        f"convs.{number}.{name}": array
        for number, convolution in enumerate(convolutions)
        for name, array in encoder.arrays(convolution).items()
    }
    states = [
        "for number, conv in enumerate(self.convs):",
        "    h = torch.relu(h) if number else h",
        f"    h = {call_of(encoder, edges.columns, edges.weighted).replace('(x', '(h', 1)}",
    ]
    imports = [f"from torch_geometric.nn import {encoder.layer}"] if encoder.layer else []
    return imports, [listed(encoder, widths, edges.columns)], states, arrays
