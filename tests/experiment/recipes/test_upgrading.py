import tomllib
from importlib import resources

import pytest

from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.recipes.sections import STAGES
from fedgraft.experiment.recipes.upgrading import MOVED, upgraded, where

OLD = """description = "mine" # a comment

[task]
# what leaves a client
share_states = false # no states
propagate = 2
joined = "mean"
head = "convolution"
class_weights = { fraud = 20.0 }

[model]
name = "sage"

[alternatives.model.gcn]
task = { dropout = 0.5, head = "linear" } # as there

[alternatives.data.nodes.task]
smoothing = 2
"""
NEW = """description = "mine" # a comment

[task]
head = "convolution"

[inputs]
propagate = 2
hop_pooling = "mean"

[loss]
class_weights = { fraud = 20.0 }

[exchange]
# what leaves a client
states = false # no states

[model]
name = "sage"

[alternatives.model.gcn]
task = { head = "linear" } # as there
loss = { dropout = 0.5 } # as there

[alternatives.data.nodes.task]

[alternatives.data.nodes.answers]
smoothing = 2
"""


def test_options_move_with_their_comments():
    text, moved = upgraded(OLD, "my.toml")
    assert text == NEW
    assert "task.joined: inputs.hop_pooling" in moved
    assert upgraded(text, "my.toml") == (text, [])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[task]\nneighbours = 3\n", "[exchange]\nneighbours = 3\n"),
        ("[task.class_weights]\nfraud = 2.0\n", "[loss.class_weights]\nfraud = 2.0\n"),
        ("task.dropout = 0.5\n", "loss.dropout = 0.5\n"),
        ('[task]\nobjective = "softmax"\nmargin = 2.0\n', '[loss]\nname = "sampled_softmax"\nmargin = 2.0\n'),
        (
            '[methods.one]\nchanges = { "task.sealed" = true, "task.head" = "linear" }\n',
            '[methods.one]\nchanges = { "exchange.encrypted_rows" = true, "task.head" = "linear" }\n',
        ),
        ("[loss]\nfocal = 2.0\n\n[task]\ndropout = 0.5\n", "[loss]\ndropout = 0.5\nfocal = 2.0\n"),
    ],
)
def test_each_way_of_writing_an_option_is_rewritten(old, new):
    assert upgraded(old, "a.toml")[0] == new


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[task", "a.toml is not valid TOML"),
        ("alternatives = { data = { nodes = { task = { dropout = 0.5 } } } }\n", "cannot be rewritten line by line"),
    ],
)
def test_what_cannot_be_rewritten_is_one_error(text, error):
    with pytest.raises(InputError, match=error):
        upgraded(text, "a.toml")


def test_recipes_of_ours_have_nothing_that_moved():
    for folder in ("experiment/recipes", "reports/studies"):
        for each in (resources.files("fedgraft") / folder).iterdir():
            if each.name.endswith(".toml"):
                assert upgraded(each.read_text(), each.name)[1] == []


@pytest.mark.parametrize("option", MOVED)
def test_an_old_option_is_one_error_with_its_new_name(option):
    assert where(option).partition(".")[0] in STAGES
    with pytest.raises(InputError, match=rf"task\.{option} is {where(option)} now; `fedgraft recipe upgrade FILE`"):
        load("plain_gcn", {"data.name": "blocks", f"task.{option}": 1})


def test_another_task_has_none_of_the_stages_of_the_one_before():
    made = load("graft_node", {"data.name": "blocks", "task.name": "link"})
    assert made.recipe.sections["inputs"]["propagate"] == 0
    assert tomllib.loads(made.to_toml())["exchange"] == {"name": "no_exchange", "neighbours": 0}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"loss.name": "squared_error"}, r"loss 'squared_error' does not fit task 'node'; cross_entropy does\."),
        (
            {"exchange.name": "windowed_halo"},
            r"exchange 'windowed_halo' does not fit task 'node'; halo, no_exchange do",
        ),
        ({"inputs.name": "raw_features", "inputs.propagate": 1}, "inputs.name = 'propagated' has it"),
        (
            {"data.name": "molecules", "task.name": "graph", "exchange.states": True},
            r"task 'graph' has no \[exchange\]",
        ),
    ],
)
def test_stages_must_fit_the_task(changes, error):
    with pytest.raises(InputError, match=error):
        load("fedall", {"data.name": "blocks", "model.name": "gin", **changes})
