from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedgraft.domains.examples import NO_TIME
from fedgraft.domains.ranking.shards import RankingShard
from fedgraft.errors import InputError
from fedgraft.experiment.recipes.discovery import build
from fedgraft.methods.data.interactions import Interactions


def taken(users: int = 12, each: int = 6) -> pd.DataFrame:
    """Each user with some of 15 items, at two shops."""
    user, place = np.divmod(np.arange(users * each), each)
    return pd.DataFrame(
        {
            "user": [f"u{u:02d}" for u in user],
            "item": [f"i{(5 * u + 2 * p) % 15:02d}" for u, p in zip(user, place, strict=True)],
            "client": [["north", "south"][u % 2] for u in user],
            "when": np.arange(len(user)),
        }
    )


def items() -> pd.DataFrame:
    """15 items, not in the order of their ids."""
    rows = np.arange(15)[::-1]
    return pd.DataFrame(
        {
            "item": [f"i{row:02d}" for row in rows],
            "title": [f"Item {row}" for row in rows],
            "kind": [["tea", "hot tea", "red wine"][row % 3] for row in rows],
            "price": 1.5 + rows,
            "weight": 7,
        }
    )


def pairs(shards: list[RankingShard]) -> set[tuple[str, str]]:
    return {
        (str(shard.user_ids[user]), str(shard.item_ids[item]))
        for shard in shards
        for user, item in zip(shard.user, shard.item, strict=True)
    }


# --- good input -----------------------------------------------------------------------------------------------------


def test_csv_parquet_and_frame_are_the_same(tmp_path: Path) -> None:
    taken().to_csv(tmp_path / "t.csv", index=False)
    taken().to_parquet(tmp_path / "t.parquet")
    items().to_csv(tmp_path / "i.csv", index=False)
    loads = [
        Interactions(source, of, clients=3).load(seed=4)
        for source, of in (
            (tmp_path / "t.csv", tmp_path / "i.csv"),
            (tmp_path / "t.parquet", items()),
            (taken(), items()),
        )
    ]
    for shards in loads:
        assert len(shards) == 3
        for shard, first in zip(shards, loads[0], strict=True):
            for name in ("name", "user_ids", "item_ids", "user", "item", "split", "titles"):
                assert np.array_equal(getattr(shard, name), getattr(first, name))
            assert all(np.array_equal(shard.features[name], first.features[name]) for name in first.features)
    assert pairs(loads[0]) == set(zip(taken()["user"], taken()["item"], strict=True))


def test_a_table_of_items_tells_texts_and_numbers() -> None:
    shard = Interactions(taken(), items(), clients=1).load(0)[0]
    assert shard.item_ids.tolist() == sorted(items()["item"]), "in the order of ids, not of rows"
    assert shard.titles[0] == "Item 0"
    numbers = shard.features["numbers"]
    assert numbers[:, 0] == pytest.approx((np.arange(15) - 7) / np.arange(15).std(), abs=1e-3)
    assert numbers[:, 1].tolist() == [0] * 15, "what is equal everywhere tells nothing"
    text = shard.features["text"]
    assert text.shape[0] == 15
    assert text[0] @ text[3] > text[0] @ text[1]


def test_features_that_are_asked_for(tmp_path: Path) -> None:
    np.save(tmp_path / "poster.npy", np.arange(30.0).reshape(15, 2))
    wanted = {"poster": str(tmp_path / "poster.npy"), "price": ["price"], "text": "text"}
    shard = Interactions(taken(), items(), features=wanted, text=("kind",), clients=1).load(0)[0]
    assert list(shard.features) == ["poster", "price", "text"]
    assert shard.features["poster"][1].tolist() == [26, 27], "rows are in the order of the table: i01 is the 14th"
    assert shard.features["price"].shape == (15, 1)
    assert Interactions(taken(), items(), features="none", clients=1).load(0)[0].features == {}
    alone = Interactions(taken(), features=str(tmp_path / "poster.npy"), clients=1).load(0)[0]
    assert alone.item_ids.tolist() == sorted(items()["item"]), "without a table: ascending"
    assert alone.features["poster"][1].tolist() == [2, 3]


def test_a_recipe_of_ten_lines(tmp_path: Path) -> None:
    taken().to_csv(tmp_path / "t.csv", index=False)
    items().to_csv(tmp_path / "i.csv", index=False)
    section = {"name": "interactions", "interactions": str(tmp_path / "t.csv"), "items": str(tmp_path / "i.csv")}
    built = build("data", "data", {**section, "features": {"price": ["price"]}, "clients": 2})
    assert list(built.load(0)[0].features) == ["price"]


def test_a_column_or_files_name_the_clients(tmp_path: Path) -> None:
    shards = Interactions(taken(), partition="given").load(0)
    assert [shard.name for shard in shards] == ["north", "south"]
    assert shards[1].user_ids.tolist() == [f"u{u:02d}" for u in range(1, 12, 2)]
    for name, rows in taken().groupby("client"):
        rows.drop(columns="client").to_csv(tmp_path / f"{name}.csv", index=False)
    again = Interactions(tmp_path, partition="given").load(0)
    assert [shard.name for shard in again] == ["north", "south"]
    assert pairs(again) == pairs(shards)
    assert [shard.name for shard in Interactions(tmp_path).load(0)] == ["north", "south"], "as files of a folder do"
    with pytest.raises(InputError, match=r"is a folder, where each file is a client: .* must be 'given'"):
        Interactions(tmp_path, partition="uniform").load(0)


def test_who_is_at_two_clients_is_two_users() -> None:
    both = pd.concat([taken().assign(client="north"), taken().assign(client="south")])
    north, south = Interactions(both, partition="given").load(0)
    assert north.user_ids.tolist() == south.user_ids.tolist()
    assert len(north.item) == len(south.item) == len(taken())


def test_a_split_that_the_table_names() -> None:
    split = np.where(np.arange(72) % 6 == 5, "test", np.where(np.arange(72) % 6 == 4, "validation", "train"))
    shards = Interactions(taken().assign(split=split), clients=2).load(0)
    assert sum((shard.split == 2).sum() for shard in shards) == 12
    alone = Interactions(taken().assign(part=split), split="part", clients=1).load(0)[0]
    assert np.bincount(alone.split).tolist() == [48, 12, 12]


@pytest.mark.parametrize("change", [lambda n: n, lambda n: pd.to_datetime(n, unit="D").strftime("%Y-%m-%d")])
def test_a_split_by_time(change) -> None:
    rows = taken().assign(when=change(taken()["when"].to_numpy()))
    shard = Interactions(rows, time="when", clients=1).load(0)[0]
    late = {str(shard.user_ids[user]) for user in shard.user[shard.rows("test")]}
    assert late == {"u10", "u11"}


def test_repeated_pairs_count_once(caplog: pytest.LogCaptureFixture) -> None:
    Interactions(pd.concat([taken(), taken().head(3)])[["user", "item"]], clients=1).load(0)
    assert caplog.messages == [f"3 repeated pairs of user and item left out; {NO_TIME}."]


def test_ids_stay_as_they_are_written(tmp_path: Path) -> None:
    rows = taken()
    rows["user"] = [f"0{user[1:]}" for user in rows["user"]]
    rows.to_csv(tmp_path / "t.csv", index=False)
    assert Interactions(tmp_path / "t.csv", clients=1).load(0)[0].user_ids[0] == "000"


def test_tables_that_a_run_stores_make_the_same_shards() -> None:
    data = Interactions(taken(), items(), clients=2)
    kept = data.tables()
    assert list(kept["interactions"]) == ["user", "item", "client"]
    assert list(kept["items"]) == list(items())
    for ours, theirs in zip(data.load(0), Interactions(**kept, clients=2).load(0), strict=True):
        assert np.array_equal(ours.item, theirs.item)


def test_data_without_a_name_are_known_by_their_interactions() -> None:
    assert (found := Interactions.options_from({"interactions": taken()}))
    assert found["partition"] == "given", "a column of clients in memory says who holds what"
    for options in ({"clients": 3}, {"partition": "linear"}, {"client": "shop"}):
        found = Interactions.options_from({"interactions": taken(), **options})
        assert {name: value for name, value in (found or {}).items() if name != "interactions"} == options
    for other in ("t.csv", taken(), {"ratings": taken()}, None):
        assert Interactions.options_from(other) is None


def test_questions_have_the_usual_columns() -> None:
    data = Interactions(taken().rename(columns={"user": "reader"}), user="reader")
    asked = data.questions(None, {"users": pd.DataFrame({"reader": ["u01"], "k": [3]})}, {})
    assert list(asked["users"]) == ["user", "k"]


def test_one_clients_own_interactions(caplog: pytest.LogCaptureFixture) -> None:
    own = pd.DataFrame({"user": ["x", "x", "y", "y"], "item": ["i03", "i03", "i05", "unheard"]})
    for data in (Interactions(taken(), items()), Interactions(taken())):
        caplog.clear()
        shard = data.client_shard(None, {"data": own})
        run = data.load(0)[0]
        assert shard.item_ids.tolist() == run.item_ids.tolist()
        assert list(shard.features) == list(run.features)
        assert pairs([shard]) == {("x", "i03"), ("y", "i05")}
        assert set(shard.split) == {0}
        assert caplog.messages[0].startswith("--data: 1 interactions with items that the run does not know")
    with pytest.raises(InputError, match=r"--data, row 1: no item of the table is in .*, such as 'unheard'"):
        Interactions(taken()).client_shard(None, {"data": own.tail(1)})


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 0}, "Interactions.clients must be >= 1, or left out; got 0"),
        ({"partition": "gven"}, r"Interactions.partition must be one of .* Did you mean 'given'\?"),
        ({"ubi": 0.0}, r"Interactions.ubi must be in \(0, 1\]"),
        ({"item": "user"}, r"Interactions.item must be another column than Interactions.user; got 'user'"),
        ({"time": "split"}, "Interactions.time must be another column than Interactions.split; got 'split'"),
        ({"features": {"price": []}}, r"Interactions.features\['price'\] must be a source, or at least one column"),
        ({"features": {"price": "pric"}}, "Interactions.features must be one of 'text', .*; got 'pric'"),
    ],
)
def test_bad_options_fail_before_any_file_is_read(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Interactions("nowhere.csv", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.head(0), "Interactions.interactions: no rows; at least one is needed"),
        (lambda rows: rows.rename(columns={"user": "User"}), r"no column 'user' .* Did you mean 'User'\?"),
        (lambda rows: rows.assign(user=None), "Interactions.interactions, row 1: 'user' is empty"),
        (lambda rows: rows.replace({"item": {"i04": "i99"}}), r"row 3: item 'i99' is not in Interactions\.items \(\d"),
        (lambda rows: rows.assign(split="tran"), r"row 1: 'split' must be one of .* Did you mean 'train'\?"),
        (lambda rows: rows.assign(split=["train"] * 6 + ["test"] * 66), r"user 'u01' has no interaction for training"),
        (lambda rows: rows.head(2), "No interaction is for test: of 2 in all"),
    ],
)
def test_bad_interactions(change, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Interactions(change(taken()), items(), clients=1).load(0)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda rows: pd.concat([rows, rows.head(1)]), {}, r"Interactions\.items, row 16: item 'i14' is listed twice"),
        (lambda rows: rows.head(0), {}, r"Interactions\.items: no rows"),
        (lambda rows: rows.rename(columns={"item": "it"}), {}, r"Interactions\.items: no column 'item'"),
        (lambda rows: rows, {"features": {"p": ["prise"]}}, r"No column of .*named 'prise'\. Did you mean 'price'\?"),
        (lambda rows: rows, {"features": {"p": ["kind"]}}, r"row 15: 'kind' must be a finite .*; got 'tea'"),
        (lambda rows: rows, {"text": ("tittle",)}, r"No column of .*named 'tittle'\. Did you mean 'title'\?"),
        (
            lambda rows: rows.assign(price=rows["price"].where(rows["item"] != "i12")),
            {},
            r"Interactions\.items, row 3: 'price' must be a finite number, as a feature; got nothing",
        ),
    ],
)
def test_bad_items(change, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Interactions(taken(), change(items()), clients=1, **options).load(0)  # type: ignore[arg-type]


def test_other_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Interactions.interactions: no file .*t\.csv"):
        Interactions(tmp_path / "t.csv").load(0)
    with pytest.raises(InputError, match=r"Interactions.items must be given, a table of items: features 'text' need"):
        Interactions(taken(), features="text").load(0)
    with pytest.raises(InputError, match="clients must be at most 12, the number of users; got 13"):
        Interactions(taken(), clients=13).load(0)
    with pytest.raises(InputError, match=r"no column 'client' \(Interactions.client\)"):
        Interactions(taken().drop(columns="client"), partition="given").load(0)
    with pytest.raises(InputError, match="clients must be 2, as many as the data name; got 3"):
        Interactions(taken(), partition="given", clients=3).load(0)
    with pytest.raises(InputError, match="row 1: 'when' must be a number or a date; got 'soon'"):
        Interactions(taken().assign(when="soon"), time="when", clients=1).load(0)
    with pytest.raises(InputError, match="both say how to split; one is needed"):
        Interactions(taken().assign(split="train"), time="when", clients=1).load(0)
    with pytest.raises(InputError, match=r"User 'all' has every one of the 15 items \(1 such users\)"):
        Interactions(pd.concat([taken(), items()[["item"]].assign(user="all")]), clients=1).load(0)
    np.save(tmp_path / "x.npy", np.zeros((14, 2)))
    with pytest.raises(InputError, match=r"x\.npy has 14 rows, but Interactions\.items has 15 items"):
        Interactions(taken(), items(), features=str(tmp_path / "x.npy"), clients=1).load(0)
