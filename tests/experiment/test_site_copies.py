"""Sites that have nodes in common, each with its own copy: the digest and answers of one machine with all tables."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedgraft.experiment.predicting.predict import predict
from helpers import site_boundaries, site_tables
from helpers.local_sites import traffic
from helpers.site_boundaries import AUTO, COLUMNS, PSI, SAME, at_sites, here
from helpers.site_tables import CLIENTS

SAID = {**COLUMNS, "data.shared_with": "also_at"}
GUESSED = {**AUTO, "data.shared_with": "auto"}
SHARED = 20


def tables() -> dict[str, pd.DataFrame]:
    """Tables of both, of which the south has some of the north's nodes, too, with features and edges of its own."""
    every = site_boundaries.tables()
    nodes, edges = every["nodes"], every["edges"]
    north, south = (nodes[nodes["client"] == name] for name in CLIENTS)
    copies = north.iloc[:SHARED].assign(client="south", label="dog", f0=lambda table: table["f0"] + 1)
    nodes = pd.concat([nodes.assign(also_at=None), copies], ignore_index=True)
    both = nodes["node"].isin(copies["node"])
    nodes.loc[both, "also_at"] = nodes["client"].map({"north": "south", "south": "north"})
    own = {"source": copies["node"].to_numpy(), "target": south["node"].to_numpy()[:SHARED], "from": "south"}
    return {"nodes": nodes, "edges": pd.concat([edges, pd.DataFrame({**own, "to": "south"})], ignore_index=True)}


def in_folders(every: dict[str, pd.DataFrame], root: Path, recipe: str, options: dict[str, Any]) -> dict[str, Any]:
    """One machine with each client's list of edges as a file of a folder."""
    (root / "lists").mkdir()
    for name in CLIENTS:
        mine = (every["edges"]["from"] == name) | (every["edges"]["to"] == name)
        every["edges"][mine].to_csv(root / "lists" / f"{name}.csv", index=False)
    return here(every, root, recipe, {**options, "data.edges": str(root / "lists")})


CARRIED = {"data.edge_features": ["amount", "channel"], "data.weight": "times", "data.directed": True}
CASES: list[Any] = [
    pytest.param("fedais", SAID, marks=pytest.mark.slow),
    pytest.param("fedgcn", {**SAID, **PSI}, marks=pytest.mark.slow),
    pytest.param("fedais", {**SAID, **CARRIED, "model.name": "multigraph"}, marks=pytest.mark.slow),
    pytest.param("fedais", {**GUESSED, **PSI}, marks=pytest.mark.slow),
    ("graft_node", GUESSED),
]


@pytest.mark.parametrize(("recipe", "options"), CASES)
def test_sites_end_as_one_machine_with_all_tables(tmp_path: Path, recipe: str, options: dict[str, Any]) -> None:
    every = tables()
    if "data.weight" in options:
        every["edges"] = site_tables.carrying(every["edges"])
    options = {**options, "data.features": ["f0", "f1", "f2", "f3"]}
    one = (here if "data.source_client" in options else in_folders)(every, tmp_path, recipe, options)
    two, sites = at_sites(every, tmp_path / "sites", recipe, options)
    for name in SAME:
        assert two[name] == one[name], name
    (tmp_path / "apart").mkdir()
    apart = {name: value for name, value in options.items() if name != "data.shared_with"}
    alone, _ = at_sites(every, tmp_path / "apart", recipe, apart)
    assert alone["digest"] != two["digest"]
    assert one["bytes"]["matching"] - alone["bytes"]["matching"] > 24 * 2 * SHARED
    asked = {"nodes": every["nodes"][every["nodes"]["client"] == "south"][["node"]].tail(SHARED)}
    wanted = predict(tmp_path / "here", asked, client="south")
    pd.testing.assert_frame_equal(predict(sites.run_folder("south"), asked), wanted)


def test_no_id_of_a_node_leaves_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every, sent = tables(), traffic(monkeypatch)
    every = {
        "nodes": every["nodes"].replace({"node": {"n": "canary"}}, regex=True),
        "edges": every["edges"].replace({"source": {"n": "canary"}, "target": {"n": "canary"}}, regex=True),
    }
    at_sites(every, tmp_path, "fedais", GUESSED)
    kept = [path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert sent
    assert not [each for each in [*sent, *kept] if b"canary" in each]
