"""Weights of classes: by hand, from all clients' counts, and refused."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fedgraft.domains.labels.class_weights import (
    COUNTS,
    WEIGHTS,
    PublishedCounts,
    balanced,
    check_counts,
    check_names,
    check_weights,
    counts_of,
    own_weights,
    weighted,
    weights_of,
)
from fedgraft.domains.labels.classes import Classes
from fedgraft.errors import InputError, WireError
from fedgraft.methods.exchanges.halo import Halo
from fedgraft.methods.losses.cross_entropy import CrossEntropy
from fedgraft.methods.models.sage import SAGE
from fedgraft.methods.tasks.node import Node


def shard(label):
    return SimpleNamespace(label=np.array(label, np.int64), rows=lambda split: np.arange(len(label)))


def test_balanced_weights_by_hand_are_finite_whatever_there_is():
    assert balanced(np.array([3, 1])).tolist() == [4 / 6, 4 / 2]
    assert balanced(np.array([4, 0])).tolist() == [0.5, 2.0]
    assert balanced(np.array([0, 0])).tolist() == [1.0, 1.0]
    label = np.repeat([0, 1], [985, 15])
    assert balanced(np.bincount(label))[label].mean() == pytest.approx(1.0)


def test_all_clients_counts_make_one_weight_that_all_are_told():
    task = Node(
        SAGE(),
        classes=2,
        class_names=("ok", "fraud"),
        objective=CrossEntropy(class_weights="balanced"),
        exchange=Halo(states=False),
    )
    published = {k: {COUNTS: np.array(counts, np.float64)} for k, counts in enumerate([[6, 0], [3, 1]])}
    assert [spec.name for spec in task.publications.statistics_layout][-1] == COUNTS
    assert [spec.name for spec in task.publications.combined_layout][-1] == WEIGHTS
    told = PublishedCounts(2).combine(published)
    np.testing.assert_allclose(told[1][WEIGHTS], [10 / 18, 10 / 2])
    np.testing.assert_allclose(weights_of("balanced", None, told[0], (), 2), [10 / 18, 10 / 2])


def test_a_table_and_a_clients_own_examples():
    assert own_weights("", shard([0, 1]), ("ok", "fraud"), 2) is None
    assert own_weights({"fraud": 20}, shard([0]), ("ok", "fraud"), 2).tolist() == [1.0, 20.0]
    np.testing.assert_allclose(own_weights("balanced", shard([0, 0, 0, 1]), (), 2), [4 / 6, 2.0])
    losses = weighted(torch.tensor([1.0, 1.0]), torch.tensor([1, 0]), torch.tensor([0.5, 4.0]))
    assert losses.tolist() == [4.0, 0.5]


def test_each_of_several_labels_has_weights_of_its_own():
    some = shard([[0, 1], [0, -1], [0, 1], [1, 1]])
    assert counts_of(some, 2).tolist() == [[3, 1], [0, 3]]
    assert balanced(counts_of(some, 2)).tolist() == [[4 / 6, 4 / 2], [1.5, 0.5]]
    assert balanced(np.array([[0, 0], [1, 1]])).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert own_weights({"fraud": 20}, some, ("ok", "fraud"), 2).tolist() == [[1.0, 20.0], [1.0, 20.0]]
    published = {
        k: {COUNTS: np.array(counts, np.float64)} for k, counts in enumerate([[[6, 0], [1, 1]], [[3, 1], [0, 0]]])
    }
    np.testing.assert_allclose(
        PublishedCounts(2, labels=2).combine(published)[0][WEIGHTS], [[10 / 18, 5.0], [1.0, 1.0]]
    )


@pytest.mark.parametrize("counts", [[-1.0, 2.0], [0.5, 1.0], [np.nan, 1.0]])
def test_counts_that_no_client_has_are_refused(counts):
    with pytest.raises(WireError, match="training examples of the classes"):
        check_counts(np.array(counts))


def test_a_focal_loss_is_small_where_the_own_class_is_sure():
    outputs, label = torch.tensor([[0.0, 0.0], [4.0, 0.0]]), torch.tensor([0, 0])
    plain, focal = (
        Classes(count=2).losses(outputs, label),
        Classes(count=2, objective=CrossEntropy(focal=2.0)).losses(outputs, label),
    )
    np.testing.assert_allclose(focal[0], plain[0] * 0.25, rtol=1e-5)
    assert focal[1] < 0.001 * plain[1]


def test_errors_name_the_option_the_class_and_the_nearest_right_name():
    with pytest.raises(InputError, match=r"Node\.class_weights must be .* got 'balance'\. Did you mean 'balanced'\?"):
        check_weights("Node", "balance")
    with pytest.raises(InputError, match=r"Node\.class_weights\.fraud must be a number >= 0; got -1"):
        check_weights("Node", {"fraud": -1})
    with pytest.raises(InputError, match=r"CrossEntropy\.focal must be >= 0"):
        CrossEntropy(focal=-1.0)
    with pytest.raises(InputError, match=r"no class 'frod'; 'ok', 'fraud'\. Did you mean 'fraud'\?"):
        check_names("task", {"frod": 2.0}, ("ok", "fraud"))
