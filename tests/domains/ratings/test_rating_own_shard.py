"""One client's own ratings: all known, on the scale and with the columns of the run's data."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedgraft.domains.ratings.tables import OWN_TABLES, STARS, OwnRatings, client_ratings
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery

OWN = pd.DataFrame({"user": ["ann", "ann", "ben"], "item": ["tea", "pie", "tea"], "rating": [5, 4, 2]})
TRUST = pd.DataFrame({"user": ["ben", "ben", "ann"], "trusts": ["ann", "stranger", "ann"]})


def test_every_rating_is_known_and_links_to_strangers_are_left_out(caplog) -> None:
    shard = discovery.find("data", "shops")().client_shard(None, {"data": OWN, "trust": TRUST})
    assert (shard.name, shard.scale, shard.n_categories) == ("own", (1.0, 5.0), 1)
    assert not shard.split.any()
    assert shard.user_ids[shard.user].tolist() == OWN["user"].tolist()
    assert shard.rating.tolist() == [5, 4, 2]
    assert shard.trust.tolist() == [[1], [0]]
    assert "1 trust links with an end that has no rating left out." in caplog.messages


def test_categories_are_read_where_there_are_any(tmp_path: Path) -> None:
    OWN.assign(category=["hot", "cold", "hot"]).to_csv(tmp_path / "own.csv", index=False)
    shard = client_ratings(STARS, {"data": tmp_path / "own.csv"})
    assert shard.category.tolist() == [1, 0, 1]
    assert shard.trust.shape == (2, 0)


def test_columns_and_scale_are_those_of_the_runs_own_table() -> None:
    data = discovery.find("data", "table")("r.csv", user="who", item="what", rating="stars", low=0, high=10)
    own = OWN.set_axis(["who", "what", "stars"], axis=1)
    shard = data.client_shard(None, {"data": own.assign(stars=[10, 0, 5])})
    assert shard.scale == (0, 10)
    np.testing.assert_array_equal(shard.rating, np.float32([10, 0, 5]))
    with pytest.raises(InputError, match=r"^--data: no column 'who' \(data\.user\)\. Columns: user, item, rating\.$"):
        data.client_shard(None, {"data": OWN})


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"data": OWN.assign(rating=[5, 6, 1])}, r"^--data, row 2: 'rating' must be within 1\.\.5 \(data\.low\.\."),
        ({"data": OWN, "trust": OWN}, r"^--trust: no column 'trusts' \(data\.trust_target\)"),
        ({"data": OWN, "trust": "gone.csv"}, r"^--trust: no file gone\.csv"),
        ({"data": OWN.iloc[:0]}, r"^--data: no rows; at least one is needed"),
    ],
)
def test_errors_name_the_option_of_the_table(tables: dict, message: str) -> None:
    assert tables.keys() <= {*OWN_TABLES}
    with pytest.raises(InputError, match=message):
        discovery.find("data", "shops")().client_shard(None, tables)


def test_every_data_set_of_stars_reads_own_ratings() -> None:
    names = [name for name in discovery.names("data") if discovery.find("data", name).task == "rating"]
    assert [name for name in names if issubclass(discovery.find("data", name), OwnRatings)] == names
