"""Real processes over TLS that share users and have no list of all: one machine's bits, through kills."""

import json

import pytest
import tomli_w

from fedgraft.experiment.job import load
from helpers import site_tables
from helpers.federations import WAIT_SECONDS, Federation, call_here, run_here, same
from helpers.site_tables import CLIENTS

pytestmark = [pytest.mark.federation, pytest.mark.slow]

CHANGES = {
    "data.name": "table",
    "data.partition": "given",
    "data.low": 1,
    "data.high": 5,
    "data.match": "psi",
    "task.share_least": 2,
    "rounds": 4,
    "evaluation.every": 2,
    "baselines": [],
}
OPTIONS = [f"{key}={json.dumps(value).strip(chr(34))}" for key, value in CHANGES.items()]


class Shops(Federation):
    """A federation of shops that have their own ratings alone."""

    def _shard(self, root, recipe, changes):
        root.mkdir()
        nowhere = {"data.ratings": "nowhere.csv", "runtime.name": "sites"}
        (root / "recipe.toml").write_text(load(recipe, {**CHANGES, **nowhere}).to_toml())
        (root / "clients.toml").write_text(tomli_w.dumps({"names": list(CLIENTS)}))
        ratings = site_tables.ratings()
        for name in CLIENTS:
            ratings[ratings["client"] == name].drop(columns="client").to_csv(root / f"{name}.csv", index=False)
        return root / "recipe.toml"

    def start(self, name, lies=()):
        self._start(name, "node", self.root / "nodes" / name, "--data", self.root / f"{name}.csv")


def test_shops_that_match_their_users_end_as_one_machine_though_all_are_killed(tmp_path):
    site_tables.ratings().to_csv(tmp_path / "ratings.csv", index=False)
    expected = run_here(tmp_path / "here", "fedacs", *OPTIONS, f"data.ratings={tmp_path / 'ratings.csv'}")
    with Shops(tmp_path / "federation", "fedacs") as shops:
        process = shops.begin(tmp_path / "run", "checkpoint.every_seconds=0")
        shops.wait_for_round(tmp_path / "run", 1)
        shops.kill("north")
        shops.start("north")
        shops.wait_for_round(tmp_path / "run", 2)
        shops.kill("server")
        assert process.wait(WAIT_SECONDS) == 1
        shops.start_server()
        found = json.loads(call_here("resume", tmp_path / "run", "--json"))
    one, two = same(found, expected)
    assert one == two
    assert found["bytes"] == expected["bytes"]
    assert found["bytes"]["matching"] > 0
