"""Halos that are larger than the machine's memory are refused before anything is computed."""

import numpy as np
import pytest

from fedgraft.domains.nodes.base import memory_check
from fedgraft.domains.nodes.base.memory_check import check_matrices, check_room
from fedgraft.domains.nodes.base.shards import NodeShard, cut
from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from helpers.stages import restaged
from helpers.toy_nodes import whole

STAR = [(0, v) for v in range(1, 6)] + [(1, 2), (1, 3)]


def halves(is_sparse: bool = False) -> list[NodeShard]:
    """Nodes 0 and 1 at one client, with 2, 3, 4 and 5 elsewhere; these at another, with both of the first."""
    return cut(whole(STAR, is_sparse=is_sparse), np.array([0, 0, 1, 1, 1, 1]), ["a", "b"])


def test_every_copy_of_a_node_elsewhere_is_counted() -> None:
    # Six own nodes and 4 + 2 of others, two features of four bytes each.
    check_room(halves(), 0, memory_bytes=96)
    with pytest.raises(
        InputError, match=r"exchange\.halo = 0 \(all\) has 2 clients keep features of 6 nodes of others"
    ):
        check_room(halves(), 0, memory_bytes=95)


def test_what_task_halo_leaves_is_counted() -> None:
    # Of one neighbour elsewhere each, the first client's two nodes keep two, the other's four keep the two there are.
    check_room(halves(), 1, memory_bytes=80)
    with pytest.raises(InputError, match="features of 4 nodes"):
        check_room(halves(), 1, memory_bytes=79)


def test_sparse_rows_are_counted_by_their_numbers() -> None:
    # Of (v, 1) the first number is zero at node 0: 11 numbers in six rows, eight bytes each.
    check_room(halves(is_sparse=True), 0, memory_bytes=176)
    with pytest.raises(InputError):
        check_room(halves(is_sparse=True), 0, memory_bytes=175)


def test_the_error_proposes_what_fits_better() -> None:
    with pytest.raises(InputError, match=r"machine has 0\.0 GB of memory\. exchange\.halo = 10 needs"):
        check_room(halves(), 0, memory_bytes=1)
    with pytest.raises(InputError, match=r"exchange\.halo = 4 needs"):
        check_room(halves(), 8, memory_bytes=1)


def test_matrices_of_nodes_are_counted() -> None:
    # Two own nodes and four: 4 (2 * 2 + 4 * 4) bytes.
    check_matrices(halves(), memory_bytes=80)
    with pytest.raises(
        InputError, match=r"task\.refinement has clients keep a number for each pair .* of 4 at the largest"
    ):
        check_matrices(halves(), memory_bytes=79)


def test_nothing_is_checked_where_memory_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_check, "physical_bytes", lambda: None)
    check_room(halves(), 0)


def test_this_machine_has_memory() -> None:
    found = memory_check.physical_bytes()
    assert found is None or found > 1 << 28


@pytest.mark.parametrize(
    ("task", "is_refused"),
    [({}, True), ({"exchange.features": False}, False), ({"inputs.aggregates": True, "exchange.states": False}, False)],
)
def test_a_task_that_keeps_no_features_of_others_needs_no_room(
    task: dict[str, bool], is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_check, "physical_bytes", lambda: 1)
    built = jobs.load("fedlocal", {"data.name": "blocks"}).plan.task
    node = restaged(built, {"exchange.features": True, "exchange.states": True, **task})
    if is_refused:
        with pytest.raises(InputError, match=r"exchange\.halo"):
            node.fitted(halves())
    else:
        assert node.fitted(halves()).features == 2
