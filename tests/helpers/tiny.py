"""The smallest experiment that is still one: made-up shops, three clients, a hundredth of a second a round."""

from typing import Any

TINY: dict[str, Any] = {
    "data.users": 60,
    "data.items": 80,
    "data.categories": 4,
    "data.links": 200,
    "data.count": 600,
    "data.clients": 3,
    "task.folds": 2,
    "rounds": 2,
    "runtime.workers": 0,
    "baselines": ["global_mean"],
}
ARGUMENTS = [f"{key}={value!r}" for key, value in TINY.items()]
"""The same for the command line."""
