"""The table of what clients have, on a worked example."""

from dataclasses import dataclass

import numpy as np

from fedgraft.experiment.running import raw_data
from fedgraft.experiment.running.raw_data import described


@dataclass
class Shard:
    name: str
    split: np.ndarray
    label: np.ndarray
    classes: tuple[str, ...]


A = Shard("a", np.array([0, 0, 1, 2, -1]), np.array([0, 1, 1, 1, 0]), ("yes", "no"))
B = Shard("b", np.array([0, 2]), np.array([0, 1]), ("maybe", "no"))


def test_examples_are_counted_by_split_and_by_class():
    assert described([A, B]) == {
        "classes": ["yes", "no", "maybe"],
        "clients": [
            {"name": "a", "train": 2, "validation": 1, "test": 1, "classes": [1, 3, 0]},
            {"name": "b", "train": 1, "validation": 0, "test": 1, "classes": [0, 1, 1]},
        ],
    }


def test_without_classes_or_with_very_many_there_are_sizes_alone(monkeypatch):
    monkeypatch.setattr(raw_data, "MOST_CLASSES", 2)
    table = described([A, B])
    assert table is not None
    assert (table["classes"], table["clients"][0]["classes"]) == ([], [])
    assert described([object()]) is None
