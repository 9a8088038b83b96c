"""What the options of the task `node` may be."""

from typing import Any

from fedgraft.contracts.encoder import LayeredEncoder
from fedgraft.errors import require


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
