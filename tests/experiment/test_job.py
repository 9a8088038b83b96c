import contextlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.described import described
from fedgraft.experiment.job import Job, build, load
from fedgraft.experiment.recipes.recipe import Recipe, override, parse_override
from fedgraft.experiment.recipes.recipe_files import recipes
from helpers.toy import Lines
from helpers.toy_runs import toy


@dataclass(frozen=True)
class Files(Lines):
    """Lines that come from files."""

    root: str | Path = "."
    extra: str | Path | None = None
    column: str = "here"


@dataclass(frozen=True)
class Held(Lines):
    """Lines whose table is an object."""

    table: object = None


RATINGS = ("central_biases", "client_biases", "global_mean")
CHAIN = [{"name": "float16"}, {"name": "quantized", "bits": 4}]


def test_what_is_left_out_has_a_default():
    built = build(Recipe("toy", {"data": {"name": "helpers.toy:Lines"}, "selector": "all", "baselines": []}))
    assert built.recipe.sections["sampler"] == {"name": "all", "batch_size": 0, "batches": 0, "refresh": False}
    assert built.recipe.sections["sharing"] == {"name": "fedavg", "weights": "examples"}
    assert built.recipe.sections["codec"] == {"name": "identity"}
    assert built.plan.downlink == built.plan.uplink
    assert (built.seed, built.stopping.rounds, built.stopping.bytes) == (1, 60, 0)


def test_default_baselines_are_those_of_the_task():
    content = {"data": {"name": "helpers.toy:Lines"}, "selector": {"name": "all"}}
    assert build(Recipe("toy", content)).baselines == ()
    assert build(Recipe("shops", {**content, "data": "shops", "model": "gcn"})).baselines == RATINGS
    assert build(Recipe("assays", {**content, "data": "molecules", "model": "gin"})).baselines == (
        "majority",
        "wl_kernel",
    )


def test_the_resolved_recipe_gives_the_same_experiment_back():
    one = toy(
        codec=CHAIN,
        downlink="float16",
        selector={"name": "oort", "clients": 2},
        sampler={"batch_size": 8},
        budget={"bytes": "2kB", "seconds": 3},
        data={"name": "helpers.toy:Lines", "clients": 3},
        baselines=["local_only"],
        patience=4,
        description="a test",
    )
    again = Job.from_toml(one.to_toml())
    assert again == one
    assert again.to_toml() == one.to_toml()
    assert one.recipe.sections["budget"] == {"bytes": 2000, "seconds": 3.0}


def test_the_resolved_recipe_holds_every_option_of_every_method():
    sections = tomllib.loads(toy(codec=CHAIN, downlink="quantized").to_toml())
    assert sections["codec"][0] == {"name": "float16"}
    assert set(sections["codec"][1]) == {"name", "bits", "scale", "bucket", "rounding"} == set(sections["downlink"])
    assert set(sections["runtime"]) == {"name", "workers", "threads", "device", "deadline_seconds", "portable"}
    assert sections["data"] == {"name": "helpers.toy:Lines", "clients": 5, "points": 40, "width": 3, "shift": 0.5}


def test_a_run_s_experiment_is_a_recipe(tmp_path):
    path = tmp_path / "experiment.toml"
    one = toy()
    path.write_text(one.to_toml())
    assert load(str(path)) == one
    assert load(str(path), {"rounds": 9}).stopping.rounds == 9


def test_paths_become_absolute_and_nothing_else_does(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    resolved = toy(data={"name": "test_job:Files", "root": "here"}).recipe.sections["data"]
    assert resolved["root"] == str(tmp_path / "here")
    assert resolved["column"] == "here"
    assert "extra" not in resolved
    assert toy(data={"name": "test_job:Files", "extra": Path("x")}).recipe.sections["data"]["extra"] == str(
        tmp_path / "x"
    )


def test_what_no_file_can_hold_is_refused_when_stored():
    data = {"name": "test_job:Held", "table": object()}
    built = build(Recipe("toy", {"data": data, "selector": "all", "baselines": []}))
    with pytest.raises(InputError, match="must be given as a file"):
        built.to_toml()


@pytest.mark.parametrize(
    ("text", "message"),
    [("", r": \[data\] needs a name"), ("= 3", " is not valid TOML"), ("recipe = ", " is not valid TOML")],
)
def test_a_damaged_stored_experiment_is_named(text, message):
    with pytest.raises(InputError, match=rf"^a/experiment\.toml{message}"):
        Job.from_toml(text, "a/experiment.toml")
    with pytest.raises(InputError, match=rf"^The stored experiment{message}"):
        Job.from_toml(text)


def test_a_list_of_widths_says_how_many_layers_there_are():
    widths = {"data.name": "blocks", "model.hidden": [6, 5, 4]}
    alone, agreeing = load("fedlocal", widths), load("fedlocal", {**widths, "model.layers": 3})
    assert alone.recipe.sections["model"] == {"name": "sage", "hidden": (6, 5, 4)}
    assert agreeing == alone == Job.from_toml(alone.to_toml())
    assert alone.with_changes({"model.hidden": [8]}).plan.task.layers == 1
    with pytest.raises(InputError, match=r"^model\.layers must be 3, as many as model\.hidden has .*; got 2\.$"):
        load("fedlocal", {**widths, "model.layers": 2})


def test_what_a_task_is_told_of_the_data_must_be_true():
    shards = load("fedlocal", {"data.name": "blocks"}).data.load(1)
    with pytest.raises(InputError, match=r"^task\.sparse must be False with these data; got True\.$"):
        load("fedlocal", {"data.name": "blocks", "task.sparse": True}).fitted(shards)


def test_a_codec_that_cannot_send_rows_is_said_to_be_that_of_the_rows():
    rows = {"data.name": "blocks", "rows.name": "feedback", "rows.codec": {"name": "sparse"}}
    with pytest.raises(InputError, match=r"^\[rows\] cannot be sent like this: .*'features' has \(-1, 0\)"):
        load("fedais", rows)


@pytest.mark.parametrize("name", recipes())
def test_every_recipe_can_be_described(name):
    text = described(name)
    sections = tomllib.loads(text)
    assert "recipe" not in sections, "a file of one is called as its file"
    rooted = "root must be given" in text
    assert rooted == (sections["data"]["name"] in ("pubmed", "cora", "ciao", "chem", "amlsim", "bitcoin", "tu"))
    assert "root" not in sections["data"]
    if rooted:
        assert f"[data]\n# root must be given: fedgraft run {name} data.root=...\n" in text
    given = {"data.root": "here"} if rooted else {}
    content = override(sections, given)
    assert build(Recipe(name, content)) == load(name, given)


# Overrides.


def test_an_option_is_set_and_the_others_stay():
    content = {"selector": {"name": "oort", "clients": 3}, "rounds": 5}
    assert override(content, {"selector.epsilon": 0.5, "rounds": 7}) == {
        "selector": {"name": "oort", "clients": 3, "epsilon": 0.5},
        "rounds": 7,
    }
    assert content == {"selector": {"name": "oort", "clients": 3}, "rounds": 5}


def test_another_name_drops_the_options_of_the_old_method_whatever_the_order():
    content = {"selector": {"name": "oort", "epsilon": 0.5}}
    for changes in (
        {"selector.clients": 2, "selector.name": "random"},
        {"selector.name": "random", "selector.clients": 2},
    ):
        assert override(content, changes) == {"selector": {"name": "random", "clients": 2}}
    assert override(content, {"selector.name": "oort"}) == content
    assert override({"sampler": {"batch_size": 4}}, {"sampler.name": "all"})["sampler"]["batch_size"] == 4


def test_a_method_named_by_a_string_takes_options_too():
    assert override({"selector": "oort"}, {"selector.clients": 2}) == {"selector": {"name": "oort", "clients": 2}}
    assert override({}, {"selector.clients": 2, "selector": "oort"}) == {"selector": {"name": "oort", "clients": 2}}
    assert override({"codec": "quantized"}, {"codec.bits": 2}) == {"codec": {"name": "quantized", "bits": 2}}


def test_an_option_of_a_chain_goes_to_the_one_codec_that_has_it():
    assert override({"codec": CHAIN}, {"codec.bits": 2})["codec"] == [CHAIN[0], {"name": "quantized", "bits": 2}]
    assert CHAIN[1]["bits"] == 4
    assert override({"codec": ["float16", "quantized"]}, {"codec.bits": 2})["codec"][1]["bits"] == 2
    assert override({"codec": CHAIN}, {"codec.name": "identity"}) == {"codec": {"name": "identity"}}
    with pytest.raises(InputError, match=r"codec\.bits fits 2 codecs of the chain quantized, quantized"):
        override({"codec": [CHAIN[1], CHAIN[1]]}, {"codec.bits": 2})
    with pytest.raises(InputError, match=r"codec\.bitss fits 0 codecs of the chain float16, quantized"):
        override({"codec": CHAIN}, {"codec.bitss": 2})


def test_with_changes_is_an_override_of_the_resolved_recipe():
    one = toy(selector={"name": "oort", "clients": 2})
    other = one.with_changes({"selector.name": "random", "seed": 7})
    assert other.recipe.sections["selector"]["name"] == "random"
    assert (one.seed, other.seed) == (1, 7)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rounds=5", ("rounds", 5)),
        (" training.learning_rate = 1e-3 ", ("training.learning_rate", 0.001)),
        ("budget.bytes=2MB", ("budget.bytes", "2MB")),
        ("data.root=/some/folder", ("data.root", "/some/folder")),
        ("selector.name=oort", ("selector.name", "oort")),
        ('selector.name="oort"', ("selector.name", "oort")),
        ("a.b=true", ("a.b", True)),
        ("a.b=x=y", ("a.b", "x=y")),
        ("baselines=[]", ("baselines", [])),
        ("codec=[{name='float16'}, 'quantized']", ("codec", [{"name": "float16"}, "quantized"])),
        ("description=", ("description", "")),
    ],
)
def test_an_override_is_read_as_toml_where_it_can_be(text, expected):
    assert parse_override(text) == expected


@given(st.text())
def test_any_text_is_an_override_or_an_input_error(text):
    with contextlib.suppress(InputError):
        key, _ = parse_override(text)
        assert key
        assert "=" in text


# What is wrong is named, with the nearest right name.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"selectr": {"name": "all"}}, r"^No key named 'selectr'\. Did you mean 'selector'\?"),
        ({"round": 5}, r"^No key named 'round'\. Did you mean 'rounds'\?"),
        ({"selector": {"name": "fedac"}}, r"^No selector named 'fedac'\. Did you mean 'fedacs'\?"),
        ({"selector": {"name": "oort", "epsilo": 1}}, r"^No selector option named 'epsilo'\. Did you mean 'epsilon'"),
        ({"training": {"epoch": 5}}, r"^No training option named 'epoch'\. Did you mean 'epochs'\?"),
        ({"budget": {"byte": 5}}, r"^No budget option named 'byte'\. Did you mean 'bytes'\?"),
        ({"budget": {"bytes": "2 parrots"}}, r"^budget\.bytes = '2 parrots' has no unit"),
        ({"budget": {"bytes": 1.5}}, r"^budget\.bytes must be of type int \| str; got 1\.5"),
        ({"budget": {"bytes": True}}, r"^budget\.bytes must be of type"),
        ({"budget": {"seconds": "soon"}}, r"^budget\.seconds must be of type float; got 'soon'"),
        ({"budget": {"seconds": -1}}, r"^budget\.seconds must be >= 0"),
        ({"budget": 5}, r"^budget must be a section such as \[budget\]; got 5"),
        ({"selector": 5}, r"^selector must be a section"),
        ({"selector": {}}, r"^\[selector\] needs a name"),
        ({"codec": 5}, r"^codec must be a section"),
        ({"codec": [5]}, r"^codec must be a section"),
        ({"codec": [{"bits": 2}]}, r"^\[codec\] needs a name"),
        ({"rounds": "many"}, r"^rounds must be a whole number; got 'many'"),
        ({"rounds": True}, r"^rounds must be a whole number; got True"),
        ({"rounds": 0}, r"^rounds must be >= 1; got 0"),
        ({"seed": -1}, r"^seed must be >= 0; got -1"),
        ({"patience": -1}, r"^patience must be >= 0"),
        ({"evaluation": {"at": "client"}}, r"^evaluation\.at must be one of .* Did you mean 'clients'\?"),
        ({"evaluation": {"every": 0}}, r"^evaluation\.every must be >= 1"),
        ({"runtime": {"device": "gpu"}}, r"^runtime\.device must be one of 'cpu', 'cuda'"),
        ({"runtime": {"workers": -2}}, r"^runtime\.workers must be"),
        ({"runtime": {"name": "foo"}}, r"^No runtime named 'foo'\. Known:"),
        ({"runtime": {"threads": 0}}, r"^runtime\.threads must be"),
        ({"checkpoint": {"every_seconds": -1}}, r"^checkpoint\.every_seconds must be"),
        ({"task": {"name": "rating"}}, r"^task\.name = 'rating' cannot use this data, which is for 'helpers.toy:Line'"),
        ({"task": {"widht": 2}}, r"^No task option named 'widht'\. Did you mean 'width'\?"),
        ({"model": {"name": "gcn"}}, r"^task 'helpers.toy:Line' has a model of its own"),
        ({"baselines": ["global_men"]}, r"^No baseline named 'global_men'\. Did you mean 'global_mean'\?"),
        ({"baselines": ["global_mean"]}, r"^baseline 'global_mean' is not for the task 'helpers.toy:Line'"),
        ({"baselines": "global_mean"}, r"^baselines must be a list of names"),
        ({"data": {}}, r"^\[data\] needs a name"),
        ({"alternatives": 3}, r"^alternatives must hold sections such as \[alternatives\.sharing\..*\]; got 3\.$"),
    ],
)
def test_whatever_is_wrong_is_named(changes, message):
    with pytest.raises(InputError, match=message):
        toy(**changes)


def test_a_misspelt_option_is_told_before_data_that_are_not_given():
    with pytest.raises(InputError, match=r"No task option named 'neighbors'\. Did you mean exchange\.neighbours\?"):
        jobs.load("fedlocal", {"data.name": "pubmed", "task.neighbors": 5})
    with pytest.raises(InputError, match=r"^data\.root must be given"):
        jobs.load("fedlocal", {"data.name": "pubmed", "exchange.neighbours": 5})


def test_an_unknown_section_of_an_override_is_named():
    with pytest.raises(InputError, match=r"^No section named 'trainin'\. Did you mean 'training'\?"):
        override({}, {"trainin.epochs": 3})


def test_unknown_recipes_are_named(tmp_path):
    with pytest.raises(InputError, match=r"^No recipe named 'fedac'\. Did you mean 'fedacs'\?"):
        load("fedac")
    with pytest.raises(InputError, match=r"^No recipe file nowhere\.toml"):
        load("nowhere.toml")
    (tmp_path / "bad.toml").write_text("rounds = \n")
    with pytest.raises(InputError, match=r"bad\.toml is not valid TOML"):
        load(str(tmp_path / "bad.toml"))
    (tmp_path / "bad.toml").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"bad\.toml is not valid TOML: 'utf-8'"):
        load(str(tmp_path / "bad.toml"))


def test_every_recipe_of_ours_is_described():
    assert all(recipes().values())


@dataclass(frozen=True)
class Curious(jobs.discovery.find("selectors", "all")):
    reports: ClassVar[frozenset[str]] = frozenset({"loss", "shoe_size"})


def test_a_selector_s_reports_must_be_met_by_the_task():
    text = r"^selector Curious needs shoe_size, which task Line and sampler All do not report"
    with pytest.raises(InputError, match=text):
        toy(selector={"name": "test_job:Curious"})


@pytest.mark.parametrize(
    "codec",
    [
        {"name": "sparse", "feedback": True},
        {"name": "chain", "codecs": [{"name": "low_rank"}, {"name": "quantized"}], "feedback": True},
        {"name": "feedback", "codec": {"name": "float16"}},
        [{"name": "sparse", "feedback": True}, {"name": "quantized"}],
    ],
)
def test_error_feedback_around_any_codec_survives_being_stored(codec):
    built = toy(codec=codec)
    again = Job.from_toml(built.to_toml())
    assert again.plan.uplink == built.plan.uplink
    assert again.recipe.sections["codec"] == built.recipe.sections["codec"]


def test_feedback_goes_around_a_whole_chain():
    changed = override({"codec": CHAIN}, {"codec.feedback": True})
    assert changed["codec"] == {"name": "chain", "codecs": CHAIN, "feedback": True}
    with pytest.raises(InputError, match=r"codec\.feedback must be true or false; got 1"):
        toy(codec={"name": "float16", "feedback": 1})


def test_a_sharing_method_that_needs_what_a_task_lacks_is_refused():
    with pytest.raises(
        InputError,
        match=r"FedStar needs a task that offers structure, which 'helpers\.toy:Line' with these options does not",
    ):
        toy(sharing={"name": "fedstar"})


def test_a_model_that_does_not_fit_the_task_is_refused():
    with pytest.raises(InputError, match="model 'gin' does not fit task 'rating'; gat, gcn, mlp, network, pyg do"):
        load("fedacs", {"model.name": "gin"})
    with pytest.raises(
        InputError, match="model 'han' does not fit task 'graph'; gat, gcn, gin, gine, mlp, multigraph, network, pyg"
    ):
        load("cefgl", {"model.name": "han"})
