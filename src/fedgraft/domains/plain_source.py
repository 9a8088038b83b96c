"""The source text of a trained model in the words of PyTorch Geometric."""

from collections.abc import Sequence
from itertools import pairwise
from textwrap import indent

from fedgraft.contracts.plain import PlainEncoder
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
    """Return the text of a Python module as `module_text` does, with CLASSES, their names in order.

    An encoder gives the convolutions; None without any. `layers` are further names of `torch_geometric.nn`, `helpers`
    functions that the lines call, and `imports` further lines that import something.
    """
    names = sorted({*layers, *([encoder.layer] if encoder and encoder.layer else [])})
    lines = [*([f"from torch_geometric.nn import {', '.join(names)}"] if names else []), *imports]
    before = "".join(f"\n{text}" for text in (f"CLASSES = {list(classes)}\n", helpers) if text)
    return module_text(lines, before, says, made, arguments, forward)


def listed(encoder: PlainEncoder, widths: Sequence[int]) -> str:
    """Return the line that makes a list of convolutions of these widths, the inputs' first."""
    layers = [encoder.made(before, after) for before, after in pairwise(widths)]
    return f"self.convs = nn.ModuleList([{', '.join(layers)}])"


def called(network: WholeNetwork, batch: str) -> str:
    """Return the text that calls a whole network `self.network`; `batch` is the text of each node's graph."""
    texts = {"edge_weight": "x.new_ones(edge_index.shape[1])", "batch": batch}
    more = [f"{name}={text}" for name, text in texts.items() if name in network.takes]
    return f"self.network({', '.join(['x', 'edge_index', *more])})"
