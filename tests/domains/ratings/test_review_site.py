"""What Ciao and Epinions have in common; their counts are held beside each."""

from pathlib import Path

import numpy as np
import pytest

from fedgraft.domains.ratings.mat_files import ReviewSite
from fedgraft.errors import InputError
from fedgraft.methods.data.ciao import Ciao
from fedgraft.methods.data.epinions import Epinions

SITES = pytest.mark.parametrize("site", [Ciao, Epinions])


@SITES
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 0}, "{}.clients must be >= 1; got 0"),
        ({"partition": "extrem"}, r"{}.partition must be one of .* got 'extrem'\. Did you mean 'extreme'\?"),
    ],
)
def test_bad_options_fail_before_any_file_is_read(
    site: type[ReviewSite], options: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message.format(site.__name__)):
        site("nowhere", **options)  # type: ignore[arg-type]


@SITES
def test_missing_folder(site: type[ReviewSite]) -> None:
    with pytest.raises(InputError, match=rf"{site.__name__}: no file .*rating\.mat"):
        site("nowhere").load(0)


@pytest.mark.data
@SITES
def test_ten_shops(data_root: Path, site: type[ReviewSite]) -> None:
    shards = site(str(data_root / site.__name__.lower())).load(seed=1)
    assert len(shards) == 10
    assert all(len(np.unique(shard.category)) in (2, 3) for shard in shards)
    pairs = np.concatenate([shard.users[shard.user] * 10**6 + shard.items[shard.item] for shard in shards])
    assert len(np.unique(pairs)) == len(pairs), "no pair is a training pair here and a test pair there"
    held_out = np.mean(np.concatenate([shard.split for shard in shards]) > 0)
    assert held_out == pytest.approx(0.2, abs=1e-4)


@pytest.mark.data
@pytest.mark.parametrize(("site", "ratings"), [(Ciao, 281_867), (Epinions, 754_939)])
@pytest.mark.parametrize("clients", [5, 10, 20])
@pytest.mark.parametrize("partition", ["average", "skewed", "extreme"])
def test_every_partition_loads(
    data_root: Path, site: type[ReviewSite], ratings: int, clients: int, partition: str
) -> None:
    shards = site(str(data_root / site.__name__.lower()), clients, partition).load(seed=2)
    assert len(shards) == clients
    assert sum(len(shard.rating) for shard in shards) == ratings
