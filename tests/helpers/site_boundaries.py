"""Two clients with tables of their own and edges between them, at sites and on one machine with the whole table."""

from pathlib import Path
from typing import Any

import pandas as pd

from fedgraft.experiment import job as jobs
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.running.runner import execute, resume
from helpers import site_tables
from helpers.local_sites import LocalSites, federated
from helpers.served_runs import QUICK
from helpers.site_tables import CLIENTS

SAME = ("digest", "bytes", "metric", "test", "validation", "test_per_client")
CHANGES = {
    **{key: value for key, value in QUICK.items() if not key.startswith("runtime.")},
    "rounds": 2,
    "selector.clients": 2,
    "training.epochs": 1,
    "data.name": "nodes",
    "model.hidden": [8, 8],
}
COLUMNS = {"data.source_client": "from", "data.target_client": "to"}
AUTO = {"data.target_client": "auto"}
PSI = {"data.match": "psi"}
ENCRYPTED, OPEN = {"exchange.encrypted_rows": True}, {"exchange.encrypted_rows": False}


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
    said = {**CHANGES, "runtime.name": "sites", "baselines": [], **options}
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
        jobs.load(recipe, {**CHANGES, "runtime.workers": 0, "baselines": [], **paths, **changes}), root / "here"
    )


def resumed_answers(root: Path, options: dict[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What a site and one machine answer after four rounds, of which sites made two before the server went on."""
    every, paced = tables(True), {**COLUMNS, "training.schedule": "constant", "evaluation.every": 1, **options}
    whole = here(every, root, "fedais", {**paced, "rounds": 4})
    _, sites = at_sites(every, root / "cut", "fedais", {**paced, "rounds": 2})
    given = [list(each.data) for each in sites.sites]
    again = LocalSites(sites.sites[0].own, given, list(CLIENTS), root / "cut" / "nodes")
    found = resume(root / "cut" / "run", sites=again, rounds=4)
    assert (found["digest"], found["bytes"]) == (whole["digest"], whole["bytes"])
    asked = {"nodes": pd.DataFrame({"node": [f"a{k}" for k in range(20)]})}
    return predict(again.run_folder("north"), asked), predict(root / "here", asked, client="north")
