"""Study edges: its recipes are as they come, every set, cut and control is there, and a client alone trains."""

from fedgraft.experiment.job import load as load_experiment
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.reports.studies.running import each_alone
from fedgraft.reports.studies.study import load

STUDY = load("edges")


def test_every_set_and_control_is_there() -> None:
    found = {(cell.split.partition, cell.split.clients, cell.method) for cell in STUDY.cells(1)}
    for name in ("cycle200", "fanin200", "fanin200cycle200"):
        assert {(name, 5, method) for method in ("graft", "unshared", "blind", "one")} <= found
        assert {(name, 3, "graft"), (name, 10, "graft")} <= found
    for name in ("otc", "alpha", "otc_weight", "alpha_weight"):
        assert {(name, 5, method) for method in ("graft", "untold", "one")} <= found


def test_our_recipes_are_as_they_come() -> None:
    for cell in STUDY.cells(1):
        if cell.method == "graft":
            name = "graft_edge" if cell.split.data == "bitcoin" else "graft_multigraph"
            recipe, settings = Recipe.read(name).sections, STUDY.settings(cell)
            for section in ("task", "model", "sharing", "codec", "rows", "training", "rounds", "evaluation"):
                assert settings.get(section) == recipe.get(section), (name, section)


def test_each_client_of_edges_is_a_federation_of_its_own() -> None:
    toy = {"name": "helpers.toy_edges:ToyEdges", "edges": 200, "clients": 2}
    experiment = load_experiment("graft_edge", {"data": toy, "rounds": 2, "runtime.workers": 0, "baselines": []})
    shards = experiment.shards()
    alone = each_alone(experiment.fitted(shards), shards)
    assert alone["bytes"]["total"] == 0
    assert 0 < alone["test_at_best_validation"] <= 1
