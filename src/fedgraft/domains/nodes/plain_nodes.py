"""A trained model of the task `node` in the words of PyTorch Geometric."""

from collections.abc import Sequence

from fedgraft.contracts.plain import PlainEncoder, PlainModel, Tensors
from fedgraft.domains.nodes.model import NodeModel
from fedgraft.domains.plain_source import listed, source_of


def plain_nodes(
    model: NodeModel, encoder: PlainEncoder, widths: Sequence[int], classes: Sequence[str], scale: float
) -> PlainModel:
    """Return the model.

    Args:
        model: trained.
        encoder: that it is made of.
        widths: of the features and behind each convolution.
        classes: names of the classes.
        scale: length to which features are scaled; 0 leaves them.
    """
    arrays: Tensors = {
        f"convs.{number}.{name}": array
        for number, convolution in enumerate(model.convolutions)
        for name, array in encoder.arrays(convolution).items()
    }
    made = [listed(encoder, widths)]
    forward = [f"x = x * ({scale} / x.norm(dim=1, keepdim=True).clamp(min=1e-30))"] if scale else []
    forward += [
        "for number, conv in enumerate(self.convs):",
        "    x = torch.relu(x) if number else x",
        f"    x = {encoder.call}",
    ]
    if model.head is None:
        forward.append("return x")
    else:
        made.append(f"self.head = nn.Linear({widths[-1]}, {len(classes)})")
        forward.append("return self.head(torch.relu(x))")
        arrays = {**arrays, "head.weight": model.head.weight, "head.bias": model.head.bias}
    says = f"From features [nodes, {widths[0]}] and edges to logits [nodes, {len(classes)}]."
    scaled = f" The model scales every row to the length {scale} itself." if scale else ""
    inputs = (
        f"- `x`: float32 [nodes, {widths[0]}], the nodes' features, columns in the order of the training data, as they "
        f"are there.{scaled}\n- `edge_index`: int64 [2, edges], source over target; an undirected edge both ways, no "
        "loops, none twice.\n"
    )
    return PlainModel(source_of(encoder, classes, says, made, "self, x, edge_index", forward), arrays, inputs)
