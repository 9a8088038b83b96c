"""What a recipe wants in place of its own options, where another method is named."""

from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest

from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe import Recipe, outside_names, override, parse_override, renamed
from fedgraft.experiment.recipes.recipe_files import recipes
from fedgraft.interface.python_arguments import changes_of
from fedgraft.methods.sharing.ridge import Ridge
from helpers.toy_runs import toy

ALTERNATIVES = {
    "sharing": {"name": "cefgl", "probability": 0.25},
    "codec": [{"name": "low_rank"}, {"name": "quantized", "bits": 4}],
    "training": {"epochs": 2, "learning_rate": 0.1},
    "model": {"name": "gin"},
    "alternatives": {
        "sharing": {"*": {"codec": {"name": "quantized", "bits": 32}}, "local": {"training": {"epochs": 3}}},
        "model": {"gcn": {"model": {"layers": 2}, "rounds": 30}},
    },
}


def test_a_recipe_says_what_other_methods_want_in_place_of_its_own_options():
    changed = override(ALTERNATIVES, {"sharing.name": "fedstar"})
    assert changed["sharing"] == {"name": "fedstar"}
    assert changed["codec"] == {"name": "quantized", "bits": 32}
    assert changed["training"] == ALTERNATIVES["training"]


def test_an_alternative_may_have_rounds_of_its_own():
    changed = override(ALTERNATIVES, {"model.name": "gcn"})
    assert (changed["model"], changed["rounds"]) == ({"name": "gcn", "layers": 2}, 30)
    assert override(ALTERNATIVES, {"model.name": "gcn", "rounds": 3})["rounds"] == 3, "what is asked for counts"
    assert "rounds" not in override(ALTERNATIVES, {"model.name": "sage"})


def written(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text)
    return str(folder / f"{next(iter(files))}.toml")


def test_a_file_overrides_the_recipe_that_it_extends(tmp_path):
    mine = written(tmp_path, mine='extends = "fedacs"\nrounds = 3\nselector = "oort"\n[training]\nmomentum = 0.5')
    given = {"rounds": 3, "selector.name": "oort", "training.momentum": 0.5}
    assert load(mine).recipe.sections == load("fedacs", given).recipe.sections
    assert load(mine).recipe.name == "mine"


def test_the_page_s_example_is_a_recipe(tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "recipe.md").read_text(encoding="utf-8")
    found = load(written(tmp_path, mine=page.split("```toml\n")[1].split("```")[0]))
    assert (found.recipe.sections["selector"]["name"], found.stopping.rounds) == ("oort", 30)
    assert found.plan.training.optimizer == "adamw", "the recipe's other options of a section stay"


def test_a_file_extends_one_next_to_it_whose_alternatives_hold(tmp_path, monkeypatch):
    base = 'extends = "fedacs"\n[evaluation]\naveraging = 0.5\n'
    mine = written(tmp_path, mine='extends = "base.toml"\n[sharing]\nname = "fedprox"\n', base=base)
    monkeypatch.chdir("/")
    assert load(str(tmp_path / "base.toml")).settings.evaluation.averaging == 0.5
    assert load(mine).settings.evaluation.averaging == 0.0, "as fedacs has it for other sharing methods"
    assert load(mine).recipe.sections == load("fedacs", {"sharing.name": "fedprox"}).recipe.sections


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"mine": 'extends = "mine.toml"'},
            r"mine\.toml: extends leads back to itself: .*mine\.toml -> .*mine\.toml\.$",
        ),
        ({"mine": 'extends = "a.toml"', "a": 'extends = "mine.toml"'}, r"mine\.toml: .*a\.toml: extends leads back"),
        ({"mine": 'extends = "fedacss"'}, r"mine\.toml: No recipe named 'fedacss'\. Did you mean 'fedacs'\?"),
        ({"mine": 'extends = "gone.toml"'}, r"mine\.toml: No recipe file .*gone\.toml\."),
        ({"mine": "extends = 3"}, r"mine\.toml: extends must be a recipe's name or the path of a TOML file; got 3\.$"),
        (
            {"mine": 'extends = "fedacs"\n[trainin]\nepochs = 3'},
            r"mine\.toml: No section named 'trainin'\. Did you mean",
        ),
        (
            {"mine": "rounds = 3\ndata = 'shops'"},
            r'^\[selector\] needs a name, or a line such as extends = "fedacs" at',
        ),
    ],
)
def test_what_is_wrong_with_a_file_that_extends_another(tmp_path, files, said):
    with pytest.raises(InputError, match=said):
        load(written(tmp_path, **files))


def test_a_method_s_own_alternative_comes_before_that_of_any():
    changed = override(ALTERNATIVES, {"sharing.name": "local"})
    assert changed["codec"] == ALTERNATIVES["codec"]
    assert changed["training"] == {"epochs": 3, "learning_rate": 0.1}


def test_options_of_an_alternative_go_with_its_name_and_what_is_given_comes_last():
    assert override(ALTERNATIVES, {"model.name": "gcn"})["model"] == {"name": "gcn", "layers": 2}
    changed = override(
        ALTERNATIVES, {"codec.bits": 8, "sharing.name": "fedavg", "model.name": "gcn", "model.layers": 5}
    )
    assert changed["codec"] == {"name": "quantized", "bits": 8}
    assert changed["model"] == {"name": "gcn", "layers": 5}
    assert override(ALTERNATIVES, {"codec.name": "float16", "sharing.name": "fedavg"})["codec"] == {"name": "float16"}


def test_the_recipe_s_own_method_needs_no_alternative():
    assert override(ALTERNATIVES, {"sharing.name": "cefgl"})["codec"] == ALTERNATIVES["codec"]
    assert override(ALTERNATIVES, {"codec.bits": 8})["codec"][1] == {"name": "quantized", "bits": 8}


def test_an_alternative_must_hold_sections():
    with pytest.raises(InputError, match=r"No section named 'codecs'\. Did you mean 'codec'"):
        override({"alternatives": {"sharing": {"*": {"codecs": {}}}}}, {"sharing.name": "fedper"})
    for alternatives, message in [
        (3, r"alternatives must hold sections such as \[alternatives\.sharing\."),
        ({"sharin": {}}, r"No section of alternatives named 'sharin'\. Did you mean 'sharing'"),
        ({"model": 3}, r"alternatives\.model must hold sections such as \[alternatives\.model\."),
        ({"sharing": {"fedper": 3}}, r"alternatives\.sharing\.fedper must hold sections; got 3"),
        ({"sharing": {"*": {"training": 3}}}, r"alternatives\.sharing\.\*\.training must hold options; got 3"),
    ]:
        with pytest.raises(InputError, match=message):
            override({"alternatives": alternatives}, {"sharing.name": "fedper"})


def test_a_whole_number_that_no_machine_counts_to_is_refused():
    override({}, {"seed": 2**63 - 1, "data.users": -(2**63)})
    for changes, name in (
        ({"seed": 2**63}, "seed"),
        ({"data.users": 10**22}, r"data\.users"),
        ({"codec": [{"name": "quantized", "bits": 10**22}]}, r"codec\[0\]\.bits"),
    ):
        with pytest.raises(InputError, match=rf"^{name} must be a whole number of at most 64 bits; got \d+\.$"):
            override({}, changes)


def test_lists_and_keys_without_end_are_no_recipe(tmp_path):
    (tmp_path / "dotted.toml").write_text("a." * 2_000 + "b = 1")
    assert override(Recipe.read(str(tmp_path / "dotted.toml")).sections, {}).keys() == {"a"}
    deep = "[" * 2_000
    assert parse_override(f"rounds={deep}") == ("rounds", deep)
    (tmp_path / "deep.toml").write_text(f"rounds = {deep}")
    with pytest.raises(InputError, match=r"deep\.toml is not valid TOML: maximum recursion depth exceeded"):
        Recipe.read(str(tmp_path / "deep.toml"))


# --- earlier names of options -----------------------------------------------------------------------------------------

EARLIER = {"sharing": {"name": "fedavg", "averaging": 0.8}, "evaluation": {"every": 2}}


def test_an_earlier_name_is_replaced_by_that_of_now():
    expected = {"sharing": {"name": "fedavg"}, "evaluation": {"averaging": 0.8, "every": 2}}
    assert renamed(EARLIER) == renamed(expected) == expected
    assert renamed({"sharing": {"averaging": 0.8}}) == {"sharing": {}, "evaluation": {"averaging": 0.8}}
    assert EARLIER["sharing"]["averaging"] == 0.8, "what is given stays as it is"
    assert renamed({"sharing": "fedavg", "rounds": 3}) == {"sharing": "fedavg", "rounds": 3}


def test_of_both_names_that_of_now_counts():
    assert renamed({**EARLIER, "evaluation": {"averaging": 0.5}})["evaluation"] == {"averaging": 0.5}


@pytest.mark.parametrize("text", ["20:40:40", "2026-11-27", "2026-11-27T10:00:00"])
def test_what_looks_like_a_time_is_text(text):
    assert parse_override(f"data.shares={text}") == ("data.shares", text)


def test_an_override_may_say_the_earlier_name():
    assert override({}, {"sharing.averaging": 0.4}) == {"evaluation": {"averaging": 0.4}}
    assert load("fedacs", {"sharing.averaging": 0.4}) == load("fedacs", {"evaluation.averaging": 0.4})
    assert load("fedacs", {"sharing.averaging": 0.4}).settings.evaluation.averaging == 0.4


def test_a_recipe_that_says_the_earlier_name_is_that_which_says_it_as_of_now():
    one, other = toy(sharing={"averaging": 0.8}), toy(evaluation={"averaging": 0.8})
    assert one == other
    assert one.recipe.sections["sharing"] == {"name": "fedavg", "weights": "examples"}
    assert one.recipe.sections["evaluation"]["averaging"] == 0.8


def test_a_stored_experiment_may_say_the_earlier_name(tmp_path):
    now = toy(evaluation={"averaging": 0.8})
    text = now.to_toml().replace("averaging = 0.8\n", "").replace("[sharing]\n", "[sharing]\naveraging = 0.8\n")
    assert "averaging" in text.split("[sharing]")[1].split("[")[0]
    assert type(now).from_toml(text) == now
    (tmp_path / "experiment.toml").write_text(text)
    path = str(tmp_path / "experiment.toml")
    assert load(path) == now
    assert load(path, {"evaluation.averaging": 0.3}).settings.evaluation.averaging == 0.3
    assert load(path, {"sharing.averaging": 0.3}).settings.evaluation.averaging == 0.3
    assert load(path, {"sharing.name": "fedper"}).settings.evaluation.averaging == 0, "it was an option of FedAvg"


@pytest.mark.parametrize(("recipe", "decay"), [("fedacs", 0.8), ("fedais", 0.7), ("three_levers", 0.8)])
def test_recipes_average_what_they_score_unless_another_sharing_method_is_named(recipe, decay):
    data = {} if recipe == "fedacs" else {"data.root": "."}
    own = load(recipe, data)
    assert own.settings.evaluation.averaging == decay
    assert load(recipe, {**data, "sharing.name": "fedavg"}) == own
    for name in ("fedprox", "scaffold", "cefgl", "local"):
        other = load(recipe, {**data, "sharing.name": name})
        assert other.settings.evaluation == replace(own.settings.evaluation, averaging=0.0), (
            "nothing else is switched off"
        )
    said = {"sharing.name": "fedprox", "evaluation.averaging": 0.5}
    assert load(recipe, {**data, **said}).settings.evaluation.averaging == 0.5


@pytest.mark.parametrize("name", ["cefgl", "local"])
def test_clients_that_keep_models_are_not_scored_with_a_mean_that_nobody_has(name):
    wanted = (
        r"^evaluation\.averaging must be 0 with sharing \w+, whose clients are scored with the model that they keep"
    )
    with pytest.raises(InputError, match=wanted):
        toy(sharing={"name": name}, evaluation={"averaging": 0.5})


def test_classes_outside_fedgraft_are_found_wherever_a_recipe_can_name_one():
    content = {
        "description": "a:B",
        "task": "a:Task",
        "data": {"name": "a:Data", "root": "C:/x", "clients": 3},
        "codec": [{"name": "a:Codec"}, "a:Short", {"name": "feedback", "codec": {"name": "a:Inner"}}],
        "downlink": {"name": "chain", "codecs": ["a:Chained", {"name": "quantized"}]},
        "alternatives": {"sharing": {"*": {"codec": {"name": "a:Other"}}}},
        "baselines": ["majority", "a:Yard"],
    }
    found = ["Chained", "Codec", "Data", "Inner", "Other", "Short", "Task", "Yard"]
    assert outside_names(content) == tuple(f"a:{name}" for name in found)


LACKING = ("Harmony needs label", "ClassBalanced needs label", "RAFHGL needs score")
"""What some tasks cannot tell, and what no sampler of most recipes does."""


def hides(recipe):
    """Whether a recipe's updates are added up, or noise is for cohorts of one kind: few selectors suit it."""
    return bool({"secure_sum", "privacy"} & Recipe.read(recipe).sections.keys())


@pytest.mark.parametrize("recipe", [name for name in sorted(recipes()) if not hides(name)])
def test_a_recipe_takes_every_selector_that_its_task_can_serve(recipe):
    read = "root" in {
        field.name for field in fields(discovery.find("data", Recipe.read(recipe).sections["data"]["name"]))
    }
    root = {"data.root": "anywhere"} if read else {}
    refused = {}
    for name in discovery.names("selectors"):
        try:
            load(recipe, {"selector.name": name, **root})
        except InputError as error:
            refused[name] = str(error)
    assert {name: said for name, said in refused.items() if not any(lack in said for lack in LACKING)} == {}


@pytest.mark.parametrize("name", ["nodes", "edges"])
def test_earlier_names_stand_for_those_of_now_wherever_they_are_said(name):
    content = {"data": {"name": name, "unknown": "-1", "repeats": "sum"}, "yardsticks": ["majority"]}
    now = {"data": {"name": name, "na_labels": "-1", "duplicate_edges": "sum"}, "baselines": ["majority"]}
    assert renamed(content) == now
    changed = override(now, {"data.unknown": "?", "yardsticks": []})
    assert changed == {"data": {**now["data"], "na_labels": "?"}, "baselines": []}
    assert changes_of({"yardsticks": []}) == {"baselines": []}


def test_a_method_that_has_an_option_of_an_earlier_name_keeps_it():
    assert override({"sampler": {"name": "fedais"}}, {"sampler.least": 3.0})["sampler"]["least"] == 3.0
    own = {"sharing": {"name": f"{__name__}:OwnRidge", "least": 4}}
    assert renamed(own) == own
    assert override(own, {"sharing.least": 5})["sharing"]["least"] == 5


@dataclass(frozen=True)
class OwnRidge(Ridge):
    __doc__ = Ridge.__doc__

    least: int = 3
