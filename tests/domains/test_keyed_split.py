"""Splits by a keyed hash: worked numbers, and the laws that a row's split keeps."""

import numpy as np
import pytest

from fedgraft.domains.keyed_split import FEW, furthest, joined, joined_either_way, named, positions, split_by_hash

TENTHS = (0.1, 0.1)


def test_the_hash_of_a_row_is_the_same_for_ever() -> None:
    """Were it another, the next version would test what the last one trained on."""
    assert [f"{each:016x}" for each in named(["a", "7"]).tolist()] == ["d2b254678f5d97a8", "5ff66091ce4b6db1"]
    assert named([7]).tolist() == named(["7"]).tolist(), "by the text of an id"
    assert positions(named(["a", "7"]), 3).round(6).tolist() == [0.619851, 0.328773]


def test_ends_are_in_either_order_and_pairs_in_one() -> None:
    one, other = named(["a", "b"]), named(["b", "a"])
    assert joined_either_way(np.stack([one, other])).tolist() == joined_either_way(np.stack([other, one])).tolist()
    assert joined(one, other)[0] != joined(other, one)[0]


def test_shares_and_folds() -> None:
    rows = named(range(20_000))
    split = split_by_hash(rows, 1, (0.16, 0.2))
    assert np.bincount(split) / len(rows) == pytest.approx([0.64, 0.16, 0.2], abs=0.01)
    folds = np.stack([split_by_hash(rows, 1, (0.16, 0.2), fold=fold / 5) == 2 for fold in range(5)])
    assert (folds.sum(axis=0) == 1).all(), "every row is tested in one fold of five"
    assert (split_by_hash(rows, 1, TENTHS) == split_by_hash(rows, 2, TENTHS)).mean() < 0.75


def test_a_few_rows_are_split_by_their_place() -> None:
    rows = named(list("abcdefg"))
    order = np.argsort(positions(rows, 0))
    split = split_by_hash(rows, 0, (1e-9, 1e-9))
    assert split[order].tolist() == [2, 1, 0, 0, 0, 0, 0], "the nearest to an interval without any takes it"
    assert split_by_hash(rows, 0, (0.5, 0.5))[order].tolist()[-1] == 0, "one trains whatever the shares"
    assert split_by_hash(rows[:1], 0, (0.5, 0.5)).tolist() == [0]
    assert split_by_hash(rows[:0], 0, TENTHS).tolist() == []
    assert split_by_hash(rows[:4], 0, (1e-9, 1e-9)).tolist() == [0] * 4, "of fewer than five none has to"


def test_laws_of_order_and_of_growth() -> None:
    g = np.random.default_rng(0)
    for case in range(300):
        count, more = int(g.integers(1, 60)), int(g.integers(1, 6))
        rows, owner = named([f"{case} {k}" for k in range(count + more)]), g.integers(0, 3, count + more)
        old, new = (split_by_hash(rows[:n], 7, TENTHS, owner[:n]) for n in (count, count + more))
        order = g.permutation(count)
        assert (split_by_hash(rows[order], 7, TENTHS, owner[order]) == old[order]).all()
        enough = np.bincount(owner[:count], minlength=3)[owner[:count]] >= FEW
        assert not (enough & (old == 0) & (new[:count] == 2)).any(), "none that trained is tested later"
        for client in np.unique(owner):
            mine = new[owner == client]
            assert (mine == 0).any()
            assert len(mine) < FEW or {*mine.tolist()} == {0, 1, 2}
            alone = split_by_hash(rows[owner == client], 7, TENTHS)
            assert (alone == mine).all(), "a site splits its rows as they are split among those of all"


def test_rows_that_train_whatever_their_hash() -> None:
    rows, user = named(range(60)), np.arange(60) // 2
    kept = furthest(rows, 0, user)
    assert np.bincount(user[kept]).tolist() == [1] * 30
    split = split_by_hash(rows, 0, (0.4, 0.4), kept=kept)
    assert (split[kept] == 0).all()
    assert np.bincount(split).tolist()[0] >= 30
    everybody = np.ones(60, bool)
    assert (split_by_hash(rows, 0, TENTHS, kept=everybody) == 0).all()
