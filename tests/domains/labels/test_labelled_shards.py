"""Shards with labels, and what a task over them refuses."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from fedgraft.contracts.loss import ClassObjective, NumberObjective
from fedgraft.domains.labelled.labels_of_data import LabelledShard
from fedgraft.domains.labelled.task import LabelTask
from fedgraft.errors import InputError
from fedgraft.methods.losses.cross_entropy import CrossEntropy

NAN = np.nan
PAIRS = LabelledShard(
    name="a",
    ids=np.array(["x", "y", "z"], object),
    ends=np.array([[0, 1, 0], [1, 2, 2]]),
    label=np.array([[1.0, NAN], [NAN, 2.0], [NAN, NAN]]),
    split=np.array([0, 1, -1], np.int8),
    classes=(),
    label_names=("wear", "noise"),
)


class Network(nn.Module):
    """A row for each thing."""

    def __init__(self, things: int, width: int, g: torch.Generator) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(things, width, generator=g))

    def forward(self) -> torch.Tensor:
        """Return the rows."""
        return self.rows


@dataclass(frozen=True)
class Told(LabelTask[LabelledShard]):
    """A task over rows."""

    network: ClassVar[type[nn.Module]] = Network
    sizes: ClassVar[tuple[int, int]] = (3, 4)

    objective: ClassObjective | NumberObjective = CrossEntropy()

    def inputs(self, shard: LabelledShard) -> tuple[torch.Tensor, ...]:
        """Nothing is read."""
        return ()


def test_a_pair_has_one_answer_in_either_order():
    task = Told().fitted([PAIRS])
    model = task.model(torch.Generator().manual_seed(0)).eval()
    answers = task.predict(model, PAIRS, {}, np.array([[0, 1], [1, 0]]))
    assert list(answers) == ["prediction_wear", "prediction_noise"]
    assert all(column[0] == pytest.approx(column[1]) for column in answers.values())


def test_a_split_needs_a_label():
    with pytest.raises(InputError, match=r"The split of a must be -1 for examples without a label; got \[2\]\."):
        replace(PAIRS, split=np.array([0, 1, 2], np.int8))
    with pytest.raises(InputError, match=r"The labels of a must be of shape \(3,\); got \(3, 2\)\."):
        replace(PAIRS, label_names=())


def test_clients_must_be_labelled_alike():
    with pytest.raises(InputError, match="a and b must be labelled alike"):
        Told().fitted([PAIRS, replace(PAIRS, name="b", label_names=("noise", "wear"))])


def test_questions_are_of_one_client_each():
    task, other = Told().fitted([PAIRS]), replace(PAIRS, name="b", ids=np.array(["x", "v", "w"], object))
    table = pd.DataFrame({"source": ["y", "v", "x"], "target": ["z", "x", "y"], "client": [None, None, "a"]})
    found = task.questions([PAIRS, other], {"examples": table})
    assert {client: each.rows.tolist() for client, each in found.items()} == {0: [0, 2], 1: [1]}
    assert found[0].asked.tolist() == [[1, 0], [2, 1]]
    for row, why in ((("x", "w", "a"), "'x' and 'w' must be of one client alone"), (("x", "x", None), "'x' and 'x'")):
        with pytest.raises(InputError, match=rf"predict\.examples, row 1: {why}"):
            task.questions([PAIRS, other], {"examples": pd.DataFrame([row], columns=list(table))})
