import numpy as np
import pytest
from scipy import sparse

from fedgraft.domains.examples import scaled
from fedgraft.domains.labels.classes import Classes
from fedgraft.domains.labels.constant import agreement
from fedgraft.domains.nodes.base.shards import NodeShard, cut, judges, pooled
from fedgraft.errors import InputError
from helpers.toy_nodes import whole


def two_clients(split: list[int]) -> list[NodeShard]:
    label = [0 if part >= 0 else -1 for part in split]
    return cut(whole(label=label, split=split), np.array([0, 0, 0, 1, 1, 1]), ("a", "b"))


def test_all_nodes_come_together_and_those_in_no_split_do_not_count() -> None:
    graph = pooled(two_clients([0, 1, 1, 2, -1, 1]))
    # Right on nodes 1 and 2 of 1, 2, 5 and wrong on node 3; node 4 has no label.
    assert agreement(Classes(), [graph], [np.array([1, 0, 0, 1, 0, 1])]) == {
        "validation": pytest.approx(2 / 3),
        "test": 0.0,
    }
    assert judges(graph).tolist() == [1, 2, 5]


def test_a_split_without_nodes_is_nan_and_training_nodes_judge_for_it() -> None:
    graph = pooled(two_clients([0, 0, 2, 2, -1, -1]))
    found = agreement(Classes(), [graph], [np.zeros(6, np.int64)])
    assert np.isnan(found["validation"])
    assert found["test"] == 1.0
    assert judges(graph).tolist() == [0, 1]


def test_without_any_training_node_nothing_can_be_learnt() -> None:
    with pytest.raises(InputError, match="The 6 nodes of 2 clients have no training node among them"):
        pooled(two_clients([1, 1, 1, 2, 2, 2]))


@pytest.mark.parametrize("is_sparse", [False, True])
def test_rows_get_one_length_and_rows_of_zeros_stay(is_sparse: bool) -> None:
    features = np.array([[3, 4], [0, 0], [0, -2]], np.float32)
    given = sparse.csr_matrix(features) if is_sparse else features.copy()
    found = scaled(given, 2.0)
    assert isinstance(found, sparse.csr_matrix) == is_sparse
    assert found.dtype == np.float32
    dense, before = (each.toarray() if is_sparse else each for each in (found, given))
    np.testing.assert_allclose(dense, [[1.2, 1.6], [0, 0], [0, -2]], rtol=1e-6)
    assert (before == features).all(), "a copy"
