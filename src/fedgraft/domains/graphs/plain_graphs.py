"""A trained model of the task `graph` in the words of PyTorch Geometric."""

from typing import Final

import torch

from fedgraft.contracts.abilities.plain import USAGE, PlainEncoder, PlainModel, Tensors
from fedgraft.contracts.encoder import NetworkEncoder
from fedgraft.contracts.labels import Unit
from fedgraft.domains.edge_data.read_edges import ReadEdges
from fedgraft.domains.graphs.model import GraphModel
from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.domains.plain_source import call_of, called, listed, source_of
from fedgraft.nn.whole_networks import WholeNetwork

_USAGE: Final = """from model import load

numbers = load()(x, edge_index)[:, 0]"""
_PLACES: Final = '''
def places(edge_index, nodes, walks={walks}, degrees={degrees}):
    """Return the chance that a walk is back after 1 .. `walks` steps, and the clipped degree, one-hot."""
    source, target = edge_index
    degree = torch.bincount(target, minlength=nodes)
    step = torch.zeros(nodes, nodes, dtype=torch.float64, device=edge_index.device)
    step[target, source] = 1.0 / degree[source].double()
    back, power = [], step
    for _ in range(walks):
        back.append(power.diagonal())
        power = power @ step
    clipped = nn.functional.one_hot(degree.clamp(1, degrees) - 1, degrees)
    return torch.cat([torch.stack(back, 1), clipped], 1).float()
'''


def plain_graphs(
    model: GraphModel,
    encoder: PlainEncoder | NetworkEncoder,
    shard: GraphShard,
    places: tuple[int, int] | None,
    edges: ReadEdges,
    unit: Unit | None = None,
) -> PlainModel:
    """Return the model of a client, whose shard tells its kinds, attributes and classes; of numbers with their unit.

    `places` are the longest walk and the largest degree that nodes' places are told by; None where the model sees none.
    `edges` is what it reads of edges.
    """
    width, taken, read = model.head.inner.out_features, model.inputs.kind.shape[1], model.head.inner.in_features
    kinds, attributes, classes = shard.kinds, shard.attributes.shape[1], model.head.outer.out_features
    layers = None if isinstance(encoder, NetworkEncoder) else encoder
    if isinstance(encoder, NetworkEncoder):
        imports, middle, forward = _network(model, encoder, edges)
    else:
        imports, (middle, forward) = [], _stack(model, encoder, edges)
    made = [
        f"self.inputs = nn.Linear({kinds + attributes + sum(places or ())}, {taken})",
        *middle,
        f"self.head = nn.Sequential(nn.Linear({read}, {width}), nn.ReLU(), nn.Linear({width}, {classes}))",
    ]
    forward = [
        *(["x = torch.cat([x, places(edge_index, len(x))], 1)"] if places else []),
        "batch = edge_index.new_zeros(len(x)) if batch is None else batch",
        "x = torch.relu(self.inputs(x))",
        *forward,
    ]
    told = "logits" if unit is None else "numbers"
    says = f"From nodes [nodes, {kinds + attributes}], edges and their graphs to {told} [graphs, {classes}]."
    helpers = _PLACES.format(walks=places[0], degrees=places[1]) if places else ""
    arguments, pool = edges.arguments("batch=None"), ["global_add_pool"]
    source = source_of(layers, shard.classes, says, made, arguments, forward, pool, helpers, imports)
    arrays, inputs = _arrays(model, encoder), _inputs(shard, edges)
    if unit is None:
        return PlainModel(source, arrays, inputs, edges.usage(USAGE))
    weight, bias = arrays["head.2.weight"] * float(unit.spread), arrays["head.2.bias"] * float(unit.spread)
    arrays = {**arrays, "head.2.weight": weight, "head.2.bias": bias + float(unit.mean)}
    told = "a number for each graph, in the unit of the labels"
    return PlainModel(source, arrays, inputs, edges.usage(_USAGE), told)


def _stack(model: GraphModel, encoder: PlainEncoder, edges: ReadEdges) -> tuple[list[str], list[str]]:
    """Return lines that make convolutions and normalisations, and those that read graphs off behind each."""
    depth, width = len(model.convolutions), model.head.inner.out_features
    norm = f"BatchNorm1d({width})" if model.norms else "Identity()"
    convolutions = listed(encoder, [width] * (depth + 1), edges.columns)
    made = [convolutions, f"self.norms = nn.ModuleList([nn.{norm} for _ in range({depth})])"]
    return made, [
        "read = [global_add_pool(x, batch)]",
        "for conv, norm in zip(self.convs, self.norms):",
        f"    x = torch.relu(norm({call_of(encoder, edges.columns, edges.weighted)}))",
        "    read.append(global_add_pool(x, batch))",
        "return self.head(torch.cat(read, 1))",
    ]


def _network(model: GraphModel, encoder: NetworkEncoder, edges: ReadEdges) -> tuple[list[str], list[str], list[str]]:
    """Return lines that import and make a whole network, and those that read graphs off what it gives."""
    network = model.convolutions[0]
    assert isinstance(network, WholeNetwork), "of a NetworkEncoder"
    line, maker = encoder.source(model.inputs.kind.shape[1])
    call = called(network, "batch", edges.columns, edges.weighted)
    read = call if network.pools else f"global_add_pool({call}, batch)"
    return [line], [f"self.network = {maker}"], [f"return self.head({read})"]


def _arrays(model: GraphModel, encoder: PlainEncoder | NetworkEncoder) -> Tensors:
    nobody, table = model.inputs.kind[-1], model.inputs.kind[:-1]  # a node of no kind has a row of its own
    arrays = {
        "inputs.weight": torch.cat([table - nobody, model.inputs.attributes]).t(),
        "inputs.bias": nobody,
        **{f"head.0.{name}": array for name, array in model.head.inner.state_dict().items()},
        **{f"head.2.{name}": array for name, array in model.head.outer.state_dict().items()},
    }
    if isinstance(encoder, NetworkEncoder):
        (network,) = model.convolutions
        assert isinstance(network, WholeNetwork), "of a NetworkEncoder"
        return {**arrays, **{f"network.{name}": array for name, array in network.module.state_dict().items()}}
    for number, convolution in enumerate(model.convolutions):
        arrays |= {f"convs.{number}.{name}": array for name, array in encoder.arrays(convolution).items()}
    for number, norm in enumerate(model.norms):
        arrays |= {f"norms.{number}.{name}": array for name, array in norm.state_dict().items()}
        arrays[f"norms.{number}.num_batches_tracked"] = torch.tensor(0)
    return arrays


def _inputs(shard: GraphShard, edges: ReadEdges) -> str:
    kinds = "".join(f"  - {number}: {name}\n" for number, name in enumerate(shard.kind_names))
    columns = "".join(f"  - {number}: {name}\n" for number, name in enumerate(shard.edge_names[: edges.columns]))
    kind = "their degrees" if shard.degrees else "their kinds; a row of zeros for none"
    first = f"- `x`: float32 [nodes, {shard.kinds + shard.attributes.shape[1]}]: one-hot columns of {kind}"
    more = f", then attributes: {', '.join(shard.attribute_names) or 'as in the training data'}"
    return (
        f"{first}{more if shard.attributes.shape[1] else ''}.\n{kinds}- `edge_index`: int64 [2, edges], source over "
        "target; an undirected edge both ways, no loops, none twice.\n- `batch`: int64 [nodes], the graph of each "
        f"node; None = one graph.\n{edges.told}{columns}"
    )
