"""A generator that is trained in the first rounds and then stays: by hand, and in runs on a graph of a few nodes."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from fedgraft.contracts import Update
from fedgraft.domains.nodes.training.neighgen import WIDTHS
from fedgraft.engine import unchanged
from fedgraft.engine.server.rounds.averaging import scored_model
from fedgraft.engine.server.rounds.broadcast import Broadcast
from fedgraft.errors import ClientError, InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.methods.sharing.fedsage_plus import FROZEN, FedSagePlus
from helpers.killed_runs import Killed, measured
from helpers.leaking_runs import found, ran, random_features
from helpers.node_runs import SMALL, small
from helpers.toy_runs import looped, same


def arrays(**values):
    return {name.replace("__", "."): np.array([value], np.float32) for name, value in values.items()}


MODEL = arrays(w=1, generator__w=2, generator__frozen=0)


class Decaying:
    """A trainer whose step takes a tenth off every parameter, as weight decay does whatever the gradient."""

    def load(self, arrays):
        self.parameters = {name: torch.from_numpy(array.copy()) for name, array in arrays.items() if name != FROZEN}
        self.buffers = {FROZEN: arrays[FROZEN]}

    def run(self, frozen=()):
        for name, value in self.parameters.items():
            value *= 1.0 if name in frozen else 0.9

    def difference(self, start):
        after = {**{name: value.numpy() for name, value in self.parameters.items()}, **self.buffers}
        return {name: after[name] - value for name, value in start.items()}


def merged(method, state, *steps):
    """After rounds in which both of two clients add so much to everything."""
    for step in steps:
        update = {name: np.full(1, step, np.float32) * (name != FROZEN) for name in MODEL}
        state = method.merge(state, [Update(0, 0.25, update), Update(1, 0.75, update)])
    return state


def test_a_worked_example_of_two_rounds_with_the_generator_and_one_without():
    method = FedSagePlus(rounds=2)
    state = merged(method, method.init(MODEL, 2), 0.5)
    assert method.model(state) == arrays(w=1.5, generator__w=2.5, generator__frozen=0)
    state = merged(method, state, 0.5)
    assert method.model(state) == arrays(w=2.0, generator__w=3.0, generator__frozen=1)
    state = merged(method, state, 0.5)
    assert method.model(state) == arrays(w=2.5, generator__w=3.0, generator__frozen=1)


@pytest.mark.parametrize(("frozen", "moved"), [(0.0, -0.2), (1.0, 0.0), (0.98, 0.0)])
def test_a_client_trains_the_generator_only_as_long_as_it_is_not_frozen(frozen, moved):
    received = {**MODEL, FROZEN: np.array([frozen], np.float32)}
    update, memory = FedSagePlus().local_update(Decaying(), received, None)
    assert {name: value.item() for name, value in update.items()} == pytest.approx(
        {"w": -0.1, "generator.w": moved, FROZEN: 0.0}
    )
    assert memory is None


def test_without_a_generator_at_hand_it_is_fedavg():
    method = FedSagePlus(rounds=1)
    state = method.init(arrays(w=1), 2)
    for _ in range(2):
        state = method.merge(state, [Update(0, 1.0, arrays(w=1))])
    assert method.model(state) == arrays(w=3)


def test_no_rounds_are_refused():
    with pytest.raises(InputError, match=r"FedSagePlus\.rounds must be >= 1; got 0\."):
        FedSagePlus(rounds=0)


def test_a_task_that_shares_more_is_refused():
    with pytest.raises(
        InputError, match="needs a task that offers generator, which 'node' with these options does not"
    ):
        small("fedsage_plus", exchange__features=True)


# --- runs -------------------------------------------------------------------------------------------------------------


def models_of(**changes):
    """The scored model after every round, the last state and the ledger's rows."""
    experiment, shards = small("fedsage_plus", rounds=5, sharing__rounds=2, **changes)
    models, rows = [], []
    with looped(experiment, shards=shards) as (loop, _):

        def note(state, row):
            models.append(scored_model(experiment.plan, state.sharing, state.averages, 0))
            rows.append(row)

        state = loop.run(loop.start(), note)
    return models, state, rows


def test_the_generator_learns_for_two_rounds_and_the_classifier_for_all():
    models, state, rows = models_of()
    assert not any(row.failed for row in rows)
    for round, (before, after) in enumerate(pairwise(models), start=2):
        changed = {name for name in before if not np.array_equal(before[name], after[name])}
        parts = {name.startswith("generator.") for name in changed - {FROZEN}}
        assert parts == ({True, False} if round == 2 else {False}), round
    assert [model[FROZEN].item() for model in models] == [0, 1, 1, 1, 1]
    assert state.bytes["statistics"] > 0
    assert 0 < state.bytes["halo"] < 4 * 2 * 64 * (4 * WIDTHS[-1] + 8), "embeddings travel in the first rounds alone"


def test_equal_runs_are_equal_and_lossy_codecs_are_survived():
    one, other = (models_of()[0] for _ in range(2))
    assert same(one, other)
    lossy, _, rows = models_of(codec=[{"name": "quantized", "bits": 4}], rows={"name": "quantized", "bits": 4})
    assert not any(row.failed for row in rows)
    assert [model[FROZEN].item() for model in lossy] == [0, 1, 1, 1, 1]
    assert all(np.array_equal(lossy[1][name], lossy[-1][name]) for name in lossy[1] if name.startswith("generator."))


@pytest.mark.parametrize("pull", ["changed", pytest.param("asked", marks=pytest.mark.slow)])
def test_samplers_that_refresh_pull_embeddings_before_their_steps(pull):
    halo = {}
    for refresh in (False, True):
        changes = {"sampler__name": "all", "sampler__refresh": refresh, "exchange__pull": pull}
        experiment, shards = small("fedsage_plus", rounds=1, **changes)
        rows = []
        with looped(experiment, shards=shards) as (loop, _):
            halo[refresh] = loop.run(loop.start(), lambda state, row, rows=rows: rows.append(row)).bytes["halo"]
        assert not rows[0].failed
    assert halo[True] > halo[False] > 0


def test_killed_and_resumed_it_ends_as_if_it_had_not_been(tmp_path, dying):
    changes = {**SMALL, "rounds": 4, "sharing.rounds": 2, "checkpoint.every_seconds": 0}
    whole = measured(execute(load("fedsage_plus", changes), tmp_path / "whole"))
    dying(30)
    with pytest.raises(Killed):
        execute(load("fedsage_plus", changes), tmp_path / "run")
    dying(0)
    assert 0 < RunFolder.open(tmp_path / "run").load()[0].round < 4
    assert measured(resume(tmp_path / "run")) == whole
    assert RunFolder.open(tmp_path / "run").load()[1] == RunFolder.open(tmp_path / "whole").load()[1]


@pytest.mark.parametrize("is_sparse", [pytest.param(False, marks=pytest.mark.slow), True])
def test_no_piece_of_a_row_of_features_is_in_any_message(is_sparse):
    experiment, shards = small("fedsage_plus", rounds=3, sharing__rounds=2)
    shards = list(random_features(shards, is_sparse))
    experiment = replace(experiment, plan=replace(experiment.plan, task=experiment.plan.task.fitted(shards)))
    messages, _, state = ran(experiment, shards)
    assert state.bytes["halo"] > 0
    assert found(messages, shards) == 0


# --- what travels -----------------------------------------------------------------------------------------------------


class Repeating(FedSagePlus):
    """The same, all of whose parameters travel in all rounds."""

    def settles(self, name):
        return False


def sent_by(kind, **changes):
    """The bytes of models in every round, up and down, of all clients; and the last model."""
    experiment, shards = small("fedsage_plus", rounds=5, sharing__rounds=2, **changes)
    experiment = replace(experiment, plan=replace(experiment.plan, sharing=kind(rounds=2)))
    totals = [0]
    with looped(experiment, shards=shards) as (loop, _):
        state = loop.run(loop.start(), lambda state, row: totals.append(loop.ledger.totals["model"]))
    return np.diff(totals).tolist(), scored_model(experiment.plan, state.sharing, state.averages, 0), len(shards)


def test_a_frozen_generator_is_sent_down_once_more_and_up_no_more():
    sent, model, clients = sent_by(FedSagePlus, selector__clients=4)
    repeated, same_model, _ = sent_by(Repeating, selector__clients=4)
    generator = [array for name, array in model.items() if name.startswith("generator.")]
    classifier = sum(array.nbytes for name, array in model.items() if not name.startswith("generator."))
    numbers, sizes = sum(array.nbytes for array in generator), 4 * len(generator)  # each says how many rows it has
    assert repeated == [2 * clients * (classifier + numbers)] * 5
    assert sent[3:] == [2 * clients * (classifier + sizes)] * 2, "as of a classifier alone, but for the sizes"
    assert sent[2] == clients * (2 * (classifier + sizes) + numbers)
    assert same(model, same_model)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"selector__name": "random", "selector__clients": 2}, marks=pytest.mark.slow),
        pytest.param({"codec": [{"name": "float16"}]}, marks=pytest.mark.slow),
        {"codec": [{"name": "quantized", "bits": 4}]},
        pytest.param({"evaluation__local_steps": True}, marks=pytest.mark.slow),
        {"evaluation__at": "clients"},
    ],
    ids=["who is selected later has not got it", "float16", "one array of all", "local steps", "scored at clients"],
)
def test_what_is_not_sent_again_changes_no_number(changes):
    sent, model, _ = sent_by(FedSagePlus, **changes)
    repeated, same_model, _ = sent_by(Repeating, **changes)
    assert same(model, same_model)
    assert sum(sent) <= sum(repeated)


def test_a_client_that_has_lost_what_it_kept_is_sent_it_again_and_one_that_lacks_it_says_so():
    experiment, _ = small("fedsage_plus", rounds=5, sharing__rounds=2)
    plan = experiment.plan
    broadcast = Broadcast(plan, {})
    broadcast.publish(0, plan.first)
    whole = broadcast.sent_to({3: 0})[3]
    broadcast.received([3])
    shorter = broadcast.sent_to({3: 0, 4: 0})
    assert not len(shorter[3]["generator.count.weight"])
    assert len(shorter[4]["generator.count.weight"])
    memory = {}
    assert unchanged.completed(plan, whole, memory) is whole
    assert same(unchanged.completed(plan, shorter[3], memory), whole)
    with pytest.raises(ClientError, match=r"sent a model without generator\.[a-z0-9.]+, which it does not keep"):
        unchanged.completed(plan, shorter[3], {})
    broadcast.received([3])
    broadcast.forgotten([3])
    assert len(broadcast.sent_to({3: 0})[3]["generator.count.weight"])
