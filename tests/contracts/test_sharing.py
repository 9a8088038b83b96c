"""Every sharing method keeps the laws of `fedgraft.testing`; new files of the family are found by themselves."""

from contextlib import closing
from dataclasses import dataclass

import pytest

from fedgraft.contracts import Sharing
from fedgraft.experiment.recipes import discovery
from fedgraft.testing.laws import same
from fedgraft.testing.runs import here, loop_of, play, toy
from fedgraft.testing.sharing import keep_off_the_wire
from helpers.laws import held
from laws import sharing

CASES = {
    **{name: (name, {}) for name in discovery.names("sharing")},
    "adafgl, both steps": ("adafgl", {"rounds": 2, "epochs": 2}),
    "cefgl, both answer": ("cefgl", {"answers": "both"}),
    "fedtad": ("fedtad", {"epochs": 2, "nodes": 20}),
    "fedtgp": ("fedtgp", {"passes": 20}),
    "fedala, all layers": ("fedala", {"adaptive": ("",)}),
    "gcfl, splitting": ("gcfl", {"mean_norm": 10.0, "max_norm": 0.0, "smallest": 1, "after": 0}),
}
"""Every sharing method with its defaults, or fewer steps at the server, and options that change what laws are about."""


LONG = (
    "a_run_that_is_stopped_and_taken_up_ends_with_the_same_bits",
    "local_steps_that_are_scored_leave_no_trace",
    "partial_cohorts_failures_and_lossy_messages_are_survived",
    "two_runs_are_equal_to_the_last_bit",
)
"""Laws of whole runs: options that no default has are held to them in the long tests."""
SLOW = [f"{case}-{law}" for case in CASES if "," in case for law in LONG]


@pytest.mark.parametrize(
    "law",
    held(
        {case: sharing.laws(discovery.find("sharing", name), **options) for case, (name, options) in CASES.items()},
        SLOW,
    ),
)
def test_keeps_the_law(law):
    law()


@dataclass(frozen=True)
class Personal(Sharing[dict]):
    """A sharing method whose bias stays at home: what a law is known to catch."""

    def shares(self, name):
        return name != "bias"

    def init(self, model, clients):
        return {"model": model}

    def model(self, state, group=0):
        return state["model"]

    def merge(self, state, updates):
        mean = {
            key: (value + sum(update.weight * update.arrays[key] for update in updates)).astype(value.dtype)
            for key, value in state["model"].items()
        }
        return {"model": mean}


def test_private_parameters_stay_in_the_memory_of_their_client():
    experiment = toy(sharing={"name": "test_sharing:Personal"}, rounds=3)
    played = play(experiment)
    private = keep_off_the_wire(experiment.plan, played)
    biases = {float(arrays["bias"][0]) for arrays in private.values()}
    assert len(biases) == 5, "every client has a bias of its own"
    with closing(here(experiment.plan, experiment.data.load(experiment.seed))) as runtime:
        loop = loop_of(experiment, runtime)
        loop.start()
        models = dict.fromkeys(range(5), experiment.plan.first)
        runtime.restore(played.remembered)
        with_private = loop._messenger.scorer.measure(models, 0)
        runtime.restore({})
        without = loop._messenger.scorer.measure(models, 0)
    assert not same(with_private.sums, without.sums), "a client is scored with its own parameters"
