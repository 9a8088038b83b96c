"""Notes on the classes of a table: how many rows each has, which look like one, and which are not for training.

And classes that clients publish before a run: their names and, where that is enough rows, how many have each. A name
must be known to all, whoever has it; how many training examples a client has of it is
published from `least` on.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from fedgraft.contracts.task import ClassCounts
from fedgraft.contracts.values import Indices
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Array, Tree

NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
"""A label that is a number."""
_PLAIN: Final = re.compile(r"[\w.+-]+")
SHOWN: Final = 10
"""Classes that a note counts one by one."""


def class_notes(label: Indices, classes: Sequence[str], where: str, na_labels: Sequence[str] = ()) -> tuple[str, ...]:
    """Return notes on the classes of a table `where`: how many rows each has, and which look like one or like none."""
    if not classes:
        return ()
    count = np.bincount(label[label >= 0], minlength=len(classes))
    lost = int((label < 0).sum())
    notes = [f"{where}: classes {_counted(classes, count)}{f'; of {lost:,} rows it is unknown' if lost else ''}."]
    notes += twin_notes(classes, [f"{each:,}" for each in count.tolist()], where)
    if "-1" in classes and not na_labels:
        notes.append(
            f"{where}: '-1' is taken for a class; where it stands for an unknown one, set data.na_labels = '-1'."
        )
    return tuple(notes)


def twin_notes(classes: Sequence[str], counts: Sequence[str], where: str) -> list[str]:
    """Return notes on classes that look like one; `counts` says how many rows each has."""
    notes = []
    for twins, why in _twins(classes):
        listed = " and ".join(f"{classes[place]!r} ({counts[place]})" for place in twins)
        notes.append(f"{where}: classes {listed} {why}; each is taken for a class. Write them alike if they are one.")
    return notes


def untrained_notes(label: Indices, classes: Sequence[str], split: Array, where: str) -> tuple[str, ...]:
    """Return a note on classes of which no row is for training; none where every class that occurs has one."""
    if not classes:
        return ()
    count = np.bincount(label[label >= 0], minlength=len(classes))
    trained = np.bincount(label[(label >= 0) & (split == 0)], minlength=len(classes))
    lacking = np.flatnonzero((count > 0) & (trained == 0)).tolist()
    if not lacking:
        return ()
    listed = _counted([classes[place] for place in lacking], count[lacking])
    return (f"{where}: no row is for training of class{'' if len(lacking) == 1 else 'es'} {listed}.",)


def _counted(classes: Sequence[str], count: Indices) -> str:
    """'a (3), b (2)', of many classes the most frequent ones."""
    shown = list(range(len(classes)))
    if len(classes) > SHOWN:
        shown = sorted(np.argsort(-count, kind="stable")[:SHOWN].tolist())
    listed = ", ".join(f"{_name(classes[place])} ({count[place]:,})" for place in shown)
    more = len(classes) - len(shown)
    return f"{listed} and {more:,} rarer ones" if more else listed


def _name(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else repr(text)


def _twins(classes: Sequence[str]) -> Iterator[tuple[list[int], str]]:
    """Places of classes whose names are one number, or one text but for case and blanks, and which of these."""
    alike: dict[object, list[int]] = {}
    for place, name in enumerate(classes):
        text = name.strip()
        alike.setdefault(float(text) if NUMBER.fullmatch(text) else text.casefold(), []).append(place)
    for key, places in alike.items():
        if len(places) > 1:
            yield places, "are one number" if isinstance(key, float) else "differ in case or blanks alone"


# --- classes that clients publish -------------------------------------------------------------------------------------

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
