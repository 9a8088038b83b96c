"""A trained model of the task `node` in the words of PyTorch Geometric."""

from collections.abc import Sequence

from fedgraft.contracts.abilities.plain import USAGE, PlainEncoder, PlainModel, Tensors
from fedgraft.contracts.encoder import NetworkEncoder
from fedgraft.domains.edge_data.read_edges import ReadEdges
from fedgraft.domains.nodes.training.model import NodeModel
from fedgraft.domains.nodes.training.plain_inputs import ReadFeatures
from fedgraft.domains.plain_source import call_of, called, listed, source_of
from fedgraft.nn.layers import weight_of
from fedgraft.nn.whole_networks import WholeNetwork


def plain_nodes(
    model: NodeModel,
    encoder: PlainEncoder,
    widths: Sequence[int],
    classes: Sequence[str],
    read: ReadFeatures,
    edges: ReadEdges,
) -> PlainModel:
    """Return the plain model of a trained one.

    `widths` are those of the inputs and behind each convolution; `read` says how inputs are made of features, and
    `edges` what else the model reads.
    """
    arrays: Tensors = {
        f"convs.{number}.{name}": array
        for number, convolution in enumerate(model.convolutions)
        for name, array in encoder.arrays(convolution).items()
    }
    arrays = {**arrays, **read.arrays(model)}
    made = [*read.made, listed(encoder, widths, edges.columns)]
    forward = [
        *read.lines(),
        "for number, conv in enumerate(self.convs):",
        "    x = torch.relu(x) if number else x",
        f"    x = {call_of(encoder, edges.columns, edges.weighted)}",
    ]
    if model.head is None:
        forward.append("return x")
    else:
        made.append(f"self.head = nn.Linear({widths[-1]}, {len(classes)})")
        forward.append("return self.head(torch.relu(x))")
        arrays = {**arrays, "head.weight": weight_of(model.head), "head.bias": model.head.bias}
    says, inputs = _about(len(classes), read)
    source = source_of(encoder, classes, says, made, edges.arguments(), forward)
    return PlainModel(source, arrays, inputs + edges.told, edges.usage(USAGE))


def plain_network(
    model: NodeModel, encoder: NetworkEncoder, classes: Sequence[str], read: ReadFeatures, edges: ReadEdges
) -> PlainModel:
    """Return the model around a whole network; arguments as of `plain_nodes`."""
    network = model.convolutions[0]
    assert isinstance(network, WholeNetwork), "of a NetworkEncoder"
    assert model.head is not None, "a network has one"
    line, maker = encoder.source(read.inputs.width(read.features))
    made = [*read.made, f"self.network = {maker}", f"self.head = nn.Linear({network.width}, {len(classes)})"]
    arrays: Tensors = {
        **{f"network.{name}": array for name, array in network.module.state_dict().items()},
        "head.weight": model.head.weight,
        "head.bias": model.head.bias,
        **read.arrays(model),
    }
    call = called(network, "edge_index.new_zeros(len(x))", edges.columns, edges.weighted)
    forward = [*read.lines(), f"return self.head({call})"]
    says, inputs = _about(len(classes), read)
    source = source_of(None, classes, says, made, edges.arguments(), forward, imports=[line])
    return PlainModel(source, arrays, inputs + edges.told, edges.usage(USAGE))


def _about(classes: int, read: ReadFeatures) -> tuple[str, str]:
    """Return what the model's docstring says, and what is said of its inputs."""
    says = f"From features [nodes, {read.features}] and edges to logits [nodes, {classes}]."
    inputs = (
        f"- `x`: float32 [nodes, {read.features}], the nodes' features, columns in the order of the training data, as "
        f"they are there.{read.told}\n- `edge_index`: int64 [2, edges], source over target; an undirected edge both "
        "ways, no loops, none twice.\n"
    )
    return says, inputs
