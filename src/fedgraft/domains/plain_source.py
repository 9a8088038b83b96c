"""The source text of a trained model in the words of PyTorch Geometric."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from textwrap import indent
from typing import TypeGuard

from fedgraft.contracts.abilities.plain import PlainColumnEncoder, PlainEncoder
from fedgraft.errors import InputError
from fedgraft.nn.whole_networks import WholeNetwork

_TEXT = '''"""A trained model in PyTorch Geometric's own layers; README.md says what it reads."""

{standard}from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
{imports}{before}

class Model(nn.Module):
    """{says}"""

    def __init__(self):
        super().__init__()
{made}

    def forward({arguments}):
{forward}


def load(folder=Path(__file__).parent):
    """Return the trained model, in evaluation mode."""
    model = Model()
    model.load_state_dict(load_file(Path(folder) / "model.safetensors"))
    return model.eval()
{behind}'''


def module_text(
    imports: Sequence[str],
    before: str,
    says: str,
    made: Sequence[str],
    arguments: str,
    forward: Sequence[str],
    behind: str = "",
    standard: Sequence[str] = (),
) -> str:
    """Return the text of a Python module with the class `Model` and `load`.

    All is source text: lines that import something beside torch and safetensors, `standard` ones of Python's own
    library; what the class needs `before` it; its docstring; lines that make its layers; arguments and lines of
    `forward`; and what comes last.
    """
    return _TEXT.format(
        standard="".join(f"{line}\n" for line in standard),
        imports="".join(f"{line}\n" for line in imports),
        before=before,
        says=says,
        made=indent("\n".join(made), " " * 8),
        arguments=arguments,
        forward=indent("\n".join(forward), " " * 8),
        behind=behind,
    )


def source_of(
    encoder: PlainEncoder | None,
    classes: Sequence[str],
    says: str,
    made: Sequence[str],
    arguments: str,
    forward: Sequence[str],
    layers: Sequence[str] = (),
    helpers: str = "",
    imports: Sequence[str] = (),
) -> str:
    """Return the text of a Python module as `module_text` does, with CLASSES, their names in order, if there are any.

    An encoder gives the convolutions; None without any. `layers` are further names of `torch_geometric.nn`, `helpers`
    functions that the lines call, and `imports` further lines that import something.
    """
    names = sorted({*layers, *([encoder.layer] if encoder and encoder.layer else [])})
    lines = [*([f"from torch_geometric.nn import {', '.join(names)}"] if names else []), *imports]
    layer = encoder.layer_source if encoder else ""
    before = "".join(f"\n{text}" for text in (f"CLASSES = {list(classes)}\n" * bool(classes), layer, helpers) if text)
    return module_text(lines, before, says, made, arguments, forward)


def listed(encoder: PlainEncoder, widths: Sequence[int], edge_width: int = 0) -> str:
    """Return the line that makes a list of convolutions of these widths, the inputs' first, for so many columns."""
    made = partial(encoder.made_with, edge_width=edge_width) if _reads(encoder, edge_width) else encoder.made
    layers = [made(before, after) for before, after in pairwise(widths)]
    return f"self.convs = nn.ModuleList([{', '.join(layers)}])"


def call_of(encoder: PlainEncoder, edge_width: int, weighted: bool) -> str:
    """Return the text that calls a convolution over edges with so many columns, and perhaps weights.

    Raises `InputError` for weights that the layer of PyG takes none of.
    """
    if _reads(encoder, edge_width):
        call = encoder.full_call if weighted else encoder.column_call
    else:
        call = encoder.weight_call if weighted else encoder.call
    if not call:
        raise InputError(
            f"PyG's {encoder.layer or 'layer'} takes no weights of edges, by which this model counts neighbours: it "
            "cannot be exported; one with model.name = 'gcn' can."
        )
    return call


def _reads(encoder: PlainEncoder, edge_width: int) -> TypeGuard[PlainColumnEncoder]:
    return edge_width > 0 and isinstance(encoder, PlainColumnEncoder)


def called(network: WholeNetwork, batch: str, columns: int = 0, weighted: bool = False) -> str:
    """Return the text that calls a whole network `self.network`; `batch` is the text of each node's graph.

    It reads so many columns of edges, `edge_attr`; `weighted` says whether edges have weights, `edge_weight`.
    """
    nothing = f"x.new_zeros(edge_index.shape[1], {network.edge_width})"
    weight = "edge_weight" if weighted else "x.new_ones(edge_index.shape[1])"
    texts = {"edge_weight": weight, "edge_attr": "edge_attr" if columns else nothing, "batch": batch}
    more = [f"{name}={text}" for name, text in texts.items() if name in network.takes]
    return f"self.network({', '.join(['x', 'edge_index', *more])})"
