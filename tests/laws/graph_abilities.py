"""Laws of tasks that show all of a client's nodes and their edges to a method."""

import numpy as np
import torch

from fedgraft.contracts.abilities.graphs import GraphNetworkTask, LocalGraphTask, StructuredTask
from fedgraft.contracts.abilities.tasks import HaloTask, PooledTask
from fedgraft.contracts.structure import Augmentation
from fedgraft.testing.laws import Laws, expect
from fedgraft.testing.tasks import TaskCase, opened

LAWS: Laws[TaskCase] = Laws()


@LAWS.having(StructuredTask)
def all_nodes_are_seen_as_training_examples_are(case: TaskCase) -> None:
    """Tell of all nodes what is told of training examples among them, and edges in both directions."""
    task = case.task
    able = case.able(StructuredTask)
    for client in range(len(case.shards)):
        data = case.prepared(client)
        model = case.drawn(data)
        examples, edges = able.edges(data)
        with torch.no_grad():
            states, seen = able.states(model, data).numpy(), able.observe(model, data)
        expect(states.shape[1:] == (able.hidden_width,), "states must be of the width", states.shape)
        expect(len(examples) == task.examples(data), "one node for each training example", len(examples))
        halo = task.ability(HaloTask)
        remembers = halo and halo.halo_widths  # of neighbours, what was true before
        near = remembers or np.allclose(states[examples], seen.hidden, rtol=1e-4, atol=1e-5)
        expect(near, "training examples must be seen alike", states[examples], seen.hidden)
        expect(((edges >= 0) & (edges < len(states))).all(), "edges must be between nodes", edges)
        pairs = {*map(tuple, edges.T.tolist())}
        expect(pairs == {(end, begin) for begin, end in pairs}, "edges must be in both directions", edges)


@LAWS.having(StructuredTask)
def a_view_is_drawn_from_its_seed_and_leaves_the_graph_as_it_is(case: TaskCase) -> None:
    """Leave out the same of equal seeds, of nodes none, and of the graph nothing for good."""
    data, half = case.prepared(), Augmentation(0.5, 0.5)
    able = case.able(StructuredTask)
    model = case.drawn(data)
    with torch.no_grad():
        before, one, two, other = (able.states(model, data, *view) for view in ((), (half, 1), (half, 1), (half, 2)))
        after = able.states(model, data)
    expect(one.shape == before.shape, "a view must be of all nodes", one.shape, before.shape)
    expect(torch.equal(one, two), "equal seeds must leave out the same", one, two)
    expect(not torch.equal(one, other), "another seed must leave out something else", one, other)
    expect(torch.equal(before, after), "a view must leave the graph as it is", before, after)


@LAWS.having(LocalGraphTask)
def a_local_graph_is_of_all_own_nodes_and_of_the_edges_between_them(case: TaskCase) -> None:
    """Tell shares of classes of each node, edges either way, and which nodes the training examples are."""
    task = case.task
    able = case.able(LocalGraphTask)
    for client in range(len(case.shards)):
        data = case.prepared(client)
        with torch.no_grad():
            seen = able.local_graph(case.drawn(data), data)
        nodes, width = seen.probabilities.shape
        expect(width == able.classes, "there must be a share of each class", width, able.classes)
        sums = np.abs(seen.probabilities.sum(1) - 1).max(initial=0)
        expect(sums < 1e-4, "probabilities must sum to 1", sums)
        pairs = {*zip(*seen.edges.tolist(), strict=True)}
        expect(len(pairs) == seen.edges.shape[1], "an edge must be there once", seen.edges)
        expect(all(0 <= end < nodes for pair in pairs for end in pair), "edges must be between own nodes", pairs)
        expect(pairs == {pair[::-1] for pair in pairs}, "edges must be there either way", pairs)
        expect(all(one != other for one, other in pairs), "no node may be joined to itself", pairs)
        count = task.examples(data)
        expect(len(np.unique(seen.examples)) == len(seen.label) == count, "one node an example", seen.examples, count)
        labels = (seen.label >= 0) & (seen.label < able.classes)
        expect(labels.all(), "labels must be classes", seen.label)


@LAWS.having(GraphNetworkTask)
def a_model_makes_of_a_given_graph_what_it_makes_of_a_clients(case: TaskCase) -> None:
    """Tell the same of a client's own part of a graph, without what joins it to others'; take gradients of features."""
    task = case.task
    able = case.able(GraphNetworkTask)
    if (local := task.ability(LocalGraphTask)) is None:
        return
    pooling = task.ability(PooledTask)
    shard = pooling.alone(case.shards[0]) if pooling else case.shards[0]
    data = opened(task, task.prepare(shard, {}))
    model = case.drawn(data)
    with torch.no_grad():
        seen = local.local_graph(model, data)
    rows = seen.features if isinstance(seen.features, np.ndarray) else seen.features.toarray()
    expect(rows.shape == (len(seen.probabilities), able.given_width), "there must be features of nodes", rows.shape)
    features = torch.from_numpy(rows.copy()).requires_grad_()
    logits = able.on_graph(model, features, seen.edges)
    near = np.allclose(logits.softmax(1).numpy(force=True), seen.probabilities, atol=1e-4)
    expect(near, "a given graph must be told as a client's is", logits.softmax(1), seen.probabilities)
    logits.square().sum().backward()  # type: ignore[no-untyped-call]
    moved = features.grad is not None and bool((features.grad != 0).any())
    expect(moved, "gradients must reach the features", features.grad)
