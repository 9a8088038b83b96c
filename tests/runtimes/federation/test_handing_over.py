"""What a run leaves a client is handed to its node, with what the client remembers there."""

from contextlib import closing

import pytest

from fedgraft import wire
from fedgraft.runtimes.federation.audit import FILE, read
from fedgraft.runtimes.federation.journal import head_in
from fedgraft.runtimes.federation.nodes_runtime import NodesRuntime
from fedgraft.testing.runs import toy
from fedgraft.wire import Message
from helpers.local_nodes import RUN, LocalLink, nodes_of

HELLO = wire.encode(Message("hello", 0))


@pytest.fixture
def handed(tmp_path):
    """Five nodes, their runtime, and what they were handed: {client: (run, recipe, model, memory, set-up)}."""
    experiment, found = toy(), {}
    nodes = nodes_of(experiment.plan, experiment.data.load(experiment.seed), tmp_path)
    for client, node in nodes.items():
        node.take_model = lambda *left, client=client: found.update({client: left})
    runtime = NodesRuntime(LocalLink(nodes), RUN, 5, b"the recipe")
    runtime.wait_for_all()
    with closing(runtime):
        yield nodes, runtime, found


def test_a_node_is_handed_the_recipe_and_its_own_model(handed) -> None:
    _, runtime, found = handed
    assert runtime.hand_over({1: b"one", 3: b"three"}, 5) == []
    assert found == {1: (RUN, b"the recipe", b"one", b"", b""), 3: (RUN, b"the recipe", b"three", b"", b"")}


def test_a_node_says_the_head_of_its_log_at_the_end(handed, tmp_path) -> None:
    nodes, runtime, _ = handed
    nodes[3].journal = None
    assert runtime.hand_over({1: b"one", 3: b"three"}, 5) == []
    lines = list(read(tmp_path / "1" / FILE))
    assert [line["kind"] for line in lines] == ["begun", "join", "model"]
    assert runtime.heads == {1: {"lines": 2, "head": lines[1]["hash"]}}


@pytest.mark.parametrize(
    "reply", [b"", b"garbage", wire.pack({"lines": "1", "head": "0" * 64}), wire.pack({"head": ""})]
)
def test_what_is_no_head_is_none(reply) -> None:
    assert head_in(reply) == {}


def test_what_the_client_remembers_is_with_it_also_after_the_node_began_anew(handed) -> None:
    nodes, runtime, found = handed
    store = nodes[2]._runs[RUN].store
    runtime.restore({2: store.keep(b"what it remembers"), ~2: b"set-up"})
    nodes[2]._runs.clear()
    assert runtime.hand_over({2: b"two"}, 5) == []
    assert found[2] == (RUN, b"the recipe", b"two", b"what it remembers", b"set-up")


def test_a_memory_that_was_lost_is_told_and_the_model_handed_without(handed) -> None:
    _, runtime, found = handed
    runtime.restore({2: b"\1" * 16})
    assert runtime.hand_over({2: b"two"}, 5) == []
    assert found[2][2:] == (b"two", b"", b"")
    assert runtime.forgotten() == {2}


def test_a_node_that_is_away_is_named(handed) -> None:
    _, runtime, found = handed
    runtime._link.away = {104}
    assert runtime.hand_over({3: b"three", 4: b"four"}, 0.2) == [4]
    assert list(found) == [3]
