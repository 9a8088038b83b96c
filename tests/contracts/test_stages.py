"""Every method of inputs, of exchange and of answers keeps its laws, and what breaks one is caught."""

import importlib.util
from pathlib import Path

import pytest

from fedgraft.experiment.recipes import discovery
from fedgraft.methods.answers.smoothed import Smoothed
from fedgraft.methods.exchanges.halo import Halo
from fedgraft.methods.inputs.propagated import Propagated
from fedgraft.testing import answers, exchanges, inputs
from helpers.broken_laws import broken
from helpers.laws import held

FAMILIES = {"inputs": inputs, "exchanges": exchanges, "answers": answers}
CASES = {
    **{f"{family} {name}": (family, name, {}) for family in FAMILIES for name in discovery.names(family)},
    **{
        f"{way}, {hops} hops": ("inputs", "propagated", {"propagate": hops, "hop_pooling": way})
        for hops in (1, 2)
        for way in ("concatenate", "last", "mean", "attention")
    },
    "halo, encrypted": ("exchanges", "halo", {"encrypted_rows": True}),
    "prior shift": ("answers", "prior_shift", {"class_prior": True}),
    "smoothed, two hops": ("answers", "smoothed", {"smoothing": 2, "class_prior": True}),
    "smoothed, with labels": ("answers", "smoothed", {"smoothing": 1, "share_labels": True}),
    "refit": ("answers", "smoothed", {"smoothing": 2, "refit": "hidden", "local_fit": True}),
}
"""Every method with its defaults, and with options that change what the laws are about."""


@pytest.mark.parametrize(
    "law",
    held({case: FAMILIES[of].laws(discovery.find(of, name), **options) for case, (of, name, options) in CASES.items()}),
)
def test_keeps_the_law(law):
    law()


class Narrow(Propagated):
    """Says less than it reads."""

    def blocks(self, paths=1):
        return 1


class Mixing(Halo):
    """Publishes what is above the mean of all."""

    def published(self, features):
        return features - features.mean(0)


class Stretched(Smoothed):
    """Multiplies what it answers."""

    def ways(self, classes, hidden):
        made = super().ways(classes, hidden)
        answered = made.answered
        object.__setattr__(made, "answered", lambda *given: 2 * answered(*given) if given[-1] else answered(*given))
        return made


def test_what_breaks_a_law_is_caught():
    assert "rows_are_as_wide_as_they_are_said_to_be" in broken(inputs.check_inputs, Narrow, propagate=2)
    assert broken(exchanges.check_exchange, Mixing) == ["what_leaves_of_a_node_depends_on_no_other"]
    assert "every_way_returns_probabilities" in broken(answers.check_answers, Stretched, class_prior=True)


def test_an_oracle_of_the_test_is_caught():
    file = Path(__file__).parents[1] / "project" / "toys" / "answers" / "toy_oracle.py"
    spec = importlib.util.spec_from_file_location("toy_oracle", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert broken(answers.check_answers, module.Oracle) == ["labels_of_the_test_change_no_answer"]
