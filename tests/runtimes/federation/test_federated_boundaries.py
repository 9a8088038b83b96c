"""Real processes over TLS whose own tables have edges to each other's nodes: one machine's bits, through kills."""

import json
import signal

import pytest
import tomli_w

from fedgraft.experiment.job import load
from helpers import site_tables
from helpers.federations import WAIT_SECONDS, Federation, call_here, run_here, same
from helpers.site_tables import CLIENTS

pytestmark = [pytest.mark.federation, pytest.mark.slow]

CARRIED = {"data.edge_features": "all", "data.time": "when", "data.weight": "times", "data.directed": True}
CHANGES = {
    "data.name": "nodes",
    "data.target_client": "auto",
    **CARRIED,
    "model.name": "multigraph",
    "model.hidden": [8, 8],
    "rounds": 4,
    "baselines": [],
}


def tables():
    """Nodes of both clients, and edges that carry data, half of them between these."""
    nodes, edges = site_tables.nodes(across=True)
    return nodes, site_tables.carrying(edges)


class Sites(Federation):
    """A federation of sites that have tables of their own."""

    def _shard(self, root, recipe, changes):
        root.mkdir()
        nowhere = {"data.nodes": "nowhere.csv", "data.edges": "nowhere.csv", "runtime.name": "sites"}
        (root / "recipe.toml").write_text(load(recipe, {**CHANGES, **nowhere, **dict(changes)}).to_toml())
        (root / "clients.toml").write_text(tomli_w.dumps({"names": list(CLIENTS)}))
        nodes, edges = tables()
        for name in CLIENTS:
            own = nodes[nodes["client"] == name].drop(columns="client")
            touches = edges["source"].isin(own["node"]) | edges["target"].isin(own["node"])
            own.to_csv(root / f"{name}-nodes.csv", index=False)
            edges[touches].to_csv(root / f"{name}-edges.csv", index=False)
        return root / "recipe.toml"

    def start(self, name, lies=()):
        tables = [f"--data={key}={self.root / f'{name}-{key}.csv'}" for key in ("nodes", "edges")]
        self._start(name, "node", self.root / "nodes" / name, *tables)


@pytest.fixture(scope="module", params=["hashes", "psi"])
def match(request):
    """How ids are matched; where they are masked, rows are encrypted, too."""
    return ("data.match", request.param), ("exchange.encrypted_rows", request.param == "psi")


@pytest.fixture(scope="module")
def sites(match, tmp_path_factory):
    with Sites(tmp_path_factory.mktemp("sites") / "federation", "fedais", *match) as made:
        yield made


@pytest.fixture(scope="module")
def expected(match, tmp_path_factory):
    root = tmp_path_factory.mktemp("local")
    for name, table in zip(("nodes", "edges"), tables(), strict=True):
        table.to_csv(root / f"{name}.csv", index=False)
    given = [f"data.{name}={root / f'{name}.csv'}" for name in ("nodes", "edges")]
    options = [f"{key}={json.dumps(value).strip(chr(34))}" for key, value in {**CHANGES, **dict(match)}.items()]
    return run_here(root / "run", "fedais", *options, *given)


def test_a_site_that_is_killed_knows_its_neighbours_again(sites, expected, tmp_path):
    process = sites.begin(tmp_path / "run", "checkpoint.every_seconds=0")
    sites.wait_for_round(tmp_path / "run", 1)
    sites.kill("north")
    sites.start("north")
    assert process.wait(WAIT_SECONDS) == 0
    found = json.loads((tmp_path / "run" / "summary.json").read_text())
    one, two = same(found, expected)
    assert one == two
    assert found["bytes"] == expected["bytes"]
    assert found["bytes"]["matching"] > 0
    kept = [path for path in sites.root.glob("server/matches/*") if path.is_file()]
    assert len(kept) == 1


def test_a_site_that_is_killed_after_it_has_claimed_its_edges_claims_the_same_again(sites, expected, tmp_path):
    sites.processes["north"].send_signal(signal.SIGSTOP)
    process = sites.begin(tmp_path / "run")
    sites.wait_for("run", "1 of 2 nodes have joined; waiting for client 0")
    sites.kill("south")
    sites.start("south")
    sites.processes["north"].send_signal(signal.SIGCONT)
    assert process.wait(WAIT_SECONDS) == 0
    found = json.loads((tmp_path / "run" / "summary.json").read_text())
    one, two = same(found, expected)
    assert one == two
    assert found["bytes"] == expected["bytes"]


def test_a_server_that_is_killed_knows_what_it_has_told(sites, expected, tmp_path):
    process = sites.begin(tmp_path / "run", "checkpoint.every_seconds=0")
    sites.wait_for_round(tmp_path / "run", 2)
    sites.kill("server")
    assert process.wait(WAIT_SECONDS) == 1
    sites.start_server()
    found = json.loads(call_here("resume", tmp_path / "run", "--json"))
    one, two = same(found, expected)
    assert one == two
    assert found["bytes"] == expected["bytes"]
