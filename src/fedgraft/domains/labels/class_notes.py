"""Notes on the classes of a table: how many rows each has, which look like one, and which are not for training."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from fedgraft.contracts.values import Indices
from fedgraft.wire.layouts import Array

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
