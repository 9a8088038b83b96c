"""Whatever a server sends and whatever lies in its folder, a node answers with a refusal and goes on."""

import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.contracts.runtime import FINGERPRINT_BYTES
from fedgraft.engine.protocol.codes import REFUSALS, is_code
from fedgraft.errors import ClientError, FedgraftError, InputError, WireError
from fedgraft.runtimes.federation.audit import FILE, read
from fedgraft.runtimes.federation.envelope import Answer, Order, opened, packed
from fedgraft.runtimes.federation.memory_store import MemoryStore
from fedgraft.runtimes.federation.nodes_runtime import NodesRuntime
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


SAID = "/home/ann/patients.csv: column 'diagnosis', value 'F32.1'"
"""What no server may hear, whatever goes wrong."""
NAMED = type(SAID, (KeyError,), {})


def wrong(error):
    def fails(*given):
        raise error(SAID)

    return fails


@pytest.mark.parametrize(
    "error", [InputError, WireError, ClientError, OSError, ValueError, type(SAID, (KeyError,), {})]
)
@pytest.mark.parametrize(
    ("at", "code"),
    [
        ("plan_of", "recipe refused"),
        ("journal", "log refused"),
        ("read_data", "data do not fit"),
        ("keys", "keys refused"),
    ],
)
def test_no_word_of_an_error_at_joining_leaves_the_site(nodes, caplog, tmp_path, at, code, error):
    """The attack: a recipe that makes reading the data fail, and says where and on what."""
    node, fails = nodes[0], wrong(error)
    if at == "journal":
        node.journal.begin = fails
    else:
        setattr(node, at, fails)
    if at == "keys":
        signed = toy(
            secure_sum={"name": "secagg", "signed": True},
            codec={"name": "quantized", "scale": "agreed"},
            evaluation={"at": "clients"},
        )
        node.plan_of = lambda recipe: signed.plan
    sent = node.answer(packed(Order("join", RUN, bytes(16), request=b"")))
    answer = opened(Answer, sent)
    assert answer.status == "refused"
    assert is_code(answer.reply.decode())
    if issubclass(error, FedgraftError | OSError):
        assert answer.reply.decode() == code
    assert not any(word.encode() in sent for word in ("ann", "patients", "diagnosis", "F32"))
    assert SAID in caplog.text
    if at != "journal":
        assert SAID in list(read(tmp_path / "0" / FILE))[-1]["why"]


def test_another_client_a_round_that_was_served_and_a_spent_budget_are_codes(nodes):
    runtime = NodesRuntime(LocalLink(nodes), RUN, 5, b"")
    runtime.wait_for_all()
    sent = nodes[1].answer(packed(Order("serve", RUN, bytes(16), 3, request=HELLO)))
    assert opened(Answer, sent).reply == b"another client"
    assert all(is_code(code) for code in REFUSALS)
    assert not is_code(SAID)


@pytest.mark.parametrize(
    "how", [how if how in ("cut", "a bit") else pytest.param(how, marks=pytest.mark.slow) for how in DAMAGED]
)
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
