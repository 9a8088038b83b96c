"""Lists of items, and what interactions and features must be."""

import logging

import numpy as np
import pytest

from fedgraft.domains.ranking.shards import Interactions, ItemLists, RankingShard, last_of_pairs, make_shards
from fedgraft.errors import InputError

NAMES = {"user_ids": np.array(["a", "b"]), "item_ids": np.array(["x", "y", "z"])}
PAIRS = {"user": np.array([1, 0, 1]), "item": np.array([2, 0, 1])}


def test_lists_of_items_by_hand() -> None:
    lists = ItemLists.make(np.array([2, 0, 2, 2]), np.array([5, 1, 3, 4]), users=4)
    assert lists.counts.tolist() == [1, 0, 3, 0]
    assert lists.items.tolist() == [1, 3, 4, 5]
    assert lists.of(np.array([2, 1, 0, 2])).tolist() == [3, 4, 5, 1, 3, 4, 5]
    assert lists.of(np.zeros(0, np.int64)).tolist() == []


def test_a_shard_knows_each_users_items_in_a_split() -> None:
    shard = RankingShard("one", **PAIRS, split=np.array([0, 0, 2], np.int8), **NAMES)
    assert (shard.users, shard.items) == (2, 3)
    assert shard.rows("test").tolist() == [2]
    assert shard.lists("train").items.tolist() == [0, 2]
    assert shard.lists("train").counts.tolist() == [1, 1]
    with pytest.raises(InputError, match=r"split must be one of .* Did you mean 'train'\?"):
        shard.rows("training")


def test_the_last_row_of_a_pair_stands() -> None:
    assert last_of_pairs(np.array([0, 1, 0, 0]), np.array([2, 2, 2, 1])).tolist() == [1, 2, 3]
    assert last_of_pairs(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"user": np.array([0, 1, 2])}, r"Interactions.user must be within 0\.\.1; got \(0, 2\)"),
        ({"item": np.array([0, -1, 2])}, r"Interactions.item must be within 0\.\.2; got \(-1, 2\)"),
        ({"user": np.array([0])}, "Interactions.user must be as long as the 3 interactions; got 1"),
        ({"user": np.zeros(0, int), "item": np.zeros(0, int)}, "Interactions.item must be at least one interaction"),
        ({"titles": np.array(["one"])}, "Interactions.titles must be as many as the 3 items; got 1"),
        ({"features": {"text": np.zeros((2, 4))}}, r"features\['text'\] must be finite, one row for each of 3 items"),
        ({"features": {"text": np.full((3, 1), np.nan)}}, r"features\['text'\] must be finite"),
        (
            {"user": np.array([1, 1, 1]), "item": np.arange(3)},
            r"User 'b' has every one of the 3 items \(1 such users\)",
        ),
    ],
)
def test_what_cannot_be(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Interactions(**{**PAIRS, **NAMES, **change})  # type: ignore[arg-type]


def test_notes_go_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    user, item = np.divmod(np.arange(40), 4)
    ids = {"user_ids": np.arange(10).astype(str), "item_ids": np.arange(5).astype(str)}
    with caplog.at_level(logging.WARNING, "fedgraft.data"):
        make_shards(Interactions(user, item, **ids, notes=("2 left out.",)), 1, "linear", 1.0, seed=0)
    assert caplog.messages == ["2 left out."]
