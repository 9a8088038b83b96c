"""Graph: what its model is made of, what stays at the client, what a class is told from."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from fedgraft.contracts import Batch
from fedgraft.domains.graphs.model import Variant
from fedgraft.errors import InputError
from fedgraft.methods.data.molecules import Molecules
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.models.gin import GIN
from fedgraft.methods.models.mlp import MLP
from fedgraft.methods.models.sage import SAGE
from fedgraft.methods.tasks.graph import Graph
from fedgraft.nn.flat_model import FlatModel
from helpers.toy_graphs import PATH, STAR, TRIANGLE, shard

FOUR = shard(
    [TRIANGLE, PATH, STAR, [], TRIANGLE, PATH],
    [3, 3, 4, 2, 3, 3],
    [0, 1, 1, 0, 0, 1],
    split=[0, 0, 0, 0, 1, 2],
    kind=[0, 1, 0, 1, 1, 1, 0, 0, 0, 1, -1, 1, 0, 1, 0, 1, 1, 1],
    kinds=2,
    attributes=[[float(k)] for k in range(18)],
)


def drawn(task, data, seed=1):
    return task.model(torch.Generator().manual_seed(seed), task.variant(data)).eval()


def test_a_client_s_own_parameters_have_its_own_shapes():
    task = Graph(GIN(hidden=8))
    shapes = [
        {name: array.shape for name, array in FlatModel(task.model(torch.Generator(), variant)).initial.items()}
        for variant in (Variant(2, 1, 2), Variant(30, 0, 6))
    ]
    differ = {name for name in shapes[0] if shapes[0][name] != shapes[1][name]}
    assert differ == {"inputs.kind", "inputs.attributes", "head.outer.weight", "head.outer.bias"}
    assert all(task.personal(name) for name in differ)


def test_what_travels_are_the_convolutions():
    names = FlatModel(Graph(GIN(hidden=8)).model(torch.Generator())).initial
    shared = [name for name in names if not Graph(GIN()).personal(name)]
    assert shared == [
        f"convolutions.{n}.{part}.{w}" for n in (0, 1) for part in ("inner", "outer") for w in ("weight", "bias")
    ]


def test_the_first_layer_by_hand():
    """One-hot columns are looked up, attributes multiplied, and a node of no kind has a row of its own."""
    task = Graph(GIN(hidden=1))
    data = task.prepare(FOUR, {})
    model = drawn(task, data)
    with torch.no_grad():
        model.inputs.kind.copy_(torch.tensor([[1.0], [10.0], [100.0]]))
        model.inputs.attributes.fill_(2.0)
        batch = data.collator.batch(np.array([3, 0]))
        states = model.inputs(batch)
        assert sorted(states[:, 0].tolist()) == sorted([100 + 20, 10 + 22, 1, 10 + 2, 1 + 4])


def test_what_is_read_off_are_sums_of_every_layer():
    task = Graph(GIN(hidden=4), normalise="nothing")
    data = task.prepare(FOUR, {})
    model = drawn(task, data)
    with torch.no_grad():
        read = model.read(data.collator.batch(np.array([0, 3])))
        assert read.shape == (2, 3 * 4)
        states = model.inputs(data.collator.batch(np.array([3])))
        torch.testing.assert_close(read[1, :4], states.sum(0))


@pytest.mark.parametrize("encoder", [GIN(hidden=8), SAGE(hidden=8), GCN(hidden=8, embedding=8, layers=2)])
@pytest.mark.parametrize("structure", [False, True])
def test_a_graph_s_class_does_not_depend_on_what_else_is_in_the_batch(encoder, structure):
    task = Graph(encoder, structure=structure)
    data = task.prepare(FOUR, {})
    model = drawn(task, data)
    with torch.no_grad():
        together = model(data.collator.batch(np.arange(6)))
        apart = torch.cat([model(data.collator.batch(np.array([graph]))) for graph in range(6)])
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-5)


def test_the_first_layer_may_see_places_beside_features():
    task = Graph(GIN(hidden=4), places=True, walks=2, degrees=1)
    data = task.prepare(FOUR, {})
    assert data.variant.attributes == FOUR.attributes.shape[1] + 3
    batch = data.collator.batch(np.arange(6))
    assert batch.attributes.shape[1] == data.variant.attributes
    assert batch.structure.shape[1] == 0
    assert drawn(task, data)(batch).shape == (6, 2)
    both = dataclasses.replace(task, structure=True).prepare(FOUR, {}).collator.batch(np.arange(6))
    assert torch.equal(both.attributes[:, -3:], both.structure)


def test_the_channel_of_structure_sees_no_feature():
    task = Graph(GIN(hidden=8), structure=True)
    other = dataclasses.replace(FOUR, kind=1 - np.abs(FOUR.kind), attributes=FOUR.attributes * 3)
    batches = [task.prepare(each, {}).collator.batch(np.arange(6)) for each in (FOUR, other)]
    model = drawn(task, task.prepare(FOUR, {}))
    with torch.no_grad():
        states = [model.structure.step(0, model.structure.start(batch), batch.layers[0].block) for batch in batches]
    read = [batch.layers[0].counts @ state for batch, state in zip(batches, states, strict=True)]
    torch.testing.assert_close(read[0], read[1])


def test_counts_of_subtrees_begin_without_a_say_and_draw_nothing():
    """The network starts as without them; a head of its own that knows nothing yet halves how sure the answer is."""
    plain, counted = Graph(GIN(hidden=8)), Graph(GIN(hidden=8), wl=2, wl_width=32)
    found = [drawn(task, task.prepare(FOUR, {})) for task in (plain, counted)]
    own = FlatModel(found[1]).initial
    assert {name for name in own if name not in FlatModel(found[0]).initial} == {
        "subtrees.layer.weight",
        "subtrees.layer.bias",
    }
    assert all(np.array_equal(own[name], array) for name, array in FlatModel(found[0]).initial.items())
    with torch.no_grad():
        batches = [task.prepare(FOUR, {}).collator.batch(np.arange(6)) for task in (plain, counted)]
        before, after = (model(batch).softmax(1) for model, batch in zip(found, batches, strict=True))
    torch.testing.assert_close(after, (before + 0.5) / 2)


def test_heads_that_answer_for_themselves_learn_for_themselves():
    """The loss is the sum of both; what counts are worth is the network's answer, by hand."""
    task = Graph(GIN(hidden=8), wl=1, wl_width=16, wl_scale=3.0)
    data = task.prepare(FOUR, {})
    model = drawn(task, data)
    batch = data.collator.batch(np.arange(4))
    dense = batch.subtrees @ torch.eye(16)
    torch.testing.assert_close(dense.square().sum(1), torch.ones(4))
    with torch.no_grad():
        model.subtrees.layer.weight.normal_()
        hidden = model.represent(batch)
        network, counts = model.head.classify(hidden), 3.0 * dense @ model.subtrees.layer.weight
        torch.testing.assert_close(model(batch).softmax(1), (network.softmax(1) + counts.softmax(1)) / 2)
        expected = sum(
            torch.nn.functional.cross_entropy(each, batch.label, reduction="none") for each in (network, counts)
        )
        torch.testing.assert_close(task.loss(model, data, Batch(np.arange(4)), None).each, expected)


@pytest.mark.parametrize("shared", [False, True])
def test_what_reads_counts_travels_if_it_is_shared(shared):
    task = Graph(MLP(hidden=()), wl=1, wl_width=16, wl_shared=shared, class_names=("a", "b"))
    layouts = [
        {name: array.shape for name, array in FlatModel(task.model(torch.Generator(), variant)).initial.items()}
        for variant in (None, Variant(2, 1, 2), Variant(30, 0, 6))
    ]
    travels = [{name: shape for name, shape in each.items() if not task.personal(name)} for each in layouts]
    assert travels[0] == travels[1] == travels[2]
    assert travels[0].get("subtrees.layer.weight") == ((16, 2) if shared else None)


def test_test_graphs_are_in_nothing_that_training_sees():
    task, g = Graph(GIN(hidden=8), wl=1), np.random.default_rng(0)
    other = dataclasses.replace(FOUR, attributes=FOUR.attributes.copy(), label=FOUR.label.copy())
    held_out = np.repeat(FOUR.split != 0, FOUR.sizes)
    other.attributes[held_out] = g.standard_normal((int(held_out.sum()), 1))
    other.label[FOUR.split != 0] = 1 - other.label[FOUR.split != 0]
    losses = []
    for each in (FOUR, other):
        data = task.prepare(each, {})
        model = task.model(torch.Generator().manual_seed(1), task.variant(data)).train()
        loss = task.loss(model, data, Batch(np.arange(4)), None).each
        loss.sum().backward()
        losses.append([loss.detach(), *(p.grad for p in model.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*losses, strict=True))


def test_accuracy_and_ties():
    task = Graph(GIN())
    sums = {"correct": 3.0, "count": 4.0, "loss": 2.0}
    assert task.score(sums) == 0.75
    assert task.selection_metric(sums) > task.selection_metric({**sums, "loss": 3.0})
    assert task.selection_metric({"correct": 3.0, "count": 4.0, "loss": 1e9}) > task.selection_metric(
        {**sums, "correct": 2.0, "loss": 0.0}
    )


def test_large_held_out_splits_come_in_several_batches(monkeypatch):
    task = Graph(GIN(hidden=8))
    whole = task.prepare(Molecules(clients=1, graphs=60).load(1)[0], {})
    model = drawn(task, whole)
    monkeypatch.setattr("fedgraft.domains.graphs.graph_task.MOST_NODES", 50)
    parts = task.prepare(Molecules(clients=1, graphs=60).load(1)[0], {})
    assert len(parts.held_out["test"]) > 1
    with torch.no_grad():
        one, many = task.evaluate(model, whole), task.evaluate(model, parts)
    assert one["test"]["correct"] == many["test"]["correct"]
    assert one["test"]["loss"] == pytest.approx(many["test"]["loss"], rel=1e-5)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"normalise": "layer"}, "Graph.normalise"),
        ({"walks": 0}, r"Graph\.walks must be >= 1; got 0"),
        ({"degrees": 0}, r"Graph\.degrees must be >= 1; got 0"),
        ({"wl": -1}, r"Graph\.wl must be >= 0; got -1"),
        ({"wl_width": 0}, r"Graph\.wl_width must be >= 1; got 0"),
        ({"wl_scale": 0.0}, r"Graph\.wl_scale must be > 0; got 0"),
        ({"wl": 1, "wl_shared": True}, r"Graph\.wl_shared must be false unless model\.hidden is \[\]"),
    ],
)
def test_impossible_options_are_refused(options, reason):
    with pytest.raises(InputError, match=reason):
        Graph(GIN(), **options)


NODES = pd.DataFrame({"graph": ["a"] * 3 + ["b"] * 2, "node": [0, 1, 2, 0, 1]})
EDGES = pd.DataFrame({"graph": ["a", "a", "a", "b"], "source": [0, 1, 2, 0], "target": [1, 2, 0, 1]})


def plain(name="here"):
    """A client whose nodes have nothing but a degree."""
    only = shard([TRIANGLE, PATH, STAR], [3, 3, 4], [0, 1, 1], split=[0, 1, 2], name=name)
    degree = np.array([2, 2, 2, 1, 2, 1, 3, 1, 1, 1], np.int32)
    return dataclasses.replace(only, kind=degree, kinds=4, degrees=True, kind_names=tuple("0123"))


def test_questions_are_graphs_in_tables():
    task = Graph(GIN(hidden=8))
    questions = task.questions([plain()], {"nodes": NODES, "edges": EDGES})
    assert questions.keys() == {0}
    asked = questions[0].asked
    assert asked.sizes.tolist() == [3, 2]
    assert asked.kind.tolist() == [2, 2, 2, 1, 1]
    model = drawn(task, task.prepare(plain(), {}))
    found = task.predict(model, plain(), {}, asked)
    assert found["graph"].tolist() == ["a", "b"]
    assert set(found["class"]) <= {"class 0", "class 1"}
    assert ((found["probability"] >= 0.5) & (found["probability"] <= 1)).all()


def test_a_column_says_whose_graphs_they_are():
    shards = [plain("here"), plain("there")]
    tables = {
        "nodes": NODES,
        "edges": EDGES,
        "graphs": pd.DataFrame({"graph": ["b", "a"], "client": ["here", "there"]}),
    }
    questions = Graph(GIN()).questions(shards, tables)
    assert {number: (q.rows.tolist(), q.asked.ids.tolist()) for number, q in questions.items()} == {
        0: ([0], ["b"]),
        1: ([1], ["a"]),
    }


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ({"nodes": NODES}, "a table of edges is needed"),
        ({"nodes": NODES.drop(columns="graph"), "edges": EDGES}, "predict.nodes: no column 'graph'"),
        ({"nodes": NODES, "edges": EDGES}, "whose graphs are these.*here, there"),
        ({"nodes": NODES.assign(client="nowhere"), "edges": EDGES}, "No client named 'nowhere'"),
    ],
)
def test_questions_that_cannot_be_answered(tables, reason):
    with pytest.raises(InputError, match=reason):
        Graph(GIN()).questions([plain("here"), plain("there")], tables)
