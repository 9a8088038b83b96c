from pathlib import Path

import numpy as np
import pytest

from fedgraft.domains.ratings.biases import fit_biases, pool
from fedgraft.errors import InputError
from fedgraft.methods.baselines.central_biases import CentralBiases
from fedgraft.methods.data.ciao import Ciao
from fedgraft.methods.data.epinions import Epinions
from fedgraft.methods.data.shops import Shops

SHOPS = Shops(users=200, items=200, categories=6, links=300, count=3000, clients=3)


def test_a_grid_of_one_is_that_fit() -> None:
    rows = pool(SHOPS.load(0))
    train = rows.split == 0
    mean, user_bias, item_bias = fit_biases(
        rows.user[train], rows.item[train], rows.rating[train], 200, 200, user_shrinkage=5.0, item_shrinkage=3.0
    )
    prediction = np.clip(mean + user_bias[rows.user] + item_bias[rows.item], 1, 5)
    test = rows.split == 2
    expected = np.sqrt(np.mean((prediction - rows.rating)[test] ** 2))
    found = CentralBiases(user_shrinkages=(5.0,), item_shrinkages=(3.0,)).score(SHOPS.load(0))
    assert found["test"] == pytest.approx(float(expected))


def test_a_larger_grid_is_no_worse_on_validation() -> None:
    shards = SHOPS.load(0)
    small = CentralBiases(user_shrinkages=(5.0,), item_shrinkages=(3.0,)).score(shards)
    large = CentralBiases(user_shrinkages=(2.0, 5.0, 9.0), item_shrinkages=(1.0, 3.0, 9.0)).score(shards)
    assert large["validation"] <= small["validation"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"user_shrinkages": ()}, "CentralBiases.user_shrinkages must be at least one number"),
        (
            {"item_shrinkages": (1.0, -1.0)},
            "CentralBiases.item_shrinkages must be at least one number, each >= 0",
        ),
        ({"sweeps": 0}, "CentralBiases.sweeps must be >= 1; got 0"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CentralBiases(**options)  # type: ignore[arg-type]


@pytest.mark.data
@pytest.mark.parametrize(("data", "folder", "rmse"), [(Ciao, "ciao", 0.9461), (Epinions, "epinions", 1.0304)])
def test_real_data(data_root: Path, data: type[Ciao] | type[Epinions], folder: str, rmse: float) -> None:
    assert CentralBiases().score(data(str(data_root / folder)).load(seed=1))["test"] == pytest.approx(rmse, abs=1e-3)
