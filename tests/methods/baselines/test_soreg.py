from pathlib import Path

import numpy as np
import pytest

from fedgraft.domains.ratings.social_factors import PooledRatings
from fedgraft.errors import InputError
from fedgraft.methods.baselines.central_biases import CentralBiases
from fedgraft.methods.baselines.soreg import SoReg, pull_towards_trusted, similarities
from fedgraft.methods.data.ciao import Ciao
from fedgraft.methods.data.epinions import Epinions
from fedgraft.methods.data.shops import Shops
from helpers.rating_shards import shard_of


def test_similarity_is_pearsons_over_common_items() -> None:
    given = {0: [5, 3, 1, None], 1: [4, 3, 2, 3], 2: [1, 3, 5, None], 3: [3, None, None, 4], 4: [None, None, None, 2]}
    rows = [(user, item, r, 0) for user, ratings in given.items() for item, r in enumerate(ratings) if r is not None]
    shard = shard_of(rows, 5, 4, trust=[(0, 1), (0, 2), (0, 3), (0, 4)])
    found = similarities(PooledRatings.of([shard]))
    # Means are 3, 3, 3: users 0 and 1 agree wholly, 0 and 2 disagree wholly; 3 and 4 have too little in common.
    assert found[0, [1, 2, 3, 4]].toarray().ravel().tolist() == pytest.approx([1.0, 0.0, 0.5, 0.5])


@pytest.mark.parametrize("form", ["individual", "average"])
def test_the_pull_is_half_of_the_gradient(form: str) -> None:
    g = np.random.default_rng(1)
    shard = shard_of([(k, k % 3, 3, 0) for k in range(5)], 5, 3, trust=[(0, 1), (0, 2), (3, 4), (4, 0)])
    similar = similarities(PooledRatings.of([shard])).toarray()
    factors = g.normal(size=(5, 2))

    def term(users: np.ndarray) -> float:
        if form == "individual":
            return float(sum(similar[i, f] * ((users[i] - users[f]) ** 2).sum() for i in range(5) for f in range(5)))
        having = [i for i in range(5) if similar[i].sum()]
        return float(sum(((users[i] - similar[i] @ users / similar[i].sum()) ** 2).sum() for i in having))

    found = pull_towards_trusted(similarities(PooledRatings.of([shard])), form) @ factors
    for place in np.ndindex(5, 2):
        step = np.zeros((5, 2))
        step[place] = 1e-5
        assert found[place] == pytest.approx((term(factors + step) - term(factors - step)) / 4e-5, abs=1e-4)


def test_an_offset_tells_newcomers_the_mean() -> None:
    shards = Shops(users=100, items=200, count=1000, clients=2).load(0)
    one = {"socials": (0.1,), "penalties": (0.1,)}
    with_mean, printed = (SoReg(offset=offset, **one).score(shards)["test"] for offset in (True, False))
    assert with_mean < printed


@pytest.mark.parametrize("form", ["individual", "average"])
def test_near_the_biases_where_there_is_nothing_else(form: str) -> None:
    shards = Shops(users=150, items=150, count=3000, taste=0.0, links=300, clients=2).load(0)
    biases = CentralBiases().score(shards)["test"]
    assert SoReg(form=form).score(shards)["test"] < biases + 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "both"}, "SoReg.form must be one of"),
        ({"rank": 0}, "SoReg.rank must be >= 1; got 0"),
        ({"socials": (-1.0,)}, "SoReg.socials must be at least one number, each >= 0"),
        ({"penalties": ()}, "SoReg.penalties must be at least one number, each >= 0"),
        ({"spread": 0.0}, "SoReg.spread must be > 0; got 0.0"),
        ({"patience": 0}, "SoReg.patience must be >= 1; got 0"),
        ({"seed": -1}, "SoReg.seed must be >= 0; got -1"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SoReg(**options)  # type: ignore[arg-type]


@pytest.mark.data
@pytest.mark.parametrize(("data", "published"), [(Ciao, 1.233), (Epinions, 1.480)])
def test_no_worse_than_published_on_real_data(data: type, published: float, data_root: Path) -> None:
    shards = data(str(data_root / data.__name__.lower())).load(seed=1)
    baseline = SoReg(socials=(1.0,), penalties=(1.0,), steps=60)
    assert baseline.score(shards)["test"] < published
