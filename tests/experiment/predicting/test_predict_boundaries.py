"""New nodes that are joined to nodes of other owners: on one machine with the whole table, at a site, and over HTTP."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedgraft.errors import InputError
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.predicting.site_run import open_run
from fedgraft.interface import serve
from helpers import site_tables
from helpers.asgi import Client
from helpers.local_sites import LocalSites, federated_files
from helpers.site_boundaries import AUTO, CHANGES, COLUMNS, PSI, at_sites, here, tables
from helpers.site_tables import CLIENTS

CARRIED = {"data.edge_features": "all", "data.time": "when", "data.directed": True, "model.name": "multigraph"}
CASES: dict[str, tuple[str, bool, dict[str, Any]]] = {
    "auto": ("fedais", False, {**AUTO, **PSI}),
    "columns": ("fedais", True, COLUMNS),
    "columns of edges": ("fedais", True, {**COLUMNS, **CARRIED}),
    "halo of one": ("fedais", False, {**AUTO, "exchange.halo": 1}),
}
NEW = {f"f{k}": [0.5, -0.25] for k in range(4)}
LOST = "edges lead to 1 nodes of other clients that this site was never joined to"


def every_table(alike: bool, carried: bool) -> dict[str, pd.DataFrame]:
    """Tables of both, of which the last node of the south has no edge."""
    every = tables(alike)
    lonely = every["nodes"][every["nodes"]["client"] == "south"]["node"].iloc[-1]
    edges = every["edges"]
    apart = (edges["source"] == lonely) & (edges["from"] == "south")
    apart |= (edges["target"] == lonely) & (edges["to"] == "south")
    edges = edges[~apart]
    return {**every, "edges": site_tables.carrying(edges) if carried else edges}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.slow) if name in ("columns", "halo of one") else name for name in CASES
    ],  # as of edges, without any; and as any halo
)
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, pd.DataFrame], Path, LocalSites]:
    root = tmp_path_factory.mktemp("boundaries")
    recipe, alike, options = CASES[request.param]
    every = every_table(alike, "data.time" in options)
    here(every, root, recipe, options)
    return request.param, every, root / "here", at_sites(every, root / "sites", recipe, options)[1]


def asked(name: str, every: dict[str, pd.DataFrame], lonely: bool = False) -> dict[str, pd.DataFrame]:
    """A new node of the north, joined to one of the north and two of the south, and another beside it."""
    nodes, edges = every["nodes"], every["edges"]
    across = edges[(edges["from"] == "south") & (edges["to"] == "north")].drop_duplicates(["source", "target"])
    alone = nodes[nodes["client"] == "south"]["node"].iloc[-1]
    ends = [*across["source"].drop_duplicates()[:2], *([alone] if lonely else [])]
    rows = [(end, "new", "south", "north") for end in ends]
    rows += [("new", across["target"].iloc[5], "north", "north"), ("new", "newer", "north", None)]
    links = pd.DataFrame(rows, columns=["source", "target", "from", "to"])
    if "columns" not in name:  # then ids say it
        links = links.drop(columns=["from", "to"])
    if "of edges" in name:
        links = links.assign(amount=[*range(len(rows) - 1), None], channel="wire", times=1, when="2021-03-05")
    return {"nodes": pd.DataFrame({"node": ["new", "newer"], **NEW}).assign(client="north"), "edges": links}


def test_a_site_answers_as_one_machine_where_it_was_joined_to_the_neighbours(case: Any, caplog: Any) -> None:
    name, every, one, sites = case
    tables = asked(name, every)
    wanted = predict(one, tables)
    pd.testing.assert_frame_equal(predict(sites.run_folder("north"), tables), wanted)
    assert "left out" not in caplog.text
    inside = {**tables, "edges": tables["edges"].iloc[2:]}
    assert (predict(one, inside)["probability"] != wanted["probability"]).all()
    if "columns" in name:  # they also say whose the new ones are
        unnamed = {**tables, "nodes": tables["nodes"].drop(columns="client")}
        pd.testing.assert_series_equal(predict(one, unnamed)["probability"], wanted["probability"])


def test_what_a_site_was_never_joined_to_is_left_out_there_alone(case: Any, caplog: Any) -> None:
    name, every, one, sites = case
    tables, known = asked(name, every, lonely=True), asked(name, every)
    if "of edges" in name:
        known["edges"]["amount"] = [0, 1, 3, None]
    wanted = predict(one, tables)
    assert LOST not in caplog.text
    heard = "halo" not in name  # of three neighbours elsewhere the first is then chosen
    assert (wanted["probability"] != predict(one, known)["probability"]).any() == heard
    found = predict(sites.run_folder("north"), tables)
    pd.testing.assert_frame_equal(found, predict(sites.run_folder("north"), known))
    shown = repr(every["nodes"][every["nodes"]["client"] == "south"]["node"].iloc[-1])
    assert f"predict.edges: 1 {LOST} ({shown}) and are left out." in caplog.text


def test_over_http_a_site_says_the_same(case: Any) -> None:
    name, every, _, sites = case
    client = Client(serve.app(sites.run_folder("north")))
    for lonely in (False, True):
        tables = asked(name, every, lonely)
        request = {
            "tables": {
                key: table.astype(object).where(table.notna(), None).to_dict("list") for key, table in tables.items()
            }
        }
        done = client.post("/predict", json=request)
        assert done.status_code == 200, done.text
        wanted = predict(sites.run_folder("north"), tables)
        assert [row["probability"] for row in done.json()["answers"]] == pytest.approx(wanted["probability"].tolist())
        assert [LOST in note for note in done.json().get("notes", [])] == [True] * lonely


def test_a_site_has_its_own_nodes_and_new_ones_alone(case: Any) -> None:
    name, every, _, sites = case
    tables = asked(name, every)
    edges, own = tables["edges"], every["nodes"][every["nodes"]["client"] == "north"]["node"].iloc[0]
    if "columns" not in name:
        with pytest.raises(InputError, match="edges, row 1: one end must be a new node of --nodes"):
            predict(sites.run_folder("north"), {**tables, "edges": edges.assign(target=own)})
        return
    with pytest.raises(
        InputError, match="row 1: 'target_client' must name who answers for new node 'new'; got 'south'"
    ):
        predict(sites.run_folder("north"), {**tables, "edges": edges.assign(to="south")})
    with pytest.raises(InputError, match=r"edges, row 1: No client named 'soth'\. Did you mean 'south'"):
        predict(sites.run_folder("north"), {**tables, "edges": edges.assign(**{"from": "soth"})})
    wrong = edges.assign(source="nobody", **{"from": "north"})
    with pytest.raises(InputError, match="row 1: client 'north', which 'source_client' names, has no node 'nobody'"):
        predict(sites.run_folder("north"), {**tables, "edges": wrong})


TWINS = {
    "features and states": ("fedais", {}, 1e-6),
    "sums of features": ("fedgcn", {}, 1e-6),
    "smoothed answers": ("graft_node", {"rounds": 30, "answers.share_labels": True}, 0.02),
}


@pytest.mark.parametrize("way", TWINS)
def test_a_new_node_with_the_neighbours_of_another_gets_its_answer(tmp_path: Path, way: str, caplog: Any) -> None:
    recipe, options, within = TWINS[way]
    every = tables()
    nodes, edges = every["nodes"], every["edges"]
    counts = edges[(edges["from"] == "north") & (edges["to"] == "south")]["source"].value_counts()
    known = counts.index[counts.argmax()]
    inside = (edges["from"] == edges["to"]) & ((edges["source"] == known) | (edges["target"] == known))
    edges = edges[~inside]
    nodes.loc[nodes["node"] == known, "split"] = None  # what is known of its label has a part in its answer
    here({"nodes": nodes, "edges": edges}, tmp_path, recipe, {**AUTO, **options})
    near = [*edges[edges["source"] == known]["target"], *edges[edges["target"] == known]["source"]]
    twin = nodes[nodes["node"] == known].drop(columns=["label", "split"]).assign(node="twin")
    links = pd.DataFrame({"source": "twin", "target": near}).drop_duplicates()
    both = pd.concat([twin, pd.DataFrame({"node": [known], "client": ["north"]})])
    found = predict(tmp_path / "here", {"nodes": both, "edges": links})
    assert found["client"].tolist() == ["north"] * 2
    assert found["class"].nunique() == 1
    assert found["probability"][0] == pytest.approx(found["probability"][1], abs=within)
    alone = predict(tmp_path / "here", {"nodes": twin})
    assert abs(alone["probability"][0] - found["probability"][0]) > max(2 * within, 1e-4)
    assert "predict.edges" not in caplog.text


def test_a_site_with_a_file_of_fedgraft_shard_knows_no_ids_of_others(tmp_path: Path, caplog: Any) -> None:
    every = tables()
    for key, table in every.items():
        table.to_csv(tmp_path / f"{key}.csv", index=False)
    paths = {f"data.{key}": str(tmp_path / f"{key}.csv") for key in every}
    _, sites = federated_files("fedais", {**CHANGES, "runtime.workers": 0, **paths, "baselines": []}, tmp_path)
    folder = sites.run_folder("north")
    shard = open_run(folder).shards[0]
    links = pd.DataFrame({"source": "new", "target": [shard.ids[0], every["nodes"]["node"].iloc[1]]})
    new = pd.DataFrame({"node": ["new"], **{name: values[:1] for name, values in NEW.items()}})
    found = predict(folder, {"nodes": new, "edges": links})
    assert "1 edges lead to 1 nodes of other clients that this site was never joined to ('n001')" in caplog.text
    pd.testing.assert_frame_equal(found, predict(folder, {"nodes": new, "edges": links.iloc[:1]}))
    assert sites.names == list(CLIENTS)
