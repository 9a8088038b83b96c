from pathlib import Path

import numpy as np
import pytest

from fedgraft.domains.ratings.mat_files import published_subset, read_mat
from fedgraft.errors import InputError
from fedgraft.methods.data.ciao import Ciao


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 0}, "Ciao.clients must be at least 1; got 0"),
        ({"partition": "extrem"}, r"Ciao.partition must be one of .* got 'extrem'\. Did you mean 'extreme'\?"),
    ],
)
def test_bad_options_fail_before_any_file_is_read(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Ciao("nowhere", **options)  # type: ignore[arg-type]


def test_missing_folder() -> None:
    with pytest.raises(InputError, match=r"Ciao: no file .*rating\.mat"):
        Ciao("nowhere").load(0)


@pytest.mark.data
def test_published_counts(data_root: Path) -> None:
    raw = read_mat(data_root / "ciao", "Ciao")
    counts = len(np.unique(raw.user)), len(np.unique(raw.item)), len(raw.rating), len(raw.trust)
    assert counts == (7_375, 105_114, 284_086, 111_781)
    subset = published_subset(raw)
    users, items, categories = (len(np.unique(ids)) for ids in (subset.trust, subset.item, subset.category))
    assert (users, items, categories, len(subset.rating), len(subset.trust)) == (7_317, 104_975, 28, 283_320, 111_781)
    rows = np.stack([subset.user, subset.item, subset.category, subset.rating])
    assert np.unique(rows, axis=1).shape[1] == 282_374
    ratings = Ciao(str(data_root / "ciao")).ratings()
    ours = ratings.users, ratings.items, ratings.categories, len(ratings.rating), ratings.trust.shape[1]
    assert ours == (7_317, 104_975, 28, 281_867, 111_781)
    assert len(np.unique(ratings.user)) == 7_317


@pytest.mark.data
def test_ten_shops(data_root: Path) -> None:
    shards = Ciao(str(data_root / "ciao")).load(seed=1)
    assert len(shards) == 10
    assert all(len(np.unique(shard.category)) in (2, 3) for shard in shards)
    pairs = np.concatenate([shard.users[shard.user] * 10**6 + shard.items[shard.item] for shard in shards])
    assert len(np.unique(pairs)) == len(pairs), "no pair is a training pair here and a test pair there"
    held_out = np.mean(np.concatenate([shard.split for shard in shards]) > 0)
    assert held_out == pytest.approx(0.2, abs=1e-4)


@pytest.mark.data
@pytest.mark.parametrize("clients", [5, 10, 20])
@pytest.mark.parametrize("partition", ["average", "skewed", "extreme"])
def test_every_partition_loads(data_root: Path, clients: int, partition: str) -> None:
    shards = Ciao(str(data_root / "ciao"), clients, partition).load(seed=2)
    assert len(shards) == clients
    assert sum(len(shard.rating) for shard in shards) == (7_317, 104_975, 28, 281_867, 111_781)[3]
