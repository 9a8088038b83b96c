"""Every server optimiser keeps the laws of `fedgraft.testing`; new files of the family are found by themselves."""

from dataclasses import dataclass

import numpy as np
import pytest

from fedgraft.contracts import ServerOptimizer
from fedgraft.experiment.recipes import discovery
from fedgraft.testing import check_server_optimizer, server_optimizers
from helpers.broken_laws import broken
from helpers.laws import held

CASES = {
    **{name: (name, {}) for name in discovery.names("server_optimizers")},
    "fedavgm, none": ("fedavgm", {"momentum": 0.0}),
    "fedadam, no means": ("fedadam", {"first_moment": 0.0, "second_moment": 0.0, "tau": 0.1}),
}
"""Every server optimiser with its defaults, and with options that change what the laws are about."""


@pytest.mark.parametrize(
    "law",
    held(
        {
            case: server_optimizers.laws(discovery.find("server_optimizers", name), **options)
            for case, (name, options) in CASES.items()
        }
    ),
)
def test_keeps_the_law(law):
    law()


@dataclass(frozen=True)
class Backwards(ServerOptimizer[dict]):
    """Backwards: away from where the clients go, and by how often it was asked.

    Source: a test. Differs: nothing. State: steps. Cost: none.
    """

    def init(self, model):
        return {"steps": 0}

    def step(self, state, change):
        state["steps"] += 1
        return {name: np.float64(-state["steps"]) * delta for name, delta in change.items()}, state


def test_an_optimiser_that_breaks_laws_is_named():
    assert broken(check_server_optimizer, Backwards) == [
        "nothing_given_is_mutated_and_states_survive_the_wire",
        "the_first_step_goes_the_way_of_the_change",
        "a_run_learns_and_ends_with_the_same_bits_when_it_is_taken_up",
    ]
