"""Recipes of papers' own settings: every printed number is there, and they run; ours say that they are tuned."""

import tomllib
from importlib import resources
from typing import Any

import pytest

import fedgraft
from fedgraft.experiment import job as jobs
from fedgraft.experiment.described import described
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.experiment.recipes.recipe_files import recipes
from fedgraft.reports.studies import study

FEDACS = {
    "data.name": ("ciao", "VI-A"),
    "data.clients": (10, "II-B, VII-C"),
    "data.partition": ("average", "VI-A"),
    "task.share": ("nothing", "III: models alone travel"),
    "task.hidden": (32, "VI-B"),
    "model.name": ("gcn", "VI-A"),
    "model.layers": (5, "VI-A"),
    "model.hidden": (32, "VI-A, VI-B"),
    "model.embedding": (64, "VI-A, VI-B"),
    "selector.name": ("fedacs", "Algorithm 1"),
    "selector.number": ("ucb", "(16)"),
    "selector.clients": ("ucb", "(17)"),
    "selector.score_split": ("test", "III, V-C"),
    "selector.min_clients": (1, "V-A"),
    "sharing.name": ("fedavg", "(5)"),
    "evaluation.averaging": (0.0, "(5)"),
    "sharing.weights": ("examples", "(5)"),
    "codec.name": ("identity", "III"),
    "training.optimizer": ("sgd", "VI-B"),
}
FEDAIS = {
    "rounds": (100, "Experimental Settings"),
    "data.name": ("pubmed", "Table 1"),
    "data.clients": (100, "Experimental Settings"),
    "data.partition": ("iid", "Experimental Settings"),
    "data.alpha": (0.5, "Experimental Settings"),
    "data.edges": (0.5, "Experimental Settings"),
    "data.shares": ("80:10:10", "Table 1"),
    "exchange.neighbours": (10, "Experimental Settings"),
    "exchange.features": (True, "Eq. (6)"),
    "exchange.states": (True, "Eq. (6)"),
    "model.name": ("sage", "Experimental Settings"),
    "model.hidden": ([256, 128], "Experimental Settings"),
    "selector.warm_up": (1, "Experimental Settings"),
    "sampler.name": ("fedais", "Algorithm 1"),
    "sampler.share": (0.7, "Experimental Settings"),
    "sampler.batches": (10, "Experimental Settings"),
    "sampler.floor": (0.0, "Eq. (8)"),
    "sampler.unbiased": (False, "Algorithm 1, line 18"),
    "sampler.adaptive": (True, "Eq. (11)"),
    "sampler.least": (2.0, "Experimental Settings"),
    "sampler.score_split": ("test", "Eq. (11)"),
    "evaluation.averaging": (0.0, "Algorithm 1, line 7"),
    "sharing.weights": ("equal", "Algorithm 1, line 7"),
    "codec.name": ("identity", "nothing is said of fewer bits"),
    "training.optimizer": ("adam", "Experimental Settings"),
    "training.learning_rate": (0.001, "Experimental Settings"),
    "training.weight_decay": (0.001, "Experimental Settings"),
    "training.schedule": ("constant", "Experimental Settings"),
}
UP = {"bits": 4, "scale": "l2", "bucket": 0, "rounding": "nearest"}
CEFGL = {
    "rounds": (200, "5.1"),
    "data.name": ("chem", "5.1"),
    "task.places": (False, "features alone"),
    "model.name": ("gin", "5.1"),
    "model.layers": (2, "5.1"),
    "sharing.name": ("cefgl", "Algorithm 1"),
    "sharing.probability": (0.5, "5.1"),
    "sharing.pull": (0.6, "5.1"),
    "sharing.correction": ("paper", "Eq. (7)"),
    "sharing.shrinkage": (0.5, "5.1"),
    "sharing.threshold": (0.001, "5.1"),
    "sharing.drift": (True, "Algorithm 1, line 14"),
    "sharing.answers": ("hybrid", "5.5"),
    "sharing.two_ends": (False, "Figure 1"),
    "codec": ({"name": "quantized", **UP}, "4.3, Eq. (10), (11)"),
    "downlink": (
        [{"name": "low_rank", "threshold": 0.0001, "relative": False}, {"name": "quantized", **UP}],
        "5.1, 4.2; 4.3",
    ),
    "training.optimizer": ("adam", "5.1"),
    "training.learning_rate": (0.001, "5.1"),
    "training.weight_decay": (0.0005, "5.1"),
}
PRINTED = {"fedacs_paper": FEDACS, "fedais_paper": FEDAIS, "cefgl_paper": CEFGL}
"""{recipe: {option: (its value, where the paper prints it)}}."""
DATA: dict[str, dict[str, Any]] = {
    "fedacs_paper": {
        **{"data.name": "shops", "data.users": 60, "data.items": 80, "data.categories": 4, "data.links": 200},
        **{"data.count": 600, "data.clients": 3},
    },
    "fedais_paper": {"data.name": "blocks", "data.nodes": 72, "data.clients": 12},
    "cefgl_paper": {"data.name": "molecules", "data.graphs": 20, "data.clients": 3},
}
"""{recipe: the smallest data of its kind}."""


def said(name: str) -> dict[str, Any]:
    """{option: value} of a recipe, as its file has them."""
    content = Recipe.read(name).sections
    tables = {key: value for key, value in content.items() if isinstance(value, dict) and key != "alternatives"}
    flat = {f"{key}.{option}": value for key, table in tables.items() for option, value in table.items()}
    return {**content, **flat}


@pytest.mark.parametrize("name", PRINTED)
def test_every_printed_number_is_said_and_is_what_runs(name: str) -> None:
    given, resolved = said(name), tomllib.loads(jobs.load(name, {"data.root": "."}).to_toml())
    for option, (value, where) in PRINTED[name].items():
        assert given[option] == value, f"{option}, which {where} prints"
        section, _, key = option.partition(".")
        if key:
            assert resolved[section][key] == value, option


@pytest.mark.parametrize("name", PRINTED)
def test_every_option_has_a_comment_on_where_it_is_from(name: str) -> None:
    """What a method is called, and plain cross-entropy in three options at once, go without."""
    text = (
        (resources.files("fedgraft.experiment") / "recipes" / f"{name}.toml").read_text().partition("[alternatives")[0]
    )
    lines = [line for line in text.splitlines() if "=" in line and not line.startswith(("#", "description", "name"))]
    bare = [line.split()[0] for line in lines if "#" not in line]
    expected = {"fedais_paper": ["label_smoothing"], "cefgl_paper": ["channels", "scale", "bucket", "rounding"]}
    assert bare == expected.get(name, ["budget_rounds"]), "these have their comment in the lines above"


@pytest.mark.parametrize("name", PRINTED)
def test_a_paper_s_recipe_runs_on_other_data(name: str) -> None:
    done = fedgraft.run(name, overrides={**DATA[name], "rounds": 2, "runtime.workers": 0}, progress=False)
    assert done.summary["rounds"] == 2
    assert done.summary["failures"]["training"] == 0
    assert done.summary["bytes"]["total"] > 0
    if name == "fedais_paper":
        assert done.summary["selections"] == 12 + 10, "all clients while it warms up, then ten"


@pytest.mark.parametrize("name", PRINTED)
def test_show_and_list_say_which_recipe_is_the_paper_s_and_which_is_tuned(name: str) -> None:
    ours = name.removesuffix("_paper")
    listed = recipes()
    assert "as printed in its paper" in listed[name]
    assert f"tuned by us: {ours}" in listed[name]
    assert f"tuned by us on validation (as printed: {name})" in listed[ours]
    for each in (name, ours):
        assert tomllib.loads(described(each))["description"] == listed[each]


@pytest.mark.parametrize("name", ["fedacs", "fedais", "cefgl"])
def test_a_study_s_cells_say_the_data_that_they_are_run_on(name: str) -> None:
    """All methods of a split run on the same shards, whatever data their own recipes have."""
    known = study.load(name)
    splits = {(cell.split, cell.method): cell for cell in known.cells(1) if "paper" in cell.method}
    assert splits
    for (split, method), cell in splits.items():
        common = {**known.common_to(split), "data.root": ".", "model.name": cell.model}
        ours = jobs.load(known.recipe_for(split.data), common)
        assert known.experiment(split.data, method, common).data == ours.data, cell.key
