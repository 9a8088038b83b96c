"""Which extensions the options of the task `node` ask for."""

from typing import Any

from fedgraft.contracts.encoder import LayeredEncoder
from fedgraft.domains.nodes.extensions.extension import Masked, NodeExtension
from fedgraft.domains.nodes.extensions.generated import Generated
from fedgraft.domains.nodes.extensions.refined import Refined
from fedgraft.domains.nodes.training.mended_graph import Mending
from fedgraft.errors import require

Extensions = tuple[NodeExtension, ...]


def extensions_of(node: Any) -> Extensions:
    """Return those whose options are set; networks and generators are made of convolutions."""
    found: list[NodeExtension] = [Masked()] * node.mask
    if node.refinement and isinstance(node.encoder, LayeredEncoder):
        found.append(Refined(node.input_width or 1, node.encoder.width, node.classes, node.objective.dropout))
    if node.generator and isinstance(node.encoder, LayeredEncoder):
        mending = Mending(node.generated, node.hidden, node.elsewhere)
        found.append(Generated(mending, node.encoder, node.features or 1))
    return tuple(found)


def check_options(node: Any) -> None:
    """Raise `InputError` for options, beside those of all node tasks, that are at odds."""
    fits = not node.generator or not (node.exchange.features or node.exchange.states)
    require(fits, "Node.generator", "false where features or states are shared", node.generator)
    fits = not node.generator or node.inputs.raw
    require(fits, "inputs.propagate", "0 with a generator, which makes neighbours of raw features", node.inputs.hops)
    fits = not node.generator or isinstance(node.encoder, LayeredEncoder)
    require(fits, "Node.generator", "false with a whole network: it is made of convolutions", node.generator)
    fits = not node.answering.refit or isinstance(node.encoder, LayeredEncoder)
    require(
        fits, "answers.refit", "'' with a whole network, whose hidden layers nobody else sees", node.answering.refit
    )
    fits = node.answering.refit != "hidden" or not isinstance(node.encoder, LayeredEncoder) or node.encoder.depth > 0
    require(
        fits, "answers.refit", "'' or 'answers' with a linear model, which has no hidden layer", node.answering.refit
    )
