"""Study openfgl: every method, cut and set of it is there, its options are said once, and each method trains."""

from dataclasses import replace
from pathlib import Path

import pytest

from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.experiment.running.runner import execute
from fedgraft.reports.studies.study import load, panel_cells

STUDY = load("openfgl")
SMALL = {"cora", "citeseer", "pubmed", "amazon_photo"}
LARGE = {"amazon_computers", "coauthor_cs", "coauthor_physics"}
PEERS = {"fedavg", "fedprox", "scaffold", "moon", "feddc", "fedper", "fedrep", "ditto", "fedala", "fedproto", "fedtgp"}
PEERS |= {"fedgta", "fedpub", "adafgl", "fgssl", "fedtad", "local"}
OF_GRAPHS = {"fedavg", "fedprox", "gcfl", "fedstar", "local", "graft_graph", "graft_graph_alone"}
OURS = {"graft_node", "graft_node_alone", "graft_once", "graft_once_alone"}
OF_METIS = {"fedavg", "scaffold", "local", *OURS}
OF_LARGE = {*OF_METIS, "fedprox", "ditto"}
OF_BOUNDARIES = {"fedavg", "graft_node", "graft_once"}
TINY = {"rounds": 2, "runtime.workers": 0, "baselines": [], "evaluation.local_steps": True}
SHORT = {"rounds": 2, "sharing.rounds": 1}
BLOCKS = {**TINY, "data.name": "blocks", "data.clients": 3, "data.nodes": 90, "data.classes": 3, "data.features": 12}
MOLECULES = {**TINY, "data.name": "molecules", "data.clients": 3, "data.graphs": 20}


def methods(*partitions):
    """Methods by partition, and the sets of data that they are run on."""
    cells = [cell for cell in STUDY.cells(1) if cell.split.partition in partitions]
    return {cell.method for cell in cells}, {cell.split.data for cell in cells}


def settings(partition, data="cora", method="fedavg", seed=1):
    (cell,) = [
        cell
        for panel in STUDY.panels
        for cell in panel_cells(panel, seed)
        if (cell.split.partition, cell.split.data, cell.method, cell.split.seed) == (partition, data, method, seed)
    ]
    return STUDY.settings(cell)


def test_all_methods_and_sets_are_there():
    assert methods("louvain_cut") == (PEERS | OURS, SMALL | LARGE)
    assert {cell.method for cell in STUDY.cells(1) if cell.split.data in LARGE} == OF_LARGE
    assert methods("metis_cut") == (OF_METIS, SMALL)
    assert methods("louvain_whole") == methods("metis_whole") == (OF_BOUNDARIES, SMALL)
    assert methods("dirichlet") == (OF_GRAPHS, {"mutag", "enzymes", "proteins"})


def test_cuts_are_openfgl_s():
    cut, whole = settings("louvain_cut")["data"], settings("metis_whole")["data"]
    assert (cut["partition"], cut["shares"], cut["between"], cut["clients"]) == ("louvain_even", "20:40:40", False, 10)
    assert (whole["partition"], whole["shares"], whole["clients"]) == ("metis", "20:40:40", 10)
    assert whole.get("between", True)
    assert [settings("louvain_cut", seed=seed)["data"].get("fold", 0) for seed in range(1, 7)] == [0, 1, 2, 3, 4, 0]
    skew = settings("dirichlet", "mutag")["data"]
    assert (skew["partition"], skew["alpha"], skew["clients"]) == ("dirichlet", 1.0, 10)
    assert "fold" not in skew, "sets of graphs have none"


def test_peers_differ_in_what_they_are_alone():
    own = {"fedpub": {"model", "task"}, "adafgl": {"rounds"}, "feddc": {"training"}}
    plain = settings("louvain_cut")
    for method in PEERS:
        found = settings("louvain_cut", method=method)
        differ = {name for name in plain.keys() | found.keys() if plain.get(name) != found.get(name)}
        assert differ <= {"sharing"} | own.get(method, set()), method
    assert plain["model"] == {"name": "gcn", "hidden": [64]}
    assert (plain["rounds"], plain["training"]["epochs"], plain["training"]["keep_moments"]) == (100, 3, True)


def test_our_recipes_are_as_they_come_but_for_the_score():
    evaluation = {"local_steps": True, "keep": "last"}
    for method in ("graft_node", "graft_once"):
        recipe, found = Recipe.read(method).sections, settings("louvain_cut", method=method)
        for name in ("task", "model", "sharing", "codec", "training", "rounds", "selector"):
            assert found.get(name) == recipe.get(name), (method, name)
        assert found["evaluation"] == {**recipe.get("evaluation", {}), **evaluation}


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(PEERS | {"graft_node", "graft_once"}))
def test_every_method_of_nodes_trains(method):
    own = {**STUDY.methods[method].get("changes", {}), **(SHORT if method == "adafgl" else {})}
    study = replace(STUDY, methods={method: {**STUDY.methods[method], "changes": own}})
    summary = execute(study.experiment("cora", method, BLOCKS))
    assert not any(summary["failures"].values())
    assert summary["after_local_steps"]["test"] is not None


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(OF_GRAPHS - {"graft_graph_alone"}))
def test_every_method_of_graphs_trains(method):
    summary = execute(STUDY.experiment("mutag", method, MOLECULES))
    assert not any(summary["failures"].values())
    assert summary["after_local_steps"]["test"] is not None


def test_data_are_read_from_where_they_lie():
    roots = {data: STUDY.root(Path("DIR"), data) for data in ("cora", "amazon_photo", "coauthor_physics", "mutag")}
    assert [str(root) for root in roots.values()] == ["DIR/Planetoid", "DIR/Amazon", "DIR/Coauthor", "DIR/TUDataset"]
