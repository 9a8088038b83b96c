from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedgraft.domains.examples import NO_TIME
from fedgraft.errors import InputError
from fedgraft.methods.data.table import Table


def frame(n: int = 40) -> pd.DataFrame:
    """n ratings of n items by 7 users in 4 categories."""
    rows = np.arange(n)
    return pd.DataFrame(
        {
            "user": [f"u{r % 7}" for r in rows],
            "item": [f"i{r:02d}" for r in rows],
            "rating": 1.0 + rows % 5,
            "category": [["books", "music", "toys", "wine"][r % 4] for r in rows],
            "shop": [["north", "south"][r % 2] for r in rows],
        }
    )


TRUST = pd.DataFrame({"user": ["u0", "u1"], "trusts": ["u1", "u2"]})


# --- good input -----------------------------------------------------------------------------------------------------


def test_csv_parquet_and_frame_are_the_same(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "r.csv", index=False)
    frame().to_parquet(tmp_path / "r.parquet")
    TRUST.to_csv(tmp_path / "t.csv", index=False)
    loads = [
        Table(source, trust=trust, clients=2).load(seed=4)
        for source, trust in (
            (tmp_path / "r.csv", tmp_path / "t.csv"),
            (str(tmp_path / "r.parquet"), str(tmp_path / "t.csv")),
            (frame(), TRUST),
        )
    ]
    for shards in loads:
        assert len(shards) == 2
        for shard, first in zip(shards, loads[0], strict=True):
            assert shard.name == first.name
            assert shard.user_ids.tolist() == first.user_ids.tolist()
            assert shard.rating.tolist() == first.rating.tolist()
            assert shard.split.tolist() == first.split.tolist()
            assert shard.trust.tolist() == first.trust.tolist()


def test_original_ids_and_names(tmp_path: Path) -> None:
    shards = Table(frame(), trust=TRUST, clients=4).load(seed=0)
    assert sorted(shard.name for shard in shards) == ["books", "music", "toys", "wine"]
    books = next(shard for shard in shards if shard.name == "books")
    assert sorted(books.item_ids[books.item]) == [f"i{r:02d}" for r in range(0, 40, 4)]
    assert books.user_ids[books.user].tolist() == sorted(f"u{r % 7}" for r in range(0, 40, 4)), "in the order of ids"
    links = books.user_ids[books.trust]
    assert links.T.tolist() == [["u0", "u1"], ["u1", "u2"]]


def test_a_column_names_the_clients() -> None:
    north, south = Table(frame(), client="shop", partition="given").load(seed=0)
    assert (north.name, south.name) == ("north", "south")
    assert set(north.category) == {0, 2}
    assert north.n_categories == 4
    no_category = Table(frame().drop(columns="category"), client="shop", partition="given").load(seed=0)
    assert no_category[0].n_categories == 1
    with pytest.raises(InputError, match="clients must be 2, as many as the data name; got 5"):
        Table(frame(), client="shop", partition="given", clients=5).load(seed=0)


def test_one_file_is_one_client(tmp_path: Path) -> None:
    for name, rows in frame().groupby("shop"):
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    assert len(Table(tmp_path, partition="given").load(seed=0)) == 2
    north, south = Table(tmp_path).load(seed=0)
    assert (north.name, south.name) == ("north", "south")
    assert north.item_ids.tolist() == [f"i{r:02d}" for r in range(0, 40, 2)]
    with pytest.raises(InputError, match=r"is a folder, .* Table.partition must be 'given'; got 'average'"):
        Table(tmp_path, partition="average").load(seed=0)
    (tmp_path / "west.csv").write_text("user,item,rating,category\nu1,i1,9,wine\nu1,i2,x,wine\n")
    with pytest.raises(InputError, match=r"west\.csv, row 2: 'rating' must be a finite number; got 'x'"):
        Table(tmp_path, partition="given").load(seed=0)


def test_scale_is_inferred_with_a_note_or_given_without() -> None:
    ratings = Table(frame().drop(columns="shop")).read()
    assert ratings.scale == (1.0, 5.0)
    assert ratings.notes == ("Scale 1..5 is what the ratings span; set Table.low and Table.high if more is possible.",)
    wide = Table(frame().drop(columns="shop"), low=0, high=10).read()
    assert wide.scale == (0, 10)
    assert wide.notes == ()


def test_repeated_pairs_keep_the_last_and_say_so(caplog: pytest.LogCaptureFixture) -> None:
    twice = pd.concat([frame(), frame().head(3).assign(rating=2.0)])
    shards = Table(twice.drop(columns="shop"), clients=1, low=1, high=5).load(seed=0)
    assert caplog.messages == [f"3 repeated ratings of one item by one user left out; {NO_TIME}."]
    assert len(shards[0].rating) == 40
    first = shards[0].item_ids[shards[0].item] == "i00"
    assert shards[0].rating[first].tolist() == [2.0]


def test_every_client_keeps_a_training_rating() -> None:
    one = {"user": ["u0"], "item": ["x"], "rating": [3.0], "shop": ["one"], "category": ["toys"]}
    lone = pd.concat([frame(), pd.DataFrame(one)])
    for seed in range(10):
        shards = Table(lone, client="shop").load(seed)
        assert [shard.name for shard in shards] == ["north", "one", "south"]
        assert all(len(shard.rows("train")) for shard in shards)
        assert all(len(shard.rows(split)) for shard in shards[::2] for split in ("validation", "test"))


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rating": "four"}, r"Table.ratings, row 1: 'rating' must be a finite number; got 'four' \(40 such rows\)"),
        ({"rating": np.nan}, "row 1: 'rating' must be a finite number; got nothing"),
        ({"rating": True}, "row 1: 'rating' must be a number; got True"),
        ({"user": None}, "row 1: 'user' is empty"),
        ({"category": 1.5}, "row 1: 'category' must be text or whole numbers; got 1.5"),
        ({"rating": 3.0}, r"every rating is 3; set Table.low and Table.high"),
    ],
)
def test_bad_column(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Table(frame().assign(**change)).load(seed=0)


def test_bad_value_names_its_row() -> None:
    broken = frame()
    broken.loc[6, "rating"] = 7.0
    with pytest.raises(InputError, match=r"row 7: 'rating' must be within 1\.\.5 \(Table.low\.\.Table.high\); got 7"):
        Table(broken, low=1, high=5).load(seed=0)
    broken.loc[6, "rating"] = np.nan
    with pytest.raises(InputError, match=r"Table.ratings, row 7: 'rating' must be a finite number; got nothing"):
        Table(broken).load(seed=0)


@pytest.mark.parametrize(
    ("rename", "message"),
    [
        ({"user": "User"}, r"no column 'user' \(Table.user\)\. Did you mean 'User'\?"),
        ({"rating": "ratings"}, r"no column 'rating' \(Table.rating\)\. Did you mean 'ratings'\?"),
    ],
)
def test_missing_column_names_the_nearest(rename: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Table(frame().rename(columns=rename)).load(seed=0)


def test_a_column_that_is_named_must_be_there() -> None:
    for option in ("category", "split", "time"):
        with pytest.raises(InputError, match=rf"no column 'sort' \(Table.{option}\)\."):
            Table(frame(), **{option: "sort"}).load(seed=0)  # type: ignore[arg-type]


def test_rows_that_are_wider_than_the_header(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("user,item,rating,category\nu1,i1,5,wine,\nu1,i2,4,wine,\n")
    with pytest.raises(InputError, match=r"r\.csv, row 1: 5 fields where the header names 4"):
        Table(tmp_path / "r.csv").load(seed=0)


def test_missing_client_column() -> None:
    with pytest.raises(InputError, match=r"no column 'client' \(Table.client\)"):
        Table(frame(), partition="given").load(seed=0)
    with pytest.raises(InputError, match=r"no column 'kind' \(Table.category\)"):
        Table(frame(), client="shop", category="kind", partition="given").load(seed=0)


def test_missing_empty_and_wrong_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Table.ratings: no file .*r\.csv"):
        Table(tmp_path / "r.csv").load(seed=0)
    (tmp_path / "r.csv").write_text("")
    with pytest.raises(InputError, match=r"r\.csv: the file is empty"):
        Table(tmp_path / "r.csv").load(seed=0)
    (tmp_path / "r.csv").write_text("user,item,rating,category\n")
    with pytest.raises(InputError, match=r"r\.csv: no rows"):
        Table(tmp_path / "r.csv").load(seed=0)
    (tmp_path / "r.xlsx").write_text("")
    with pytest.raises(InputError, match=r"Table.ratings must end in \.csv or \.parquet"):
        Table(tmp_path / "r.xlsx").load(seed=0)
    with pytest.raises(InputError, match=r"Table.trust: no file .*t\.csv"):
        Table(frame(), trust=tmp_path / "t.csv").load(seed=0)


def test_more_clients_than_categories() -> None:
    with pytest.raises(InputError, match="clients must be at most 4, the number of categories"):
        Table(frame(), clients=5).load(seed=0)


def test_unknown_user_in_trust() -> None:
    trust = pd.DataFrame({"user": ["u0", "u1"], "trusts": ["u1", "u99"]})
    with pytest.raises(InputError, match=r"Table.trust, row 2: 'trusts' must be a user with a rating; got 'u99'"):
        Table(frame(), trust=trust).load(seed=0)
    ratings = Table(frame(), trust=trust, unknown_trust="drop").read()
    assert ratings.trust.tolist() == [[0], [1]]
    assert ratings.notes[-1] == "1 trust links with an end that has no rating left out."


def test_trust_may_be_empty() -> None:
    assert Table(frame(), trust=TRUST.head(0)).read().trust.shape == (2, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 0}, "Table.clients must be >= 1, or left out; got 0"),
        ({"partition": "gven"}, r"Did you mean 'given'\?"),
        ({"unknown_trust": "ignore"}, "Table.unknown_trust must be one of 'error', 'drop'"),
        ({"item": "user"}, r"Table.item must be another column than Table.user; got 'user'"),
        ({"trust_target": "user"}, r"Table.trust_target must be another column than Table.trust_user; got 'user'"),
        ({"low": 5.0, "high": 1.0}, "Table.low must be below Table.high = 1.0; got 5.0"),
    ],
)
def test_bad_options_fail_before_any_file_is_read(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Table("nowhere.csv", **options)  # type: ignore[arg-type]


def test_data_without_a_name_are_known_by_their_ratings() -> None:
    named = pd.DataFrame({"user": ["a"], "item": ["b"], "rating": [1], "client": ["c"]})
    assert Table.options_from("own.CSV") == {"ratings": "own.CSV"}
    assert Table.options_from(Path("folder")) == {"ratings": Path("folder")}
    assert Table.options_from(named) == {"ratings": named}
    assert Table.options_from({"ratings": named, "client": "shop"}) == {"ratings": named, "client": "shop"}
    for other in ("ciao", {"nodes": named}, 3, None):
        assert Table.options_from(other) is None


# --- clients, splits and names as the data have them -----------------------------------------------------------------


def clients_of(data: Table) -> dict[str, int]:
    return {shard.name: len(shard.rating) for shard in data.load(seed=1)}


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
def test_a_column_of_clients_is_used_wherever_it_comes_from(kind: str, tmp_path: Path) -> None:
    named = frame().drop(columns="category").rename(columns={"shop": "client"})
    named.to_csv(tmp_path / "r.csv", index=False)
    named.to_parquet(tmp_path / "r.parquet")
    given = {"frame": named, "csv": tmp_path / "r.csv", "parquet": tmp_path / "r.parquet"}[kind]
    assert clients_of(Table(given)) == {"north": 20, "south": 20}


def test_without_clients_and_categories_items_are_dealt(caplog: pytest.LogCaptureFixture) -> None:
    plain = frame().drop(columns=["category", "shop"])
    assert clients_of(Table(plain, clients=4)) == {f"client-{k}": 10 for k in range(4)}
    assert "items are dealt to 4 clients at random" in caplog.text


def test_categories_are_dealt_where_clients_are_counted() -> None:
    both = frame().rename(columns={"shop": "client"})
    assert sorted(clients_of(Table(both, clients=4))) == ["books", "music", "toys", "wine"]
    assert sorted(clients_of(Table(frame()))) == ["books", "music", "toys", "wine"], "ten are more than there are"


def test_a_split_that_the_data_name() -> None:
    said = ["train", "test", "validation", "train"] * 10
    (shard,) = Table(frame().assign(split=said, client="one")).load(seed=0)
    row = [int(name[1:]) for name in shard.item_ids[shard.item]]
    assert [("train", "validation", "test")[part] for part in shard.split] == [said[each] for each in row]


def test_the_latest_ratings_are_for_test() -> None:
    when = np.random.default_rng(0).permutation(40)
    dated = pd.date_range("2026-01-01", periods=40).astype(str).to_numpy()[when]
    for times in (when, dated):
        (shard,) = Table(frame().assign(when=times, category="one", client="one"), time="when").load(seed=0)
        row = np.array([int(name[1:]) for name in shard.item_ids[shard.item]])
        assert set(when[row[shard.split == 2]]) == {36, 37, 38, 39}
        assert set(when[row[shard.split == 1]]) == {32, 33, 34, 35}


def test_a_split_and_a_time_that_are_none() -> None:
    with pytest.raises(InputError, match=r"'split' must be one of 'train', 'validation', 'test'; got 'later'"):
        Table(frame().assign(split="later"), clients=2).load(seed=0)
    with pytest.raises(InputError, match="a rating in each split"):
        Table(frame().assign(split="train"), clients=2).load(seed=0)
    with pytest.raises(InputError, match=r"'when' must be a number or a date; got 'soon'"):
        Table(frame().assign(when="soon"), time="when", clients=2).load(seed=0)


@pytest.mark.parametrize(("mark", "name"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_another_separator_is_found_and_said(
    mark: str, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    frame().drop(columns="shop").to_csv(tmp_path / "r.csv", index=False, sep=mark)
    (first, *_) = Table(tmp_path / "r.csv", low=1, high=5).load(seed=0)
    (same, *_) = Table(frame().drop(columns="shop"), low=1, high=5).load(seed=0)
    assert first.rating.tolist() == same.rating.tolist()
    assert caplog.messages == [
        f"{tmp_path}/r.csv: fields are separated by {name}. data.separator, encoding, decimal, header and columns say "
        "otherwise."
    ]


def test_pairs_are_asked_with_the_names_of_the_ratings() -> None:
    asked = pd.DataFrame({"customer": ["u1"], "product": ["i01"], "shop": ["north"]})
    data = Table(frame(), user="customer", item="product", client="shop")
    assert list(data.questions(None, {"pairs": asked}, {})["pairs"]) == ["user", "item", "client"]
