"""Whatever a server sends and whatever lies in its folder, a node answers with a refusal and goes on."""

import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.contracts.runtime import FINGERPRINT_BYTES
from fedgraft.errors import InputError
from fedgraft.runtimes.flower_federation.memory_store import MemoryStore
from fedgraft.runtimes.flower_federation.nodes_runtime import NodesRuntime
from fedgraft.testing.runs import play, toy
from fedgraft.testing.runtimes import NODES
from fedgraft.wire import Message
from helpers.local_nodes import RUN, LocalLink, local_runtime, nodes_of

HELLO = wire.encode(Message("hello", 0))
DAMAGED = {
    "text": lambda content: b"rows",
    "empty": lambda content: b"",
    "cut": lambda content: content[:-1],
    "a bit": lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
    "no fingerprint": lambda content: content[FINGERPRINT_BYTES:],
}


@pytest.fixture
def nodes(tmp_path):
    experiment = toy()
    return nodes_of(experiment.plan, experiment.data.load(experiment.seed), tmp_path)


def test_an_error_that_nobody_expected_refuses_the_run_with_its_cause_at_both_ends(nodes, caplog):
    def plan_of(recipe):
        return recipe.items

    nodes[3].plan_of = plan_of
    with pytest.raises(InputError, match=r"^The node of client 3 refuses this run: internal error: AttributeError\. "):
        NodesRuntime(LocalLink(nodes), RUN, 5, b"").wait_for_all()
    said = "Order 'join' could not be served: AttributeError: 'bytes' object has no attribute 'items'"
    assert caplog.messages.count(said) == 1


def test_an_error_that_nobody_expected_fails_one_order_and_tells_nothing_of_the_site(nodes, caplog):
    runtime = NodesRuntime(LocalLink(nodes), RUN, 5, b"")
    runtime.wait_for_all()
    serve = nodes[1]._serve

    def broken(*order):
        raise ValueError("/data/patients.csv\nis broken")

    nodes[1]._serve = broken
    found = runtime.exchange({1: HELLO}, {1: 1 << 20}, 5.0)[1]
    assert (type(found), found.reason) == (ClientFailed, "internal error: ValueError")
    assert "ValueError: /data/patients.csv\\nis broken" in caplog.text
    nodes[1]._serve = serve
    assert isinstance(runtime.exchange({1: HELLO}, {1: 1 << 20}, 5.0)[1], bytes)


@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_journal_is_a_round_that_is_lost_also_after_a_restart(tmp_path, how, caplog):
    damaged = []

    def damaging(plan, shards):
        runtime = local_runtime(plan, shards, tmp_path)
        link = runtime._link

        def damage(node, content):
            journal = tmp_path / "1" / RUN / "round.bin"
            if node == 101 and journal.is_file() and not damaged:
                journal.write_bytes(DAMAGED[how](journal.read_bytes()))
                link.by_id[node] = nodes_of(plan, shards, tmp_path)[1]
                damaged.append(len(link.sent))
            return ""

        link.lose = damage
        return runtime

    found = play(toy(**NODES), damaging)
    assert damaged
    assert [row.failed for row in found.rows if row.failed] == [{1: "cannot serve request"}]
    assert "round.bin is damaged; the round that waited is lost." in caplog.text


def test_what_is_damaged_is_written_again(tmp_path):
    store = MemoryStore(tmp_path)
    name = store.keep(b"a memory")
    path = next(tmp_path.glob("*.bin"))
    path.write_bytes(b"a mem")
    assert store.load(name) is None
    assert store.keep(b"a memory") == name
    assert store.load(name) == b"a memory"
