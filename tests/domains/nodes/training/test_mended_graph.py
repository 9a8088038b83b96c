"""Generated neighbours: losses by hand, mended graphs by hand, who pulls whose embeddings."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fedgraft.contracts import Batch
from fedgraft.contracts.task import example_losses
from fedgraft.domains.nodes.base.features import FeatureRows
from fedgraft.domains.nodes.base.shards import cut
from fedgraft.domains.nodes.training.mended_graph import Mending, _joined, _nearest
from fedgraft.domains.nodes.training.neighbour_sampling import Reach
from fedgraft.domains.nodes.training.neighgen import WIDTHS
from fedgraft.errors import ClientError, InputError, WireError
from fedgraft.methods.exchanges.halo import Halo
from fedgraft.methods.inputs.propagated import Propagated
from fedgraft.methods.models.sage import SAGE
from fedgraft.methods.tasks.node import Node
from fedgraft.nn import flops
from helpers.node_runs import model_of, set_up, small, store_of
from helpers.stages import staged
from helpers.toy_nodes import whole

ALONE = {"exchange.features": False, "exchange.states": False}


def one(is_sparse=False, **options):
    """(task, model, data) of one client with the ring 0-1-2-3-4 and a node 5 without edges; features (v, 1)."""
    (shard,) = cut(whole(is_sparse=is_sparse), np.zeros(6, np.int64), ["here"])
    task = Node(SAGE(hidden=(4, 3)), **staged("node", {"generator": True, **ALONE, **options})).fitted([shard])
    model = model_of(task)
    with torch.no_grad():
        for parameter in [*model.generator.parameters(), *model.head.parameters()]:
            parameter.zero_()
    return task, model, task.exchanged.opened(task.prepare(shard, {}), None)


def tell(model, count, features):
    """Have the generator say the same of every node."""
    with torch.no_grad():
        model.generator.count.bias.fill_(count)
        model.generator.features.bias.copy_(torch.atanh(torch.tensor(features)).flatten())


def looked(task, model, data):
    with torch.no_grad():
        task.exchanged.look(model, data, 3, True)


def everything(nodes):
    return Reach([np.ones(nodes, bool)], (0,), True)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_losses_of_a_step_by_hand(is_sparse):
    task, model, data = one(is_sparse, generated=2, hidden=0.999999)
    tell(model, 1.25, [[0.5, 0.0], [0.0, 0.5]])
    # All nodes but 0, 2 and 5 are hidden. 0 lacks 1 and 4, 2 lacks 1 and 3, 5 lacks nobody.
    #   count    huber(1.25 - 2) = 0.75^2 / 2, twice, and huber(1.25 - 0) = 1.25 - 1/2
    #   features of 0: to (1, 1) from (.5, 0) 1.25, from (0, .5) 1.25, and (4, 1) is further
    #            of 2: the same, for (1, 1) is the nearer of (1, 1) and (3, 1)
    #   class    all logits are 0, so log 2
    losses = example_losses(task.loss(model, data, Batch(np.array([0, 2, 5]), seed=3), None))
    assert losses.tolist() == pytest.approx([math.log(2) + 0.28125 + 1.25] * 2 + [math.log(2) + 0.75], abs=1e-5)


def test_a_generator_that_diverged_says_so():
    task, model, data = one(generated=2)
    tell(model, math.nan, [[0.5, 0.0], [0.0, 0.5]])
    with pytest.raises(ClientError, match="training diverged: the generator's counts of neighbours are not finite"):
        example_losses(task.loss(model, data, Batch(np.array([0, 2, 5]), seed=3), None))
    tell(model, math.inf, [[0.5, 0.0], [0.0, 0.5]])
    example_losses(task.loss(model, data, Batch(np.array([0, 2, 5]), seed=3), None))  # as many as there may be


def test_what_is_generated_for_others_nodes_is_held_against_the_nearest_own_ones():
    task, model, data = one(generated=2, hidden=1e-9)
    tell(model, 0.0, [[0.5, 0.0], [0.0, 0.5]])
    without = example_losses(task.loss(model, data, Batch(np.arange(6), seed=3), None))
    assert without.tolist() == pytest.approx([math.log(2)] * 6)
    data.states = type(data.states)(6, 3, task.exchanged.halo_widths)
    data.states.known[0][6 + 1] = True
    # Of two neighbours, (.5, 0) and (0, .5); nearest are (0, 1) or (1, 1) at 1.25, and (0, 1) at 0.25.
    losses = example_losses(task.loss(model, data, Batch(np.arange(6), seed=3), None))
    assert losses.tolist() == pytest.approx([math.log(2) + 0.75] * 6)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_mended_part_by_hand(is_sparse):
    task, model, data = one(is_sparse, generated=3)
    tell(model, 2.4, [[0.5, 0.25], [-0.5, 0.0], [0.9, 0.9]])
    mended = data.mended(model, task.exchanged.set_up)
    assert mended.own == 6 + 2 * 6, "2.4 is two"
    rows = mended.features.rows(np.arange(18))
    rows = (rows.matrix.tensor.to_dense() if is_sparse else rows).numpy()
    np.testing.assert_array_equal(rows[:6], [[v, 1] for v in range(6)])
    np.testing.assert_allclose(rows[6:], [[0.5, 0.25], [-0.5, 0.0]] * 6, atol=1e-6)
    (hop,) = mended.around.around(np.arange(18), 1, everything(18))
    edges = hop.block.matrix @ torch.eye(18)
    ring = np.zeros((18, 18))
    for v in range(5):
        ring[v, (v + 1) % 5] = ring[(v + 1) % 5, v] = 1
    for v in range(6):
        ring[v, [6 + 2 * v, 7 + 2 * v]] = ring[[6 + 2 * v, 7 + 2 * v], v] = 1
    np.testing.assert_array_equal(edges.numpy(), ring)
    assert (mended.label[6:] == -1).all()


def test_a_frozen_generator_is_compared_once_for_each_model_that_is_loaded():
    task, model, data = one()
    tell(model, 1.0, np.zeros((5, 2)).tolist())
    model.generator.frozen.fill_(1)
    mended = data.mended(model, task.exchanged.set_up)
    with torch.no_grad():
        model.generator.count.bias += 1
    assert data.mended(model, task.exchanged.set_up) is mended
    again = task.exchanged.opened(data, task.exchanged.closed(data))
    assert again.mended(model, task.exchanged.set_up).own == mended.own + 6


def test_a_part_is_mended_anew_only_for_another_generator():
    task, model, data = one()
    tell(model, 1.0, np.zeros((5, 2)).tolist())
    mended = data.mended(model, task.exchanged.set_up)
    assert data.mended(model, task.exchanged.set_up) is mended
    with torch.no_grad():
        model.head.weight += 1
    assert data.mended(model, task.exchanged.set_up) is mended
    with torch.no_grad():
        model.generator.count.bias += 1
    assert data.mended(model, task.exchanged.set_up).own == mended.own + 6
    other = model_of(task)
    other.load_state_dict(model.state_dict())
    assert data.mended(other, task.exchanged.set_up) is not mended
    with torch.no_grad():
        assert task.evaluate(other, data) == task.evaluate(model, data), "noise is the same whenever it is drawn"


def test_a_generator_that_makes_nothing_and_hides_nothing_leaves_plain_graphsage():
    (shard,) = cut(whole(), np.zeros(6, np.int64), ["here"])
    plain = Node(SAGE(hidden=(4, 3)), **staged("node", ALONE)).fitted([shard])
    task, model, data = one(hidden=1e-9)
    with torch.no_grad():
        model.head.weight.normal_(generator=torch.Generator().manual_seed(2))
    expected = example_losses(plain.loss(model, plain.prepare(shard, {}), Batch(np.arange(6)), None))
    torch.testing.assert_close(example_losses(task.loss(model, data, Batch(np.arange(6)), None)), expected)
    with torch.no_grad():
        model.generator.frozen.fill_(1)
        tell(model, 0.0, np.full((5, 2), 0.3).tolist())
        torch.testing.assert_close(example_losses(task.loss(model, data, Batch(np.arange(6)), None)), expected)
        assert task.evaluate(model, data) == plain.evaluate(model, plain.prepare(shard, {}))


def test_as_long_as_it_learns_every_parameter_has_a_gradient_and_afterwards_the_classifiers_alone():
    experiment, shards = small("fedsage_plus", data__degree=20.0)
    task = experiment.plan.task
    model, data = model_of(task), set_up(task, shards)[0]
    with torch.no_grad():
        model.generator.count.bias.fill_(1.0)
    data.states.known[0][data.states.own :] = True
    example_losses(task.loss(model, data, Batch(np.arange(task.examples(data)), seed=5), None)).mean().backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in model.parameters())
    model.zero_grad()
    model.generator.frozen.fill_(1)
    example_losses(task.loss(model, data, Batch(np.arange(task.examples(data)), seed=5), None)).mean().backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is None) == name.startswith("generator."), name


def test_equal_seeds_hide_and_draw_alike():
    experiment, shards = small("fedsage_plus")
    task = experiment.plan.task
    model, data = model_of(task), set_up(task, shards)[0]
    before = torch.get_rng_state()
    first, again, other = (
        example_losses(task.loss(model, data, Batch(np.arange(5), seed=seed), None)).tolist() for seed in (1, 1, 2)
    )
    assert first == again != other
    assert torch.equal(before, torch.get_rng_state()), "nothing global is drawn from"


@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_nearest_by_hand(is_sparse):
    made = torch.tensor([[[0.0, 0.0], [1.0, 1.0]], [[2.0, 0.0], [2.0, 1.0]]])
    rows = np.array([[0, 1], [2, 1]], np.float32)
    held = FeatureRows(sparse.csr_matrix(rows) if is_sparse else rows, rows[:0]).rows(np.arange(2))
    squares = torch.tensor([1.0, 5.0])
    # (0, 0): 1 and 5; (1, 1): 1 and 1. (2, 0): 5 and 1; (2, 1): 4 and 0.
    assert _nearest(made, held, squares).tolist() == pytest.approx([1.0, 0.5])
    pairs = np.array([[True, True], [True, False]])
    assert _nearest(made, held, squares, pairs).tolist() == pytest.approx([1.0, 4.5])


# --- whose embeddings -------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(1, 30))
def test_clients_are_told_of_others_nodes_and_together_of_nearly_all(sizes, elsewhere):
    mending = Mending(5, 0.5, elsewhere)
    published = {3 * c: {"offered": np.array([min(n, elsewhere)], np.uint32)} for c, n in enumerate(sizes)}
    halos, combined = mending.halos(published), mending.combine(published)
    total = sum(count for count, _ in halos.values())
    for client, (count, halo) in halos.items():
        assert len(halo.owner) == min(elsewhere, total - count) == combined[client]["told"][0]
        assert client not in halo.owner
        assert all(place < halos[owner][0] for owner, place in zip(*(each.tolist() for each in halo), strict=True))
        assert (np.diff(halo.owner << 32 | halo.place) > 0).all(), "in order, each once"
        asked = [h.place[h.owner == client] for _, h in halos.values()]
        needed = np.flatnonzero(np.unpackbits(combined[client]["needed"], count=count))
        np.testing.assert_array_equal(needed, np.unique(np.concatenate(asked)))


def test_a_server_cannot_make_a_client_hold_room_for_more_than_it_pulls():
    experiment, shards = small("fedsage_plus", task__elsewhere=4)
    task = experiment.plan.task
    shared = {"needed": np.zeros(1, np.uint8), "told": np.array([2**30], np.uint32)}
    with pytest.raises(WireError, match="1073741824 nodes of others to pull where at most 4 can be"):
        task.prepare(shards[0], shared)


def test_embeddings_of_the_needed_nodes_are_pushed_once_a_round_as_long_as_the_generator_learns():
    experiment, shards = small("fedsage_plus", task__elsewhere=4)
    task = experiment.plan.task
    assert task.exchanged.halo_widths == WIDTHS[-1:]
    model, data, store = model_of(task), set_up(task, shards), store_of(task, shards)
    state = store.start()
    for client, each in enumerate(data):
        looked(task, model, each)
        (rows,) = pushed = task.exchanged.changed(each)
        np.testing.assert_array_equal(rows.slot, each.needed)
        store.publish(state, client, pushed)
        assert [len(rows.slot) for rows in task.exchanged.changed(each)] == [0]
    task.exchanged.receive(data[0], store.pull(state, 0))
    assert data[0].states.known[0][data[0].states.own :].sum() == 4
    model.generator.frozen.fill_(1)
    looked(task, model, data[0])
    assert [len(rows.slot) for rows in task.exchanged.changed(data[0])] == [0]
    assert task.exchanged.relay(model, data[0], 0) == [], "a score needs nobody's embeddings"


def test_a_step_asks_for_no_more_embeddings_than_it_has_nodes():
    experiment, shards = small("fedsage_plus", task__elsewhere=4)
    task = experiment.plan.task
    data = set_up(task, shards)[0]
    (three,) = task.exchanged.read(data, Batch(np.arange(3)))
    assert len(three) == 3
    assert set(three.tolist()) < {0, 1, 2, 3}
    (ahead,) = task.exchanged.read(data, Batch(np.arange(3), ahead=np.arange(9)))
    assert ahead.tolist() == [0, 1, 2, 3]


def test_with_nodes_of_nobody_nothing_is_pushed():
    experiment, shards = small("fedsage_plus", task__elsewhere=0)
    task = experiment.plan.task
    model, data = model_of(task), set_up(task, shards)[0]
    looked(task, model, data)
    assert [len(rows.slot) for rows in task.exchanged.changed(data)] == [0]
    assert example_losses(task.loss(model, data, Batch(np.arange(3)), None)).shape == (3,)


def test_more_than_a_client_can_offer_is_refused():
    with pytest.raises(WireError, match="65 nodes offered where at most 64 can be"):
        Mending(5, 0.5, 64).check({"offered": np.array([65], np.uint32)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"generator": True},
            r"Node\.generator must be false where features or states are shared; got True",
        ),
        ({"generator": True, "exchange.states": False, "inputs.aggregates": True}, r"Node\.generator must be false"),
        ({"generated": 0}, r"Node\.generated must be >= 1; got 0\."),
        ({"hidden": 0.0}, r"Node\.hidden must be in \(0, 1\); got 0\.0\."),
        ({"hidden": 1.0}, r"Node\.hidden must be in \(0, 1\); got 1\.0\."),
        ({"elsewhere": -1}, r"Node\.elsewhere must be >= 0; got -1\."),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Node(SAGE(), **staged("node", options))


def test_a_generator_is_offered_where_nothing_else_is_shared():
    assert (
        Node(SAGE()).offers
        == Node(SAGE(), inputs=Propagated(aggregates=True), exchange=Halo(states=False)).offers
        == {"mask"}
    )
    alone = Node(SAGE(), **staged("node", ALONE))
    assert alone.offers == {"generator", "mask", "refinement"}
    assert alone.with_parts(frozenset({"generator"})) == replace(alone, generator=True)
    assert alone.with_parts(frozenset()) == alone


def test_joined_nodes_stand_behind_the_own_ones():
    around = _joined(np.array([0, 1]), np.array([1, 0]), 2, np.array([1, 1]))
    (hop,) = around.around(np.arange(4), 1, everything(4))
    expected = [[0, 1, 0, 0], [1, 0, 1, 1], [0, 1, 0, 0], [0, 1, 0, 0]]
    assert (hop.block.matrix @ torch.eye(4)).tolist() == expected


@pytest.mark.parametrize("frozen", [False, True])
def test_a_look_whose_losses_nobody_wants_only_notes_embeddings(frozen):
    task, model, data = one(generated=2)
    tell(model, 1.25, [[0.5, 0.0], [0.0, 0.5]])
    model.generator.frozen.fill_(frozen)
    with torch.no_grad(), flops.Meter() as wanted:
        assert len(task.exchanged.look(model, data, 3, losses=True)) == 6
    with torch.no_grad(), flops.Meter() as unwanted:
        assert len(task.exchanged.look(model, data, 3, losses=False)) == 0
    mended = data.part.mended[2]
    assert mended > 0
    # Only once the generator is frozen do steps read the mended part: it is charged then, as if it were made anew.
    assert unwanted.flops == (mended if frozen else 0) < wanted.flops
