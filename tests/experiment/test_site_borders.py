"""Sites whose edges go to nodes of others: the digest, bytes and scores of one machine with the whole table."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedgraft import wire
from fedgraft.errors import InputError
from fedgraft.experiment import experiment as experiments
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.matching import CLAIMED, matched_at_sites, neighbours_of, read_told, write_told
from fedgraft.experiment.storage.sites import Site
from fedgraft.runtimes.flower_federation.node import Node
from helpers import site_tables
from helpers.local_sites import LocalSites, federated
from helpers.served_runs import QUICK
from helpers.site_tables import CLIENTS

SAME = ("digest", "bytes", "metric", "test", "validation", "test_per_client")
CHANGES = {
    **{key: value for key, value in QUICK.items() if not key.startswith("runtime.")},
    "rounds": 3,
    "selector.clients": 2,
    "data.name": "nodes",
    "model.hidden": [8, 8],
}
COLUMNS = {"data.source_client": "from", "data.target_client": "to"}
AUTO = {"data.target_client": "auto"}


def tables(alike: bool = False) -> dict[str, pd.DataFrame]:
    """Nodes of both clients and edges, half of them between these, with whose their ends are; ids may be `alike`."""
    nodes, edges = site_tables.nodes(across=True)
    whose = nodes.set_index("node")["client"]
    edges = edges.assign(**{"from": whose[edges["source"]].to_numpy(), "to": whose[edges["target"]].to_numpy()})
    if alike:  # two neighbours in the list, one of each client, have one id
        number = {name: f"a{place // 2}" for place, name in enumerate(nodes["node"])}
        nodes = nodes.assign(node=nodes["node"].map(number))
        edges = edges.assign(source=edges["source"].map(number), target=edges["target"].map(number))
    return {"nodes": nodes, "edges": edges}


def own(every: dict[str, pd.DataFrame], name: str, folder: Path) -> list[str]:
    """Write what one site has; return it as the command of a node takes it."""
    folder.mkdir(parents=True, exist_ok=True)
    nodes, edges = every["nodes"], every["edges"]
    mine = {
        "nodes": nodes[nodes["client"] == name].drop(columns="client"),
        "edges": edges[(edges["from"] == name) | (edges["to"] == name)],
    }
    for key, table in mine.items():
        table.to_csv(folder / f"{key}.csv", index=False)
    return [f"{key}={folder / f'{key}.csv'}" for key in mine]


def at_server(options: dict[str, str]) -> dict[str, Any]:
    """What the recipe of a federation says, where there are no tables."""
    said = {**CHANGES, "runtime.name": "flower", "yardsticks": [], **options}
    return {**said, "data.nodes": "nowhere.csv", "data.edges": "nowhere.csv"}


def at_sites(every: dict[str, pd.DataFrame], root: Path, recipe: str, changes: dict[str, Any]):
    given = [own(every, name, root / "tables" / name) for name in CLIENTS]
    nowhere = {f"data.{key}": "nowhere.csv" for key in every}
    return federated(recipe, {**CHANGES, **nowhere, **changes}, given, list(CLIENTS), root)


def here(every: dict[str, pd.DataFrame], root: Path, recipe: str, changes: dict[str, Any]) -> dict[str, Any]:
    paths = {f"data.{key}": str(root / f"{key}.csv") for key in every}
    for key, table in every.items():
        table.to_csv(root / f"{key}.csv", index=False)
    return execute(
        experiments.load(recipe, {**CHANGES, "runtime.workers": 0, "yardsticks": [], **paths, **changes}), root / "here"
    )


@pytest.mark.parametrize(
    ("recipe", "alike", "options"),
    [("fedais", False, AUTO), ("fedais", True, COLUMNS), ("fedgcn", False, COLUMNS), ("graft_node", False, AUTO)],
)
def test_sites_end_as_one_machine_with_the_whole_table(
    tmp_path: Path, recipe: str, alike: bool, options: dict[str, str]
) -> None:
    every = tables(alike)
    one = here(every, tmp_path, recipe, options)
    two, _ = at_sites(every, tmp_path / "sites", recipe, options)
    for name in SAME:
        assert two[name] == one[name], name
    assert one["bytes"]["matching"] > 24 * len(every["edges"]) / 2
    inside, _ = at_sites(every, tmp_path / "inside", recipe, {})
    assert inside["bytes"]["matching"] == 0
    assert inside["digest"] != two["digest"]


ALL_COLUMNS = {"data.edge_features": "all", "data.weight": "times", "data.time": "when", "data.directed": True}
CARRIED = [
    (True, {**COLUMNS, **ALL_COLUMNS}),
    (False, {**COLUMNS, "data.edge_features": ["amount", "channel"], "data.time": "when", "data.repeats": "last"}),
    (False, {**AUTO, "data.edge_features": "amount", "data.directed": True, "data.repeats": "sum"}),
    (False, {**AUTO, "data.directed": True}),
]


@pytest.mark.parametrize(("alike", "options"), CARRIED)
def test_edges_that_carry_something_are_at_sites_as_on_one_machine(
    tmp_path: Path, alike: bool, options: dict[str, Any]
) -> None:
    every = tables(alike)
    every["edges"], options = site_tables.carrying(every["edges"]), {**options, "model.name": "multigraph"}
    one = here(every, tmp_path, "fedais", options)
    two, _ = at_sites(every, tmp_path / "sites", "fedais", options)
    for name in SAME:
        assert two[name] == one[name], name
    assert one["bytes"]["matching"] > 24 * len(every["edges"]) / 2 * 0.5


def test_one_machine_without_the_options_has_the_same_digest(tmp_path: Path) -> None:
    every = tables()
    (tmp_path / "as before").mkdir()
    before, one = here(every, tmp_path / "as before", "fedais", {}), here(every, tmp_path, "fedais", AUTO)
    assert before["digest"] == one["digest"]
    assert {**one["bytes"], "matching": 0, "total": 0, "up": 0, "down": 0} == {
        **before["bytes"],
        "total": 0,
        "up": 0,
        "down": 0,
    }


def test_a_server_that_resumes_and_a_site_that_predicts_know_where_the_other_ends_are(tmp_path: Path) -> None:
    every, paced = tables(True), {**COLUMNS, "training.schedule": "constant", "evaluation.every": 1}
    whole = here(every, tmp_path, "fedais", {**paced, "rounds": 4})
    _, sites = at_sites(every, tmp_path / "cut", "fedais", {**paced, "rounds": 2})
    given = [list(each.data) for each in sites.sites]
    again = LocalSites(sites.sites[0].own, given, list(CLIENTS), tmp_path / "cut" / "nodes")
    found = resume(tmp_path / "cut" / "run", sites=again, rounds=4)
    assert (found["digest"], found["bytes"]) == (whole["digest"], whole["bytes"])
    asked = {"nodes": pd.DataFrame({"node": [f"a{k}" for k in range(20)]})}
    answers = predict(again.run_folder("north"), asked)
    wanted = predict(tmp_path / "here", asked, client="north")
    assert answers["class"].tolist() == wanted["class"].tolist()
    assert answers["probability"].tolist() == wanted["probability"].tolist()


def test_no_id_leaves_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every, answers, answered = tables(), list[bytes](), Node.answer

    def answer(node: Node, data: bytes) -> bytes:
        answers.append(answered(node, data))
        return answers[-1]

    monkeypatch.setattr(Node, "answer", answer)
    every = {
        "nodes": every["nodes"].replace({"node": {"n": "canary"}}, regex=True),
        "edges": every["edges"].replace({"source": {"n": "canary"}, "target": {"n": "canary"}}, regex=True),
    }
    at_sites(every, tmp_path, "fedais", AUTO)
    assert any(CLAIMED.encode() in each for each in answers)
    kept = [path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert not [each for each in [*answers, *kept] if b"canary" in each]


def test_a_site_without_the_secret_and_answers_that_are_none_are_one_line(tmp_path: Path) -> None:
    every = tables()
    data = own(every, "north", tmp_path)
    experiment = experiments.load("fedais", at_server(AUTO))
    with pytest.raises(InputError, match=r"need the secret that all sites have in common.*federation init"):
        Site(experiment, data, 0, "north", clients=CLIENTS).check()
    Site(experiment, data, 0, "north", clients=CLIENTS, secret=bytes(32)).check()
    for claimed in (b"no", bytes(40), wire.pack({"token": 1}), wire.pack({})):
        with pytest.raises(InputError, match="Client 0 has told what are no edges to others"):
            matched_at_sites(experiment, {0: claimed}, 2)
    with pytest.raises(InputError, match="no answer to edges to others"):
        neighbours_of(CLIENTS, b"no")


def test_who_was_not_there_is_told_that_nothing_was_joined(tmp_path: Path) -> None:
    every = tables()
    changes = {**at_server(AUTO), "task.classes": 3, "task.class_names": ["cat", "dog", "owl"], "task.features": 4}
    experiment = experiments.load("fedais", {**changes, "data.features": ["f0", "f1", "f2", "f3"]})
    experiment = experiment.with_data(experiment.data.agreeing({}))
    one, two = (
        Site(experiment, own(every, name, tmp_path / name), k, name, clients=CLIENTS, secret=bytes(32))
        for k, name in enumerate(CLIENTS)
    )
    recipe = experiment.to_toml().encode()
    claimed = one.read(recipe)[1]["claimed"]
    assert isinstance(claimed, bytes)
    matched, told = matched_at_sites(experiment, {0: claimed}, 2)
    assert sorted(matched.matching) == [0]
    for site in (one, two):
        shard, about = site.read(recipe, told[site.number])
        assert shard.halo == 0
        assert about["data"] == site.digest
    write_told(tmp_path / "kept" / "run.bin", told)
    assert read_told(tmp_path / "kept" / "run.bin") == told
    assert read_told(tmp_path / "kept" / "none.bin") == {}
    (tmp_path / "kept" / "run.bin").write_bytes(b"damaged")
    with pytest.raises(InputError, match="is damaged"):
        read_told(tmp_path / "kept" / "run.bin")
