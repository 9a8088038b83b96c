"""What the options of the task `node` may be."""

from typing import Any

from fedgraft.contracts.encoder import LayeredEncoder
from fedgraft.errors import require, require_one_of


def check_options(node: Any) -> None:
    """Raise `InputError` for an option that the task has beside those of all node tasks: out of range, or at odds."""
    for name in ("elsewhere", "classes", "smoothing"):
        require(getattr(node, name) >= 0, f"Node.{name}", ">= 0", getattr(node, name))
    require(node.logit_adjustment >= 0, "Node.logit_adjustment", ">= 0 (0 = none)", node.logit_adjustment)
    require(0 <= node.label_smoothing < 1, "Node.label_smoothing", "in [0, 1)", node.label_smoothing)
    fits = not node.generator or not (node.share_features or node.share_states)
    require(fits, "Node.generator", "false where features or states are shared", node.generator)
    fits = not (node.generator and node.propagate)
    require(fits, "Node.propagate", "0 with a generator, which makes neighbours of raw features", node.propagate)
    fits = not node.generator or isinstance(node.encoder, LayeredEncoder)
    require(fits, "Node.generator", "false with a whole network: it is made of convolutions", node.generator)
    require(node.generated >= 1, "Node.generated", ">= 1", node.generated)
    require_one_of("Node.refit", node.refit, ("", "answers", "hidden"))
    fits = not node.refit or isinstance(node.encoder, LayeredEncoder)
    require(fits, "Node.refit", "'' with a whole network, whose hidden layers nobody else sees", node.refit)
    fits = node.refit != "hidden" or not isinstance(node.encoder, LayeredEncoder) or node.encoder.depth > 0
    require(fits, "Node.refit", "'' or 'answers' with a linear model, which has no hidden layer", node.refit)
    fits = node.smoothing > 0 or not node.share_labels
    require(fits, "Node.share_labels", "false where Node.smoothing is 0", node.share_labels)
    require(0 < node.hidden < 1, "Node.hidden", "in (0, 1)", node.hidden)
