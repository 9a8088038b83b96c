"""Options of tasks that have moved to sections of their own: the one table of old and new names."""

import difflib
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Final

from fedgraft.errors import InputError
from fedgraft.experiment.recipes.sections import STAGES

MOVED: Final = {
    **dict.fromkeys(("scale", "propagate", "joined", "aggregates"), "inputs"),
    **dict.fromkeys(("class_weights", "focal", "label_smoothing", "logit_adjustment", "dropout", "huber"), "loss"),
    **dict.fromkeys(("objective", "margin", "negatives"), "loss"),
    **dict.fromkeys(("share_features", "share_states", "share_history", "sealed"), "exchange"),
    **dict.fromkeys(("neighbours", "halo", "fresh", "pull"), "exchange"),
    **dict.fromkeys(("smoothing", "class_prior", "refit", "local_fit", "share_labels"), "answers"),
}
"""{earlier option of [task]: the section that it is in now}."""
_NAMES: Final = {
    "joined": "hop_pooling",
    "objective": "name",
    "share_features": "features",
    "share_states": "states",
    "share_history": "history",
    "sealed": "encrypted_rows",
}
"""{earlier option of [task]: its name there}; the others keep theirs."""
_VALUES: Final = {"objective": {"softmax": "sampled_softmax"}}
"""{earlier option of [task]: {earlier value: its value now}}."""


def where(option: str) -> str:
    """Return where an earlier option of [task] is now, such as "loss.dropout"."""
    return f"{MOVED[option]}.{_NAMES.get(option, option)}"


def value_of(option: str, value: Any) -> Any:
    """Return the value that an earlier option of [task] has now."""
    return _VALUES.get(option, {}).get(value, value) if isinstance(value, str) else value


def check_moved(options: Iterable[str], task: type[Any]) -> None:
    """Raise `InputError` for an option that has moved, unless the task has one of that name that is no stage."""
    own = {each.name for each in fields(task) if each.name not in STAGES.values()}
    for option in sorted({*options} - own):
        meant = difflib.get_close_matches(option, [*own, *MOVED], n=1)
        if option not in MOVED and meant and meant[0] in MOVED:
            raise InputError(f"No task option named {option!r}. Did you mean {where(meant[0])}?")
        if option in MOVED:
            raise InputError(f"task.{option} is {where(option)} now; `fedgraft recipe upgrade FILE` rewrites a recipe.")
