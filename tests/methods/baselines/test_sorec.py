from pathlib import Path

import numpy as np
import pytest

from fedgraft.domains.ratings.social_factors import PooledRatings
from fedgraft.errors import InputError
from fedgraft.methods.baselines.sorec import SoRec, _slope, trust_values
from fedgraft.methods.data.ciao import Ciao
from fedgraft.methods.data.epinions import Epinions
from fedgraft.methods.data.shops import Shops
from helpers.rating_shards import shard_of


def test_links_weigh_by_degrees() -> None:
    # User 0 trusts 1 and 2, user 1 trusts 2: c* of (0, 1) is sqrt(1 / (2 + 1)), of (0, 2) sqrt(2 / (2 + 2)).
    shard = shard_of([(0, 0, 5, 0), (1, 0, 3, 0), (2, 0, 4, 0)], 3, 1, trust=[(1, 2), (0, 2), (0, 1)])
    links, values = trust_values(PooledRatings.of([shard]))
    found = {(int(i), int(k)): float(c) ** 2 for i, k, c in zip(links.row, links.column, values, strict=True)}
    assert found == pytest.approx({(0, 1): 1 / 3, (0, 2): 1 / 2, (1, 2): 2 / 3})


def test_the_slope_is_that_of_the_squared_error() -> None:
    x, target, step = np.linspace(-2, 2, 9, dtype=np.float32), np.float32(0.75), 1e-3
    up, down = ((target - 1 / (1 + np.exp(-(x.astype(float) + s)))) ** 2 for s in (step, -step))
    np.testing.assert_allclose(_slope(x, target), (up - down) / (2 * step), atol=1e-5)


def test_trust_helps_where_friends_rate_alike() -> None:
    # Friends have the same taste, and half of the users have next to no ratings.
    g = np.random.default_rng(0)
    taste = g.integers(0, 2, 120)
    rows = [
        (user, int(item), 5 if taste[user] == item % 2 else 1, int(g.choice(3, p=(0.6, 0.2, 0.2))))
        for user in range(120)
        for item in g.choice(40, 20 if user < 60 else 3, replace=False)
    ]
    friends = [(i, int(k)) for i in range(120) for k in g.choice(np.flatnonzero(taste == taste[i]), 8) if i != k]
    shard = shard_of(rows, 120, 40, trust=sorted(set(friends)))
    found = [SoRec(socials=(social,), penalties=(0.01,)).score([shard])["test"] for social in (0.0, 1.0)]
    assert found[1] < found[0]


def test_an_offset_tells_newcomers_the_mean() -> None:
    shards = Shops(users=200, items=400, count=2000, clients=2).load(0)
    with_mean, printed = (SoRec(offset=offset).score(shards)["test"] for offset in (True, False))
    assert with_mean < printed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "SoRec.rank must be >= 1; got 0"),
        ({"socials": ()}, "SoRec.socials must be at least one number, each >= 0"),
        ({"penalties": (-1.0,)}, "SoRec.penalties must be at least one number, each >= 0"),
        ({"rate": 0.0}, "SoRec.rate must be > 0; got 0.0"),
        ({"steps": 0}, "SoRec.steps must be >= 1; got 0"),
        ({"seed": -1}, "SoRec.seed must be >= 0; got -1"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SoRec(**options)  # type: ignore[arg-type]


@pytest.mark.data
@pytest.mark.parametrize(("data", "published"), [(Ciao, 1.252), (Epinions, 1.482)])
def test_no_worse_than_published_on_real_data(data: type, published: float, data_root: Path) -> None:
    shards = data(str(data_root / data.__name__.lower())).load(seed=1)
    baseline = SoRec(socials=(10.0,), penalties=(0.3,), steps=60)
    assert baseline.score(shards)["test"] < published
