"""Edges with labels: who answers for which, what each may hear of, and what came before it; a few by hand."""

import dataclasses

import numpy as np
import pytest

from fedgraft.domains.edge_data.edge_rows import both_ways
from fedgraft.domains.edges.exchange import HistoryExchange
from fedgraft.domains.edges.history import history_of
from fedgraft.domains.edges.order_of_time import order_of, sees, split_of, stage_of
from fedgraft.domains.edges.shards import EdgeShard, deal_edges, merge_edges, unrolled
from fedgraft.domains.nodes.base.shards import WholeGraph
from fedgraft.errors import InputError, WireError

ENDS = np.array([[0, 1, 0, 2, 3, 0, 1, 3, 0, 2], [1, 0, 1, 0, 0, 1, 3, 0, 2, 1]])
"""Ten edges among four nodes, in the order of time; 0 -> 1 is there three times."""
TIME = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 10.0])
AMOUNT = np.arange(1, 11, dtype=np.float32)[:, None]


def dealt(owner: list[int], timed: bool = True, between: bool = True, amounts: np.ndarray = AMOUNT) -> list[EdgeShard]:
    pointers, senders, rows = both_ways(ENDS, amounts, 4, directed=True, order=order_of(TIME))
    graph = WholeGraph(
        name="toy",
        ids=np.array(list("abcd"), object),
        features=np.ones((4, 1), np.float32),
        label=np.full(4, -1),
        classes=(),
        split=np.full(4, -1, np.int8),
        pointers=pointers,
        senders=senders,
        edge_rows=rows,
    )
    names = [f"client-{k}" for k in range(max(owner) + 1)]
    label = np.arange(10) % 2
    return deal_edges(
        graph, ENDS, np.zeros((10, 0), np.float32), label, ("no", "yes"), np.array(owner), names, timed, between
    )


def test_places_are_shares_of_what_came_before_and_equal_times_have_one() -> None:
    assert order_of(np.array([5.0, 1, 5, 9])).tolist() == [0.25, 0, 0.25, 0.75]
    order = np.array([0, 0.63, 0.64, 0.79, 0.8, 0.99])
    assert split_of(order).tolist() == [0, 0, 1, 1, 2, 2]
    assert stage_of(np.append(order, 1.0), 2).tolist() == [0, 1, 2, 2, 3, 3, 4]


def test_with_times_a_stage_sees_earlier_ones_alone_and_else_all_other_windows() -> None:
    stages = np.arange(5)  # two windows, validation, test, later
    seen = {
        timed: [sees(stage, stages, 2, timed).astype(int).tolist() for stage in range(5)] for timed in (True, False)
    }
    assert seen[True] == [[0] * 5, [1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]
    windows = [1, 1, 0, 0, 0]
    assert seen[False] == [[0, 1, 0, 0, 0], [1, 0, 0, 0, 0], windows, windows, [1, 1, 1, 1, 0]]


def test_an_edge_is_its_sources_clients_and_both_clients_have_it_in_their_graphs() -> None:
    one, other = dealt([0, 1, 0, 1])
    assert one.order.tolist() == [0, 0.2, 0.3, 0.5, 0.8, 0.9], "edges from a and c"
    # Own nodes a, c are 0, 1; b, d of the other client 2 and 3, if they are there.
    assert one.graph.halo_owner.tolist() == [1, 1]
    assert one.ends.tolist() == [[0, 0, 1, 0, 0, 1], [2, 2, 0, 2, 1, 2]]
    assert other.ends.shape[1] == 4
    whole = merge_edges([one, other])
    names = whole.ids[whole.ends]
    told = sorted(zip(whole.order.tolist(), names[0].tolist(), names[1].tolist(), strict=True))
    wanted = [
        (order, "abcd"[s], "abcd"[t]) for order, s, t in zip(order_of(TIME).tolist(), *ENDS.tolist(), strict=True)
    ]
    assert told == wanted


def test_without_edges_between_clients_their_targets_are_unknown_and_still_scored() -> None:
    one, _ = dealt([0, 1, 0, 1], between=False)
    assert one.graph.halo == 0
    assert one.ends[1].tolist() == [-1, -1, 0, -1, 1, -1]


def test_copies_hear_from_what_their_stage_sees() -> None:
    """Two windows: stages of the ten edges are 0 0 0 0, 1 1 1, 2, 3 3; validation and test are stages 2 and 3."""
    (shard,) = dealt([0, 0, 0, 0])
    made = unrolled(shard, 2)
    assert stage_of(shard.order, 2).tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 3, 3]
    assert made.graph.own == 4 * 5
    counts = made.graph.degree.reshape(4, 5)
    seen = [np.bincount(ENDS[:, : [0, 4, 7, 8, 10][stage]].ravel(), minlength=4) for stage in range(5)]
    assert counts.T.tolist() == [each.tolist() for each in seen]
    into = np.expm1(made.graph.features[:, 1]).reshape(4, 5)
    assert into[0].round().astype(int).tolist() == [0, 2, 3, 4, 4], "edges into a"
    assert (made.ends == shard.ends * 5 + stage_of(shard.order, 2)).all()


def test_addresses_of_copies_agree_at_both_clients() -> None:
    shards = dealt([0, 1, 0, 1])
    made = [unrolled(shard, 2) for shard in shards]
    for mine, other in ((0, 1), (1, 0)):
        graph = made[mine].graph
        assert (graph.halo_owner == other).all()
        node, stage = np.divmod(graph.halo_place, 5)
        assert node.max() < shards[other].graph.own
        assert (np.diff(graph.halo_place) > 0).all()
        assert {4} <= {*stage.tolist()}, "of each what is asked later"


def test_a_history_counts_what_came_before_and_nothing_else() -> None:
    (shard,) = dealt([0, 0, 0, 0])
    found = history_of(shard)
    counts, means = np.expm1(found[:, ::2]).round().astype(int), found[:, 1::2]
    # 0 -> 1 at time 6, the sixth edge: before it 0 -> 1 twice (1, 3), 1 -> 0 once (2); from 0: 1, 3; into 0: 2, 4, 5;
    # from 1: 2; into 1: 1, 3.
    assert counts[5].tolist() == [2, 1, 2, 3, 1, 2]
    assert means[5] == pytest.approx([2, 2, 2, 11 / 3, 2, 2])
    assert counts[0].tolist() == [0] * 6


def test_told_histories_are_those_of_one_place(caplog: pytest.LogCaptureFixture) -> None:
    """What the target's client tells of each edge is what one place counts, and a later change changes nothing."""
    shards = dealt([0, 1, 0, 1])
    (whole,) = dealt([0, 0, 0, 0])
    exchange = HistoryExchange(1)
    published = {k: exchange.statistics(shard) for k, shard in enumerate(shards)}
    for each in published.values():
        exchange.check(each)
    back = exchange.combine(published)
    wanted = dict(zip(whole.order.tolist(), history_of(whole), strict=True))
    for k, shard in enumerate(shards):
        found = history_of(shard)
        found[:, -exchange.width :] += exchange.received(shard, back[k])[0]
        for order, row in zip(shard.order.tolist(), found, strict=True):
            assert row == pytest.approx(wanted[order])
    assert not caplog.text
    alone = exchange.combine({0: published[0]})[0]
    assert not exchange.received(shards[0], alone)[0].any()
    assert "client 1 told of 0 histories where 6 belong to edges between the two" in caplog.text
    broken = dict(published[0], history_counts=published[0]["history_counts"] + 1)
    with pytest.raises(WireError, match="histories of edges where"):
        exchange.check(broken)


def test_a_history_is_known_by_who_tells_whom_and_its_number() -> None:
    shards, exchange = dealt([0, 1, 0, 1]), HistoryExchange(1, encrypted=True)
    published = {k: exchange.statistics(shard) for k, shard in enumerate(shards)}
    sent = exchange.sent_places(0, published[0])["history"]
    assert sent.tolist() == [[0, 1, k] for k in range(len(sent))]
    told = exchange.combine(published)[1]
    assert exchange.received_places(1, told)["history"].tolist() == sent.tolist()
    assert HistoryExchange(1).sent_places(0, published[0]) == HistoryExchange(1).received_places(1, told) == {}
    with pytest.raises(WireError, match=r"encrypted histories where \d+ are meant"):
        exchange.received_places(1, {**told, "history_counts": told["history_counts"] + 1})


def test_later_amounts_change_no_earlier_history_and_no_earlier_message() -> None:
    changed = AMOUNT.copy()
    changed[7:] = 1000
    (before,), (after,) = dealt([0, 0, 0, 0]), dealt([0, 0, 0, 0], amounts=changed)
    assert (history_of(before)[:8] == history_of(after)[:8]).all()
    one, other = unrolled(before, 2).graph, unrolled(after, 2).graph
    stage = np.repeat(np.arange(one.own), one.degree) % 5
    assert one.edge_rows is not None
    assert other.edge_rows is not None
    assert (one.edge_rows.values[stage < 3] == other.edge_rows.values[stage < 3]).all()


def test_a_shard_is_checked() -> None:
    (shard,) = dealt([0, 0, 0, 0])
    with pytest.raises(InputError, match=r"EdgeShard\.ends of client-0 must be -1\.\.3; got 9"):
        dataclasses.replace(shard, ends=np.where(shard.ends == 3, 9, shard.ends))
