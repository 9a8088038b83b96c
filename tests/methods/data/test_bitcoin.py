"""Ratings of Bitcoin OTC and Alpha: damaged tables, and the counts of the real ones."""

from pathlib import Path

import numpy as np
import pytest

from fedgraft.domains.edges.shards import merge_edges
from fedgraft.errors import InputError
from fedgraft.methods.data.bitcoin import Bitcoin, read_ratings


def test_three_ratings_by_hand(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = ["from,to,feature,time", "7,30,5,20.5", "30,7,-10,10", "7,7,1,12"]
    (tmp_path / "soc-sign-bitcoinotc.csv").write_text("\n".join(rows) + "\n")
    rated = read_ratings(tmp_path, "otc")
    assert rated.graph.ids.tolist() == ["7", "30"], "by number"
    assert rated.ends.tolist() == [[0, 1], [1, 0]]
    assert "soc-sign-bitcoinotc.csv: 1 ratings of oneself left out." in caplog.text
    (one, other) = Bitcoin(tmp_path, clients=2, partition="iid").load(1)
    whole = merge_edges([one, other])
    told = dict(zip(whole.ids[whole.ends[0]].tolist(), whole.label.tolist(), strict=True))
    assert told == {"7": 0, "30": 1}
    rows = one.graph.edge_rows
    assert rows is not None
    assert sorted(map(tuple, rows.values.tolist())) == [(-1.0, 1.0), (0.5, 0.0)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,2,11,5", r"soc-sign-bitcoinotc\.csv, row 2: 'feature' must be in -10\.\.10, not 0; got '11'"),
        ("1,2,x,5", r"soc-sign-bitcoinotc\.csv, row 2: 'feature' must be a finite number; got 'x'"),
    ],
)
def test_damaged_tables(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "soc-sign-bitcoinotc.csv").write_text(f"from,to,feature,time\n3,4,1,1\n{line}\n")
    with pytest.raises(InputError, match=message):
        Bitcoin(tmp_path, clients=1).load(1)


def test_a_missing_table_is_named_with_its_address(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file .*soc-sign-bitcoinalpha\.csv; download it from https://snap"):
        Bitcoin(tmp_path, set="alpha").load(1)


@pytest.mark.parametrize(
    ("name", "members", "ratings", "share"), [("otc", 5881, 35592, 0.1), ("alpha", 3783, 24186, 0.06)]
)
def test_counts_of_the_published_sets(data_root, name: str, members: int, ratings: int, share: float) -> None:
    shards = Bitcoin(data_root / "bitcoin", set=name).load(1)
    assert sum(shard.graph.own for shard in shards) == members
    assert sum(shard.ends.shape[1] for shard in shards) == ratings
    label = np.concatenate([shard.label for shard in shards])
    assert label.mean() == pytest.approx(share, abs=0.01)
    parts = np.bincount(np.concatenate([shard.split for shard in shards]), minlength=3) / ratings
    assert parts == pytest.approx([0.64, 0.16, 0.2], abs=0.01)
