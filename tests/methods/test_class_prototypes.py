"""What clients tell of classes, by hand."""

import numpy as np
import pytest
import torch

from fedgraft.contracts import Observations, Update
from fedgraft.contracts.facts import TaskFacts
from fedgraft.errors import InputError
from fedgraft.methods.class_prototypes import COUNTS, PROTOTYPES, distance, means, prototypes_of
from fedgraft.methods.sharing.fedproto import FedProto
from helpers.toy_runs import run
from laws.parted import parted


def told(client, prototypes, counts):
    arrays = {PROTOTYPES: np.array(prototypes, np.float32), COUNTS: np.array(counts, np.int32)}
    return Update(client, 0.5, arrays)


class Seeing:
    """A trainer with two examples of class 0 and one of class 2: it records the penalty of a step on the last two."""

    client = 0

    def __init__(self):
        self.penalties = []
        self.hidden = np.array([[1, 1], [3, 1], [0, 2]], np.float32)

    def observe(self):
        none = np.zeros(3, np.float32)
        return Observations(none, none[:, None], self.hidden, none > 0, none, np.array([0, 0, 2]))

    def run(self, hidden_penalty=None):
        if hidden_penalty is not None:
            examples = np.array([1, 2])
            self.penalties.append(float(hidden_penalty(torch.from_numpy(self.hidden[examples]), examples)))


def test_prototypes_are_means_of_classes():
    prototypes, counts = prototypes_of(np.array([[1, 2], [3, 6], [5, 5]], np.float32), np.array([2, 2, 0]), 3)
    assert prototypes.tolist() == [[5, 5], [0, 0], [2, 4]]
    assert counts.tolist() == [1, 0, 2]


def test_means_are_over_the_clients_that_have_a_class():
    updates = [told(0, [[1], [4], [0]], [1, 2, 0]), told(3, [[5], [9], [0]], [3, 0, 0])]
    by_examples, counts = means(updates, count=True)
    assert by_examples.tolist() == [[4], [4], [0]], "(1 + 3 x 5) / 4"
    assert counts.tolist() == [4, 2, 0]
    assert means(updates, count=False)[0].tolist() == [[3], [4], [0]]


def test_a_count_that_nobody_can_have_is_none():
    assert means([told(0, [[1.0]], [-3]), told(1, [[2.0]], [1])], count=True)[0].tolist() == [[2.0]]


def test_examples_of_unknown_classes_are_not_pulled():
    hidden, prototypes = torch.tensor([[0.0, 2.0], [7.0, 7.0]]), torch.tensor([[0.0, 0.0], [0.0, 0.0]])
    assert float(distance(hidden, prototypes, torch.tensor([True, False]))) == pytest.approx((4 / 2 + 0) / 2)


def test_a_round_of_a_client_by_hand():
    method, trainer = FedProto(weight=2.0).fitted(TaskFacts(hidden_width=2, common_classes=3)), Seeing()
    nothing = {PROTOTYPES: np.zeros((3, 2), np.float32), COUNTS: np.zeros(3, np.int32)}
    upload, memory = method.local_update(trainer, nothing, None)
    assert (trainer.penalties, memory) == ([], None)
    assert upload[PROTOTYPES].tolist() == [[2, 1], [0, 0], [0, 2]]
    assert upload[COUNTS].tolist() == [2, 0, 1]
    known = {PROTOTYPES: np.array([[1, 1], [9, 9], [8, 8]], np.float32), COUNTS: np.array([5, 5, 0], np.int32)}
    method.local_update(trainer, known, None)
    assert trainer.penalties == [pytest.approx(2 * ((2**2 / 2) + 0) / 2)], "of example 1; nothing is known of class 2"


def test_what_is_sent_is_prototypes_and_counts_and_no_model():
    state, method = (
        run(parted(sharing={"name": "fedproto"}, rounds=2))[0],
        FedProto().fitted(TaskFacts(hidden_width=3, common_classes=2)),
    )
    sent = method.model(state.sharing)
    assert {name: array.shape for name, array in sent.items()} == {PROTOTYPES: (2, 3), COUNTS: (2,)}
    assert not method.shares("structure.weight")


def test_width_and_classes_must_be_those_of_the_task():
    with pytest.raises(InputError, match=r"FedProto\.width must be 8 as the task has, or 0; got 4"):
        FedProto(width=4).fitted(TaskFacts(hidden_width=8, common_classes=3))
    with pytest.raises(InputError, match=r"FedProto\.classes must be 3 as the task has, or 0; got 2"):
        FedProto(classes=2).fitted(TaskFacts(hidden_width=8, common_classes=3))
    with pytest.raises(InputError, match=r"FedProto\.weight must be >= 0; got -1"):
        FedProto(weight=-1)


def test_nothing_that_is_for_steps_of_a_model_goes_with_it():
    for option, said in (("aggregation.name", "aggregation.name must be 'mean'"), ("safeguards.clip", "must be 0")):
        value = "median" if option.startswith("aggregation") else 1.0
        with pytest.raises(InputError, match=f"{said} with sharing FedProto, whose clients send no steps of a model"):
            parted(sharing={"name": "fedproto"}).with_changes({option: value})


def test_classes_must_be_in_common():
    with pytest.raises(InputError, match="sharing FedProto needs classes that all clients have in common"):
        FedProto().fitted(TaskFacts(hidden_width=8, common_classes=0)).init({}, 3)
