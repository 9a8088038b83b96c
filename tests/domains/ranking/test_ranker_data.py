import numpy as np
import pandas as pd
import pytest

from fedgraft.domains.ranking.ranker_data import asked_users, best_items, tables_of
from fedgraft.domains.ranking.shards import ItemLists
from fedgraft.errors import InputError
from helpers.ranking_shards import ranking_shard

SHARDS = [
    ranking_shard([(0, 0, 0), (1, 1, 0), (1, 2, 1)], users=2, items=4, name="east"),
    ranking_shard([(0, 3, 0)], users=1, items=4, name="west"),
]


def asked(**columns):
    return asked_users(SHARDS, pd.DataFrame(columns))


def test_rows_go_to_the_client_that_has_the_user_one_for_each_item_left():
    found = asked(user=["u1", "u0", "u1"], client=["east", "west", "east"], k=[1, 2, 9])
    assert found[0].rows.tolist() == [0, 2, 2]
    assert found[1].rows.tolist() == [1, 1]
    assert found[0].asked["user"].tolist() == [1, 1]
    assert found[0].asked["count"].tolist() == [1, 2]  # of four items it has two


def test_ten_items_unless_a_row_says_how_many():
    shard = ranking_shard([(0, 0, 0)], users=1, items=30)
    assert len(asked_users([shard], pd.DataFrame({"user": ["u0"]}))[0].rows) == 10


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"users": ["u0"]}, r"predict\.users: no column 'user'; got users\."),
        ({"user": ["u0"]}, r"user 'u0' is at several clients; give --client, one of east, west\."),
        ({"user": ["u7"]}, r"No user named 'u7'\. Did you mean 'u1'\?"),
        ({"user": ["u1"], "client": ["west"]}, r"No user of client 'west' named 'u1'\."),
        ({"user": ["u1"], "client": ["weast"]}, r"No client named 'weast'\. Did you mean 'west'\?"),
        ({"user": ["u1"], "k": [0]}, r"predict\.k must be a whole number in \[1, 1,000,000\]; got 0\."),
        ({"user": ["u1"], "k": ["many"]}, r"predict\.k must be a whole number in \[1, 1,000,000\]; got 'many'\."),
    ],
)
def test_errors_name_what_is_wrong(columns, message):
    with pytest.raises(InputError, match=message):
        asked(**columns)


def test_a_user_who_has_everything_has_nothing_left():
    full = ranking_shard([(0, 0, 0), (0, 1, 2)], users=1, items=2)
    with pytest.raises(InputError, match=r"user 'u0' has every one of the 2 items; none is left\."):
        asked_users([full], pd.DataFrame({"user": ["u0"]}))


def test_the_best_items_by_hand():
    scores = np.array([[4, 1, 4, 9], [1, 2, 3, 4]], np.float32)
    had = ItemLists.make(np.array([0, 1]), np.array([3, 2]), 2)
    found = best_items(scores, had, np.array([0, 1]), np.array([3, 1]))
    assert found["rank"].tolist() == [1, 2, 3, 1]
    assert found["item"].tolist() == [0, 2, 1, 3]
    assert found["score"].tolist() == [4, 4, 1, 4]


def test_a_list_of_users_is_a_table_and_anything_else_is_refused():
    assert tables_of(["a", 7])["users"]["user"].tolist() == ["a", "7"]
    with pytest.raises(InputError, match=r"questions must be a list of users, .* got float\."):
        tables_of(1.5)
