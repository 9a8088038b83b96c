"""Which abilities the methods have, found once; and what follows for messages."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedgraft.contracts import PersonalSharing
from fedgraft.contracts.abilities.tasks import VariantTask
from fedgraft.engine.plan import REPORTED
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.methods.samplers.all import All
from fedgraft.methods.sharing.fedavg import FedAvg
from helpers.node_runs import OFTEN, small
from helpers.toy import Line, Points
from helpers.toy_methods import Published
from helpers.toy_runs import toy

ABILITIES = (
    *("halo", "publishing", "variants", "guided", "active"),
    *("silent", "owned"),
)


def test_plain_methods_have_no_abilities_and_the_defaults_hold():
    plan = toy().plan
    assert [getattr(plan, name) for name in ABILITIES] == [None] * len(ABILITIES)
    assert (plan.halo_widths, plan.asks_rows, plan.task.seeds_draws, plan.guidance, plan.refreshes) == (
        (),
        False,
        False,
        (),
        0,
    )
    assert plan.sharing.group(None, 3) == 0
    assert not plan.sharing.tracks
    assert not plan.sampler.observes
    assert plan.personalise(plan.first, None) is plan.first
    assert plan.ensemble(plan.first, None) == ()
    data = Points(np.zeros((4, 3), np.float32), np.zeros(4, np.float32), np.array([0, 0, 1, 0]))
    (block,) = plan.task.blocks(data)
    assert (block.dtype, block.tolist()) == (np.int64, [0, 1, 2])


def test_a_task_that_tells_no_details_is_chosen_by_its_score():
    plan, sums = toy().plan, {"squared_error": 8.0, "count": 2.0}
    assert plan.task.selection_metric(sums) == plan.task.score(sums) == 2.0
    assert plan.task.measures(sums) == {"rmse": 2.0}
    assert math.isnan(plan.task.mean_loss(sums))


@dataclass(frozen=True)
class Own(FedAvg, PersonalSharing):
    """Every client is its own group, doubles what it receives, and trains twice in a round."""

    def group(self, state, client):
        return client

    def personalise(self, received, memory):
        return {name: 2 * array for name, array in received.items()}

    def runs(self, epochs):
        return (epochs, 1)


@dataclass(frozen=True)
class Two(Line, VariantTask):
    """Two blocks; the bias never travels."""

    def blocks(self, data):
        return [np.array([0]), np.array([1])]

    def encode(self, model, data, block):
        """Nothing is shared."""

    def personal(self, name):
        return name == "bias"

    def variant(self, data):
        return None


def test_abilities_are_found_where_a_method_inherits_them():
    plan = replace(toy().plan, sharing=Own(), task=Two())
    assert (plan.owned, plan.variants) == (plan.sharing, plan.task)
    assert plan.sharing.group(None, 3) == 3
    assert plan.personalise({"weight": np.ones(1)}, None)["weight"] == [2]


def test_what_travels_and_whether_clients_end_up_with_models_of_their_own():
    class Nothing(FedAvg):
        def shares(self, name):
            return False

    plain = toy().plan
    assert (list(plain.first), plain.connected, plain.personal) == (["weight", "bias"], True, False)
    parts = replace(plain, task=Two())
    assert (list(parts.first), parts.connected, parts.personal) == (["weight"], True, True)
    assert replace(plain, sharing=Own()).personal, "even where all parameters travel"
    alone = replace(plain, sharing=Nothing())
    assert (alone.first, alone.connected, alone.personal) == ({}, False, True)


@pytest.mark.parametrize(
    ("reports", "hello", "train"),
    [
        ((), (), ("loss",)),
        (("loss_sq",), (), REPORTED),
        (("label_1", "label_0", "update"), ("label_0", "label_1"), ("loss",)),
    ],
)
def test_names_of_scalars_in_replies(reports, hello, train):
    plan = replace(toy().plan, reports=frozenset(reports))
    assert Protocol.of(plan).report("hello") == ("examples", *hello)
    assert Protocol.of(plan).report("train") == Protocol.of(plan).report("alone") == train
    assert Protocol.of(plan).report("probe") == REPORTED, "all of them"
    assert Protocol.of(plan).report("evaluate") == Protocol.of(plan).report("wait") == ()


def test_names_of_scalars_in_requests_are_those_of_the_guidance_of_a_trial_and_of_a_choice():
    kinds = {"trial": ("epochs",), "choice": ("choice",), "publish": ("total",)}
    assert {kind: names for kind, names in Protocol.of(toy().plan).request_names.items() if names} == kinds
    plan = small("fedais")[0].plan
    assert Protocol.of(plan).request_names["train"] == plan.sampler.guidance
    assert plan.guided is plan.sampler


def test_pauses_are_counted_over_all_runs_of_a_round():
    plan = small("fedais", **OFTEN)[0].plan
    once = plan.sampler.refreshes(3)
    assert (plan.halo, plan.refreshes) == (plan.task.exchanged, once)
    assert replace(plan, sharing=Own()).refreshes == once + plan.sampler.refreshes(1)
    assert replace(plan, sampler=All()).refreshes == 0
    assert replace(toy().plan, sampler=plan.sampler).refreshes == 0, "there is nothing to wait for"


def test_who_asks_for_rows():
    changed, asked = (small("fedall", exchange__pull=pull)[0].plan for pull in ("changed", "asked"))
    assert (changed.asks_rows, asked.asks_rows) == (False, True)
    assert changed.asked_layout.specs == ()
    assert [spec.name for spec in asked.asked_bounds(9)] == [spec.name for spec in asked.asked_layout]
    assert [spec.shape for spec in asked.asked_bounds(9)] == [(2,)] * len(asked.halo_widths), "a bit each"


def test_layouts_of_statistics_are_those_of_a_task_that_publishes():
    plan = replace(toy().plan, task=Published())
    assert plan.publishing is plan.task
    assert [spec.name for spec in plan.statistics_layout] == ["sums"]
    assert [spec.name for spec in Protocol.of(plan).request_layouts["statistics"]] == ["mean"]
    assert toy().plan.statistics_layout.specs == toy().plan.combined_layout.specs == ()
