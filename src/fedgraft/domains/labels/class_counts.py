"""Classes that clients tell each other of before a run: their names and, where that is enough rows, how many have each.

A name must be known to all, whoever has it; how many training examples a client has of it is told from `least` on.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from fedgraft.contracts.task import ClassCounts
from fedgraft.contracts.values import Indices
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Array, Tree

CLASSES: Final = "classes"
"""What a client's classes are called in what it publishes."""


def published_classes(label: Indices, classes: Sequence[str], split: Array, least: int) -> Tree:
    """Return what a client publishes of its examples: names of classes in text's order, and how many are for training.

    `label` and `split` are [examples], -1 for none. A number below `least` is told as 0.
    """
    names = sorted(classes[place] for place in np.unique(label[label >= 0]).tolist())
    trained = np.bincount(label[(label >= 0) & (split == 0)], minlength=len(classes))
    count = np.array([trained[classes.index(name)] for name in names], np.uint32)
    return {"names": names, "count": np.where(count < least, 0, count).astype(np.uint32)}


def classes_of_all(
    published: Sequence[Any],
    least: int,
    said: Sequence[str],
    ordered: Callable[[Sequence[str]], Sequence[str]],
    own: bool,
) -> ClassCounts | None:
    """Return the classes of all clients, from what each has published; None where no client tells of any.

    They are those that a recipe has `said`, else in the order that `ordered` makes of their names. Clients may have
    classes of their `own`: of these one with a single class answers with those of all. Raises `InputError` for what no
    client can have published.
    """
    told = [each[CLASSES] if isinstance(each, dict) and CLASSES in each else None for each in published]
    parts = [_sound(each, client) for client, each in enumerate(told) if each is not None]
    if not parts:
        return None
    names = tuple(said) or tuple(ordered(sorted({name for each in parts for name in each})))
    at_least, at_most = (np.zeros(len(names), np.int64) for _ in range(2))
    for each in parts:
        for name, count in each.items():
            if name not in names:
                raise InputError(f"A client has the class {name!r}, which is none of task.class_names, {list(names)}.")
            place = names.index(name)
            at_least[place] += count
            at_most[place] += count or least - 1
    alike = not own or all(len(each) in (1, len(names)) for each in parts)
    return ClassCounts(names, at_least, at_most, alike)


def _sound(told: Any, client: int) -> dict[str, int]:
    """{name: training examples, 0 where that is not told}."""
    try:
        names, count = told["names"], told["count"]
        sound = (
            isinstance(names, list)
            and all(isinstance(name, str) for name in names)
            and len(set(names)) == len(names)
            and isinstance(count, np.ndarray)
            and count.dtype == np.uint32
            and count.shape == (len(names),)
        )
    except (KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise InputError(f"Client {client} has published something that is no names of classes with their counts.")
    return dict(zip(names, count.tolist(), strict=True))
