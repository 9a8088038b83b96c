"""What the options of the task `node` may be."""

from typing import Any

from fedgraft.errors import require


def check_options(node: Any) -> None:
    """Raise `InputError` for an option of the task that is out of its range, or that contradicts another."""
    for name in ("neighbours", "halo", "elsewhere", "features", "classes", "smoothing"):
        require(getattr(node, name) >= 0, f"Node.{name}", ">= 0", getattr(node, name))
    require(node.logit_adjustment >= 0, "Node.logit_adjustment", ">= 0 (0 = none)", node.logit_adjustment)
    for name in ("dropout", "label_smoothing"):
        require(0 <= getattr(node, name) < 1, f"Node.{name}", "in [0, 1)", getattr(node, name))
    require(node.scale >= 0, "Node.scale", ">= 0 (0 = as they are)", node.scale)
    fits = not node.aggregates or (node.share_features and not node.share_states)
    require(fits, "Node.aggregates", "false where states are shared, or features are not", node.aggregates)
    fits = not node.generator or not (node.share_features or node.share_states)
    require(fits, "Node.generator", "false where features or states are shared", node.generator)
    require(node.generated >= 1, "Node.generated", ">= 1", node.generated)
    fits = node.smoothing > 0 or not node.share_labels
    require(fits, "Node.share_labels", "false where Node.smoothing is 0", node.share_labels)
    require(0 < node.hidden < 1, "Node.hidden", "in (0, 1)", node.hidden)
