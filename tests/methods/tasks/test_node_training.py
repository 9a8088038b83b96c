"""What the node task reads and remembers in training, what clients push of it, and its options."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedgraft import wire
from fedgraft.contracts import Batch
from fedgraft.contracts.loss import ClassShares
from fedgraft.contracts.task import example_losses
from fedgraft.contracts.values import SPLITS, HaloRows
from fedgraft.domains.nodes.base.shards import cut, merge_shards
from fedgraft.errors import InputError, WireError
from fedgraft.methods.losses.cross_entropy import CrossEntropy
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.models.sage import SAGE
from fedgraft.methods.tasks.node import Node
from helpers.node_runs import model_of, relayed, set_up, small, store_of
from helpers.stages import restaged, staged
from helpers.toy_nodes import whole
from helpers.toy_runs import same

PLAIN = {"exchange__neighbours": 0, "loss__logit_adjustment": 0.0, "loss__label_smoothing": 0.0}
"""Losses are cross-entropies, of all neighbours."""


def made(**changes):
    """(task, model, every client's data) after all have looked once, pushed and pulled."""
    experiment, shards = small(**changes)
    task = experiment.plan.task
    model, data = model_of(task), set_up(task, shards)
    store = store_of(task, shards)
    state = store.start()
    for client, each in enumerate(data):
        looked(task, model, each)
        store.publish(state, client, task.exchanged.changed(each))
    for client, each in enumerate(data):
        task.exchanged.receive(each, store.pull(state, client))
    return task, model, data


def looked(task, model, data, seed=7):
    with torch.no_grad():
        return task.exchanged.look(model, data, seed, losses=True)


def losses(task, model, data, **draw):
    draw.setdefault("examples", np.arange(task.examples(data)))
    return example_losses(task.loss(model, data, Batch(**draw), None)).detach()


@pytest.mark.parametrize(
    "changes", [{}, {"exchange__fresh": True}, {"task__head": "convolution"}, {"model__name": "gcn"}]
)
def test_losses_from_remembered_states_of_this_very_model_are_those_of_a_look(changes):
    task, model, data = made(**PLAIN, **changes)
    for each in data:
        seen = looked(task, model, each)
        assert seen.dtype == np.float32
        for part in (slice(None), slice(1, None, 3)):
            examples = np.arange(task.examples(each))[part]
            np.testing.assert_allclose(losses(task, model, each, examples=examples), seen[part], rtol=1e-4, atol=1e-5)


def test_a_look_is_pushed_once_and_a_step_pushes_what_it_moved():
    task, model, data = made()
    here = data[0]
    assert [len(rows.slot) for rows in task.exchanged.changed(here)] == [0]
    looked(task, model, here)
    (pushed,) = task.exchanged.changed(here)
    np.testing.assert_array_equal(pushed.slot, here.needed)
    np.testing.assert_array_equal(pushed.rows, here.states.rows[0][here.needed])
    step = np.array([0, 2, 5])
    losses(task, model, here, examples=step)
    assert [len(rows.slot) for rows in task.exchanged.changed(here)] == [0], (
        "a model that is only asked leaves no trace"
    )
    losses(task, model.train(), here, examples=step)
    (pushed,) = task.exchanged.changed(here)
    moved = here.rows["train"][step]
    np.testing.assert_array_equal(pushed.slot, moved[np.isin(moved, here.needed)])


@pytest.mark.parametrize(
    "changes", [{}, {"exchange__fresh": True}, {"task__head": "convolution", "exchange__fresh": True}]
)
@pytest.mark.parametrize("ahead", [False, True])
def test_a_step_reads_the_rows_that_it_says_and_no_others(changes, ahead):
    task, model, data = made(recipe="fedall", exchange__neighbours=2, **{"sampler__batches": 3, **changes})
    here = data[0]
    everything = here.states.to_tree()
    step = {"examples": np.array([0, 3, 4]), "seed": 11}
    wanted = Batch(**step, ahead=np.arange(task.examples(here)) if ahead else None)
    expected = losses(task, model, here, **step)
    read = task.exchanged.read(here, wanted)
    assert len(read) == len(task.exchanged.halo_widths)
    own = here.own
    for layer, slots in enumerate(read):
        assert (np.diff(slots) > 0).all()
        assert 0 < len(slots) <= here.halo
        others = np.setdiff1d(np.arange(here.halo), slots)
        here.states.rows[layer][own + others] = np.nan
        here.states.known[layer][own + others] = False
    assert torch.equal(losses(task, model, here, **step), expected), "nothing else is read"
    if not ahead:
        here = task.exchanged.opened(here, everything)
        for layer, slots in enumerate(read):
            here.states.rows[layer][own + slots] += 1
        assert not torch.equal(losses(task, model, here, **step), expected)


def test_equal_seeds_are_equal_steps_and_the_number_of_neighbours_is_the_draws():
    task, model, data = made(recipe="fedall", exchange__neighbours=2, sampler__batches=3)
    here = data[1]
    one, same_again, other = (losses(task, model, here, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(one, same_again)
    assert not torch.equal(one, other)
    everybody = losses(restaged(task, {"exchange.neighbours": 0}), model, here, seed=5)
    assert torch.equal(losses(task, model, here, seed=5, neighbours=(100, 100)), everybody)
    with pytest.raises(InputError, match="layers must be 2, the model's convolutions; got 1"):
        losses(task, model, here, neighbours=(3,))


def test_what_is_computed_from_is_kept_while_nothing_changes_and_made_anew_when_it_does():
    task, model, data = made(exchange__neighbours=0)
    here = data[0]
    before = losses(task, model, here)
    kept = here.memory.kept["train"]
    losses(task, model, here)
    assert here.memory.kept["train"] is kept
    states = task.exchanged.closed(here)
    here = task.exchanged.opened(here, None)
    assert not torch.equal(losses(task, model, here), before)
    here = task.exchanged.opened(here, states)
    assert torch.equal(losses(task, model, here), before)


def test_what_must_outlast_a_request_does():
    task, model, data = made()
    states = wire.unpack(wire.pack(task.exchanged.closed(data[2])))
    expected = losses(task, model, data[2], seed=3)
    again = set_up(task, small()[1])[2]
    assert not torch.equal(losses(task, model, again, seed=3), expected)
    opened = task.exchanged.opened(again, states)
    assert torch.equal(losses(task, model, opened, seed=3), expected)
    assert same(task.exchanged.closed(opened), states)
    assert not torch.equal(losses(task, model, again, seed=3), expected), "what is opened is another"


def test_relaying_a_layer_sends_all_that_others_need_of_it_and_of_no_other():
    experiment, shards = small(task__head="convolution")
    task = experiment.plan.task
    model = model_of(task)
    here = relayed(task, shards, model)[0]
    for layer in range(2):
        relayed_rows = task.exchanged.relay(model, here, layer)
        assert [len(each.slot) for each in relayed_rows] == [
            len(here.needed) * (number == layer) for number in range(2)
        ]


@pytest.mark.parametrize("hidden", [[6], [6, 5], [6, 5, 4]])
def test_a_score_goes_on_from_what_was_relayed_and_is_what_it_is_anew(hidden):
    experiment, shards = small(model__hidden=hidden)
    task = experiment.plan.task
    model, applied = model_of(task), []
    for number, convolution in enumerate(model.convolutions):
        convolution.register_forward_hook(lambda *_, number=number: applied.append(number))
    data = relayed(task, shards, model)
    scores = [task.evaluate(model, each) for each in data]
    assert sorted(applied) == sorted([*range(len(hidden))] * len(data)), "every layer is computed once"
    anew = [
        task.exchanged.opened(bare, task.exchanged.closed(each))
        for bare, each in zip(set_up(task, shards), data, strict=True)
    ]
    assert [task.evaluate(model, each) for each in anew] == scores
    assert sorted(applied) == sorted([*range(len(hidden))] * 2 * len(data))


def test_rows_of_nodes_that_are_not_in_the_halo_are_refused():
    task, _, data = made()
    here = data[0]
    with pytest.raises(WireError, match=f"a row of halo node {here.halo} where there are {here.halo}"):
        task.exchanged.receive(here, [HaloRows(np.array([here.halo]), np.zeros((1, 6), np.float32))])


@pytest.mark.parametrize("encoder", [SAGE(hidden=(6, 5)), GCN(hidden=(6, 5))])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_labels_of_held_out_nodes_are_seen_by_no_step_and_no_state(encoder, is_sparse):
    experiment, shards = small(data__sparse=is_sparse)
    task = replace(experiment.plan.task, encoder=encoder)
    blind = [replace(shard, label=np.where(shard.split > 0, (shard.label + 1) % 3, shard.label)) for shard in shards]
    model, trees, found = model_of(task).train(), [], []
    for each in (shards, blind):
        data = set_up(task, each)[0]
        found += [looked(task, model, data), losses(task, model, data, seed=4).numpy()]
        trees.append(task.exchanged.closed(data))
    assert np.array_equal(found[0], found[2])
    assert np.array_equal(found[1], found[3])
    assert same(*trees)
    assert task.publications.statistics(shards[0]).keys() == task.publications.statistics(blind[0]).keys()
    assert same(task.publications.statistics(shards[0]), task.publications.statistics(blind[0]))


@pytest.mark.parametrize("encoder", [SAGE(hidden=(6,)), GCN(hidden=(6,))])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_given_sums_of_neighbours_the_first_layer_is_that_of_the_whole_graph(encoder, is_sparse):
    experiment, shards = small("fedgcn", data__sparse=is_sparse)
    task = replace(experiment.plan.task, encoder=encoder, head="linear")
    assert task.inputs.aggregates
    model = model_of(task)
    data, graph = set_up(task, shards), task.prepare(merge_shards(shards), {})
    for split in SPLITS[1:]:
        parts = [task.evaluate(model, each)[split] for each in data]
        expected = task.evaluate(model, graph)[split]
        assert sum(part["correct"] for part in parts) == expected["correct"]
        assert sum(part["loss"] for part in parts) == pytest.approx(expected["loss"], rel=1e-4)


def test_a_profile_tells_the_shares_of_classes():
    shards = cut(whole(label=[0, 1, 2, 3, 4, 4], split=[0, 0, 0, 0, 1, 0], classes=5), np.zeros(6, int), ["all"])
    task = Node(SAGE()).fitted(shards)
    profile = task.describe(task.prepare(shards[0], {}))
    assert profile == {f"label_{k}": pytest.approx(0.2) for k in range(5)}


def test_logits_are_raised_by_the_log_shares_of_the_clients_classes_in_training_alone():
    task, model, (here, *_) = made(**PLAIN)
    raised = replace(task, objective=CrossEntropy(logit_adjustment=2.0))
    counts = np.bincount(here.label[here.rows["train"]], minlength=task.classes)
    counts = np.where(np.arange(task.classes) == 1, 0, counts)  # as if nobody were of class 1
    here.shares = ClassShares.of(counts)
    logs = np.log(np.where(counts, counts / counts.sum(), 1e-4))
    np.testing.assert_allclose(here.shares.logs, logs, rtol=1e-6)

    plain = here.logits(model, here.computed(here.rows["train"], (0,) * task.layers, False), False).detach()
    label = torch.from_numpy(here.label[here.rows["train"]])
    expected = torch.nn.functional.cross_entropy(plain + 2 * torch.from_numpy(logs), label, reduction="none")
    np.testing.assert_allclose(losses(raised, model, here), expected, rtol=1e-4)
    np.testing.assert_array_equal(looked(raised, model, here), looked(task, model, here))
    assert raised.evaluate(model, here) == task.evaluate(model, here)


def test_labels_are_spread_over_the_clients_classes_in_training_alone():
    task, model, (here, *_) = made(**PLAIN)
    smooth = replace(task, objective=CrossEntropy(label_smoothing=0.3))
    plain = here.logits(model, here.computed(here.rows["train"], (0,) * task.layers, False), False).detach()
    logs, label = plain.log_softmax(1).numpy(), here.label[here.rows["train"]]
    counts = np.bincount(label, minlength=task.classes)
    shares, here.shares = counts / len(label), ClassShares.of(counts)
    expected = -0.7 * logs[np.arange(len(label)), label] - 0.3 * logs @ shares
    np.testing.assert_allclose(losses(smooth, model, here), expected, rtol=1e-4)
    np.testing.assert_array_equal(looked(smooth, model, here), looked(task, model, here))
    assert smooth.evaluate(model, here) == task.evaluate(model, here)


def test_a_task_learns_of_the_data_what_its_model_must_know():
    experiment, shards = small(data__sparse=True)
    task = experiment.plan.task
    assert (task.features, task.classes, task.sparse) == (8, 3, True)
    assert task.fitted(shards) == task
    assert len(task.sums) == len(set(task.sums)) == 3 + 3 * 3 + 2 * 160
    with pytest.raises(InputError, match=r"task\.features = 9, but the data have 8\."):
        replace(task, features=9).fitted(shards)
    with pytest.raises(InputError, match=r"task\.classes = 4, but the data have 3\."):
        replace(task, classes=4).fitted(shards)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exchange.neighbours": -1}, r"exchange\.neighbours must be >= 0; got -1\."),
        ({"exchange.halo": -1}, r"exchange\.halo must be >= 0; got -1\."),
        ({"features": -1}, r"Node\.features must be >= 0; got -1\."),
        ({"classes": -2}, r"Node\.classes must be >= 0; got -2\."),
        (
            {"inputs.aggregates": True},
            r"inputs\.aggregates must be false where states are shared, or features are not; got",
        ),
        (
            {"inputs.aggregates": True, "exchange.states": False, "exchange.features": False},
            r"inputs\.aggregates must be false where",
        ),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        Node(SAGE(), **staged("node", options))
