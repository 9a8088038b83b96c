from dataclasses import replace
from pathlib import Path

import pytest

from fedgraft.errors import InputError
from fedgraft.methods.baselines.central_biases import CentralBiases
from fedgraft.methods.baselines.client_biases import ClientBiases
from fedgraft.methods.data.ciao import Ciao
from fedgraft.methods.data.epinions import Epinions
from fedgraft.methods.data.shops import Shops

SHOPS = Shops(users=200, items=200, categories=6, links=300, count=3000, clients=3)


def test_one_client_is_the_central_fit() -> None:
    shards = replace(SHOPS, clients=1).load(0)
    assert ClientBiases().score(shards) == pytest.approx(CentralBiases().score(shards))


def test_clients_learn_nothing_from_each_other() -> None:
    # Two clients whose tastes are opposite: what one says about the shared users must not reach the other.
    first, second = replace(SHOPS, clients=2).load(0)
    turned = replace(second, rating=6 - second.rating)
    grid = {"user_shrinkages": (5.0,), "item_shrinkages": (3.0,)}
    apart = [ClientBiases(**grid).score([shard])["test"] for shard in (first, second)]
    for other in (second, turned):
        joint = ClientBiases(**grid).score([first, other])["test"]
        weights = [(shard.split == 2).sum() for shard in (first, other)]
        squared = sum(w * rmse**2 for w, rmse in zip(weights, apart, strict=True)) / sum(weights)
        assert joint == pytest.approx(squared**0.5, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"user_shrinkages": (-1.0,)}, "ClientBiases.user_shrinkages must be at least one number, each >= 0"),
        ({"item_shrinkages": ()}, "ClientBiases.item_shrinkages must be at least one number"),
        ({"sweeps": 0}, "ClientBiases.sweeps must be >= 1; got 0"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ClientBiases(**options)  # type: ignore[arg-type]


@pytest.mark.data
@pytest.mark.parametrize(("data", "folder", "rmse"), [(Ciao, "ciao", 0.947), (Epinions, "epinions", 1.0312)])
def test_real_data(data_root: Path, data: type[Ciao] | type[Epinions], folder: str, rmse: float) -> None:
    assert ClientBiases().score(data(str(data_root / folder)).load(seed=1))["test"] == pytest.approx(rmse, abs=1e-3)
