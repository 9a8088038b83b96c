from pathlib import Path

import numpy as np
import pytest

from fedgraft.domains.ratings.mat_files import published_subset, read_mat
from fedgraft.errors import InputError
from fedgraft.methods.data.epinions import Epinions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 0}, "Epinions.clients must be at least 1; got 0"),
        ({"partition": "extrem"}, r"Epinions.partition must be one of .* got 'extrem'\. Did you mean 'extreme'\?"),
    ],
)
def test_bad_options_fail_before_any_file_is_read(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Epinions("nowhere", **options)  # type: ignore[arg-type]


def test_missing_folder() -> None:
    with pytest.raises(InputError, match=r"Epinions: no file .*rating\.mat"):
        Epinions("nowhere").load(0)


@pytest.mark.data
def test_published_counts(data_root: Path) -> None:
    raw = read_mat(data_root / "epinions", "Epinions")
    counts = len(np.unique(raw.user)), len(np.unique(raw.item)), len(raw.rating), len(raw.trust)
    assert counts == (22_164, 296_277, 922_267, 355_754)
    subset = published_subset(raw)
    users, items, categories = (len(np.unique(ids)) for ids in (subset.trust, subset.item, subset.category))
    assert (users, items, categories, len(subset.rating), len(subset.trust)) == (18_069, 261_246, 27, 762_938, 355_530)
    rows = np.stack([subset.user, subset.item, subset.category, subset.rating])
    assert np.unique(rows, axis=1).shape[1] == 757_938
    ratings = Epinions(str(data_root / "epinions")).ratings()
    ours = ratings.users, ratings.items, ratings.categories, len(ratings.rating), ratings.trust.shape[1]
    assert ours == (18_069, 261_246, 27, 754_939, 355_503)
    assert len(np.unique(ratings.user)) == 18_068


@pytest.mark.data
def test_ten_shops(data_root: Path) -> None:
    shards = Epinions(str(data_root / "epinions")).load(seed=1)
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
    shards = Epinions(str(data_root / "epinions"), clients, partition).load(seed=2)
    assert len(shards) == clients
    assert sum(len(shard.rating) for shard in shards) == (18_069, 261_246, 27, 754_939, 355_503)[3]
