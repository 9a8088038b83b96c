"""Typed node: what it is fitted to, what a step sees, what the model makes of examples, answers for new nodes."""

import numpy as np
import pandas as pd
import pytest
import torch

from fedgraft.contracts import Batch
from fedgraft.errors import InputError
from fedgraft.methods.models.han import HAN
from fedgraft.methods.models.metapath_means import MetapathMeans
from fedgraft.methods.tasks.typed_node import TypedNode
from helpers.stages import staged
from helpers.typed_graphs import typed_graph

EDGES = {
    ("paper", "author"): [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)],
    ("paper", "venue"): [(k, k % 2) for k in range(5)],
}
GRAPH = typed_graph(EDGES, label=[0, 1, 0, 1, -1], split=[0, 0, 1, 2, -1])
SMALL = HAN(hidden=8, heads=2)


def fitted(encoder=SMALL, graph=GRAPH, **options):
    return TypedNode(encoder, **staged("typed_node", options)).fitted([graph])


def drawn(task, seed=1):
    return task.model(torch.Generator().manual_seed(seed)).eval()


def test_it_is_fitted_to_features_classes_and_the_shortest_metapaths():
    task = fitted()
    assert (task.features, task.classes, task.class_names) == (5, 2, ("a", "b"))
    assert task.metapaths == ("paper-author-paper", "paper-venue-paper")
    assert task.fitted([GRAPH]) == task


def test_a_metapath_that_there_is_not_is_refused():
    with pytest.raises(InputError, match=r"TypedNode\.metapaths, 'paper-term-paper': No node type .* There are, for"):
        fitted(metapaths=("paper-term-paper",))
    with pytest.raises(InputError, match=r"TypedNode\.metapaths names 'paper' twice"):
        TypedNode(SMALL, metapaths=("paper", "paper"))


def test_what_nodes_of_several_types_cannot_have_is_refused_with_the_reason():
    with pytest.raises(InputError, match=r"answers\.share_labels must be false .*: no row leaves a client; got True"):
        fitted(**{"answers.smoothing": 1, "answers.share_labels": True})
    for inputs in ({"inputs.aggregates": True}, {"inputs.propagate": 1, "inputs.hop_pooling": "attention"}):
        with pytest.raises(
            InputError, match=r"without attention and aggregates .*: one vector cannot weigh the hops of"
        ):
            fitted(**inputs)


def test_a_layer_is_fitted_behind_embeddings_and_what_it_lacks_to_own_labels():
    task = fitted(**{"answers.smoothing": 1, "answers.refit": "hidden", "answers.local_fit": True})
    data, model, better = task.prepare(GRAPH, {}), drawn(task), task.smoothed
    with torch.no_grad():
        answers = better.answers(model, data)
        hidden = model.represent(data.features, data.graphs).numpy()
    np.testing.assert_allclose(answers[:, 2:], hidden / (4 + abs(hidden)), rtol=1e-6)
    layer = better.hop_layer([better.hop_sums(data, answers, [])])
    assert layer["weight"].shape == (2, 2 * (1 + 8))
    shares = better.ways.answered(better.answered(data), answers, [], layer, better.choices - 1)
    assert "a fit to the client's own labels" in better.choice_text(better.choices - 1)
    assert shares[:2].argmax(1).tolist() == GRAPH.label[:2].tolist()


def test_a_loss_is_a_cross_entropy_and_comes_with_its_embedding():
    task = fitted()
    data, model = task.prepare(GRAPH, {}), drawn(task)
    found = task.loss(model, data, Batch(np.array([1])), None)
    logits = model(data.features, data.graphs)
    torch.testing.assert_close(
        found.each, torch.nn.functional.cross_entropy(logits[[1]], torch.tensor([1]), reduction="none")
    )
    assert found.hidden.shape == (1, 8)
    torch.testing.assert_close(model.classify(found.hidden), logits[[1]])


def test_what_the_model_makes_of_training_nodes():
    task = fitted()
    data, model = task.prepare(GRAPH, {}), drawn(task)
    with torch.no_grad():
        seen = task.observe(model, data)
    assert seen.probabilities.sum(1) == pytest.approx([1, 1])
    assert seen.losses == pytest.approx(-np.log(seen.probabilities[[0, 1], [0, 1]]), rel=1e-5)
    assert seen.correct.tolist() == (seen.probabilities.argmax(1) == [0, 1]).tolist()
    assert seen.hidden.shape == (2, task.hidden_width)
    assert (seen.centrality > 0).all()


def test_a_node_s_answer_depends_on_those_that_metapaths_join_to_it():
    task = fitted(metapaths=("paper-author-paper",))
    model = drawn(task)
    moved = typed_graph(EDGES, features=np.eye(5) * [[1], [9], [1], [1], [1]], label=GRAPH.label, split=GRAPH.split)
    with torch.no_grad():
        before, after = (
            model(data.features, data.graphs) for data in (task.prepare(each, {}) for each in (GRAPH, moved))
        )
    changed = (before != after).any(1).tolist()
    assert changed[:2] == [True, True], "papers 0 and 1 share an author"


def test_metapath_means_by_hand():
    encoder = MetapathMeans(hidden=1, layers=1)
    task = fitted(
        encoder,
        typed_graph(EDGES, features=[[1], [2], [3], [4], [5]], label=GRAPH.label),
        metapaths=("paper-author-paper",),
    )
    data, model = (
        task.prepare(typed_graph(EDGES, features=[[1], [2], [3], [4], [5]], label=GRAPH.label), {}),
        drawn(task),
    )
    with torch.no_grad():
        model.encoder.own.weight.fill_(1.0)
        model.encoder.own.bias.fill_(0.5)
        model.encoder.means[0].weight.fill_(10.0)
        found = model.represent(data.features, data.graphs)
    # own + 0.5 + 10 times the mean of the others with the same author; nobody shares paper 4's
    assert found[:, 0].tolist() == [21.5, 12.5, 43.5, 34.5, 5.5]


@pytest.mark.parametrize(
    "task",
    [
        fitted(MetapathMeans(hidden=4), metapaths=("paper",)),
        fitted(MetapathMeans(hidden=4, edges=False), metapaths=("paper-author-paper",)),
        fitted(metapaths=("paper",)),
    ],
    ids=["means", "no means", "han"],
)
def test_the_target_type_alone_sees_no_edges(task):
    without = typed_graph({("paper", "author"): [(4, 0)]}, features=np.eye(5), label=GRAPH.label, split=GRAPH.split)
    model = drawn(task)
    with torch.no_grad():
        logits = [model(data.features, data.graphs) for data in (task.prepare(each, {}) for each in (GRAPH, without))]
    torch.testing.assert_close(*logits)


def test_shares_of_labels_are_told():
    task = fitted()
    assert task.describe(task.prepare(GRAPH, {}))["label_0"] == 0.5


def test_all_clients_graphs_are_put_together():
    other = typed_graph(EDGES, label=GRAPH.label, split=GRAPH.split, name="other")
    with pytest.raises(InputError, match="is at two clients"):
        fitted().pooled([GRAPH, other])
    apart = [
        GRAPH.induced("one", {"paper": np.array([0, 1]), "author": np.array([0]), "venue": np.array([0, 1])}),
        GRAPH.induced("two", {"paper": np.array([2, 3, 4]), "author": np.array([1, 2]), "venue": np.array([0, 1])}),
    ]
    whole = fitted().pooled(apart)
    assert whole.targets == 5
    assert len(whole.ids["venue"]) == 2
    assert whole.edges["paper", "venue"].shape == (2, 5)


def test_new_nodes_are_answered_for_from_their_edges():
    task = fitted()
    nodes = pd.DataFrame([{"node": "p0"}, {"node": "new", **{str(k): float(k == 1) for k in range(5)}}])
    edges = pd.DataFrame([{"source_type": "paper", "source": "new", "target_type": "author", "target": "a0"}])
    asked = task.questions([GRAPH], {"nodes": nodes, "edges": edges})[0]
    found = task.predict(drawn(task), GRAPH, {}, asked.asked)
    assert found["node"].tolist() == ["p0", "new"]
    assert set(found["class"]) <= {"a", "b"}
    assert ((found["probability"] >= 0.5) & (found["probability"] <= 1)).all()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"exchange.neighbours": -1}, r"exchange\.neighbours must be >= 0"),
        ({"features": 7}, r"task\.features = 7, but the data have 5"),
    ],
)
def test_impossible_options_are_refused(options, text):
    with pytest.raises(InputError, match=text):
        fitted(**options)
