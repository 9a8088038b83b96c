"""A table of a server's recipes: a node takes each, or refuses it by name, as the list of its choices says."""

from dataclasses import fields

import pytest

from fedgraft.errors import InputError
from fedgraft.experiment.job import Job, load
from fedgraft.experiment.recipes import server_choices
from fedgraft.experiment.recipes.sections import METHODS, SETTINGS, VALUES

OWN = {"data.name": "blocks", "data.nodes": 60}
TAKEN = [
    *({"rounds": 3}, {"seed": 9}, {"patience": 2}, {"baselines": []}, {"description": "another"}),
    *({"selector.name": "all"}, {"selector.clients": 3}, {"selector.name": "afl"}, {"selector.name": "clustered"}),
    *({"evaluation.every": 1}, {"evaluation.sample": 2}, {"evaluation.averaging": 0.0}, {"evaluation.keep": "last"}),
    *({"aggregation.name": "median"}, {"server_optimizer.name": "fedavgm"}, {"safeguards.most_step": 5.0}),
    *({"safeguards.clip": 1.0}, {"dropout.rate": 0.1}, {"clock.devices": "lognormal"}, {"clock.late": "wait"}),
    *({"evaluation.at": "clients"}, {"policy.capabilities": ["update"]}),
    *({"runtime.name": "sites"}, {"runtime.threads": 2}, {"budget.bytes": "5MB"}, {"checkpoint.every_seconds": 0}),
]
REFUSED = {
    "model.hidden": {"model.hidden": [1000]},
    "model": {"model.name": "gcn"},
    "codec": {"codec.name": "identity"},
    "codec.bits": {"codec.bits": 8},
    "downlink.bits": {"downlink.bits": 8},
    "rows": {"rows.name": "identity"},
    "sharing": {"sharing.name": "fedper"},
    "sharing.weights": {"sharing.weights": "equal"},
    "sampler": {"sampler.name": "all"},
    "sampler.share": {"sampler.share": 1.0},
    "training.optimizer": {"training.optimizer": "sgd"},
    "training.epochs": {"training.epochs": 1},
    "training.learning_rate": {"training.learning_rate": 0.0001},
    "training.clip": {"training.clip": 1.0},
    "evaluation.local_steps": {"evaluation.local_steps": True},
    "evaluation.metric": {"evaluation.metric": "macro_f1"},
}


@pytest.fixture(scope="module")
def own():
    return load("fedais", OWN)


def check(changes, own, allow=()):
    """Hold a server's recipe, as it arrives at a node, against the own one."""
    theirs = Job.from_toml(load("fedais", {**OWN, **changes}).to_toml())
    server_choices.check(theirs.recipe.sections, own.recipe.sections, allow)
    server_choices.check_told(theirs.selector, own.selector, allow)


@pytest.mark.parametrize("changes", TAKEN, ids=str)
def test_what_is_the_servers_choice_is_taken(changes, own):
    check(changes, own)


def test_models_are_not_scored_at_the_server_where_a_node_scores_them_itself():
    """Then its sums and states would leave outside the protocol."""
    with pytest.raises(InputError, match="is 'server' in the server's recipe and 'clients' in this node's"):
        check({}, load("fedais", {**OWN, "evaluation.at": "clients"}))


@pytest.mark.parametrize("name", REFUSED)
def test_what_says_what_a_client_computes_or_sends_is_refused_unless_the_site_allows_it(name, own):
    with pytest.raises(
        InputError, match=rf"^{name} is .* in the server's recipe and .* in this node's.*allow = \[\"{name}"
    ):
        check(REFUSED[name], own)
    check(REFUSED[name], own, [name])
    check(REFUSED[name], own, [name.partition(".")[0]])


def test_the_attack_that_rebuilt_training_records_is_refused_with_both_values(own):
    crafted = {"model.hidden": [1000], "codec.name": "identity", "training.optimizer": "sgd", "training.epochs": 1}
    with pytest.raises(InputError) as refused:
        check(crafted, own)
    assert str(refused.value) == (
        "model.hidden is (1000,) in the server's recipe and (256, 128) in this node's; "
        "codec is 'identity' in the server's recipe and 'quantized' in this node's; "
        "training.epochs is 1 in the server's recipe and 2 in this node's; 1 more. "
        "The server may not choose that: run what this node's recipe says, or have the site say in its node.toml: "
        '[limits] allow = ["model.hidden", "codec", "training.epochs", "training.optimizer"].'
    )


@pytest.mark.parametrize(("selector", "tells"), [("harmony", "label_0"), ("power_of_choice", "losses before a round")])
def test_a_selector_that_clients_tell_more_is_refused(selector, tells, own):
    with pytest.raises(InputError, match=rf'has clients tell {tells}.*Random of this node.*allow = \["selector"\]'):
        check({"selector.name": selector}, own)
    check({"selector.name": selector}, own, ["selector"])
    told = load("fedais", {**OWN, "selector.name": selector})
    check({"selector.name": "all"}, told)


def test_every_key_of_a_recipe_is_free_or_held(own):
    """A new section or option of evaluation is held until somebody puts it on the list."""
    options = {f"{name}.{each.name}" for name, cls in SETTINGS.items() for each in fields(cls)}
    assert {*server_choices.FREE} <= {*METHODS, *SETTINGS, *VALUES, "recipe", *options}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("codecs", r"No section of a recipe in limits\.allow named 'codecs'\. Did you mean 'codec'\?"),
        ("training.epoch", r"No option of \[training\] in limits\.allow named 'epoch'\. Did you mean 'epochs'\?"),
        ("data.nodes", r"limits\.allow must not name \[data\], which is the federation's; got 'data\.nodes'\."),
        ("task", r"limits\.allow must not name \[task\]"),
    ],
)
def test_a_name_that_a_site_cannot_allow_is_told(name, said):
    server_choices.check_allowed(["training.epochs", "codec", "model.hidden"])
    with pytest.raises(InputError, match=said):
        server_choices.check_allowed([name])
