"""What a recipe wants in place of its own options, where another method is named."""

import pytest

from fedgraft.errors import InputError
from fedgraft.experiment.recipe import override

ALTERNATIVES = {
    "sharing": {"name": "cefgl", "probability": 0.25},
    "codec": [{"name": "low_rank"}, {"name": "quantized", "bits": 4}],
    "training": {"epochs": 2, "learning_rate": 0.1},
    "model": {"name": "gin"},
    "alternatives": {
        "sharing": {"*": {"codec": {"name": "quantized", "bits": 32}}, "local": {"training": {"epochs": 3}}},
        "model": {"gcn": {"model": {"layers": 2}}},
    },
}


def test_a_recipe_says_what_other_methods_want_in_place_of_its_own_options():
    changed = override(ALTERNATIVES, {"sharing.name": "fedstar"})
    assert changed["sharing"] == {"name": "fedstar"}
    assert changed["codec"] == {"name": "quantized", "bits": 32}
    assert changed["training"] == ALTERNATIVES["training"]


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
