"""Nodes that keep what their clients remember: all laws of runtimes, and what may be lost on the way."""

from contextlib import closing

import pytest
import torch

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.errors import InputError
from fedgraft.runtimes.federation import members, nodes_runtime
from fedgraft.runtimes.federation.envelope import Answer, Order, opened, packed
from fedgraft.runtimes.federation.nodes_runtime import AWAY, FORGOT, KEYLESS, NodesRuntime
from fedgraft.testing.runs import play, toy
from fedgraft.testing.runtimes import NODES, REMEMBERING, laws
from fedgraft.wire import Message
from helpers.local_nodes import RUN, LocalLink, LocalRoster, local_runtime, nodes_of, orders

HELLO = wire.encode(Message("hello", 0))
ENOUGH = 1 << 20


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def expected():
    return {name: play(toy(**sections)) for name, sections in {"remembering": REMEMBERING, "nodes": NODES}.items()}


def shards_of(experiment):
    return experiment.data.load(experiment.seed)


@pytest.fixture
def hello(tmp_path):
    """A link to five nodes, their runtime, and a function that asks them a hello."""
    experiment = toy()
    link = LocalLink(nodes_of(experiment.plan, shards_of(experiment), tmp_path))
    runtime = NodesRuntime(link, RUN, 5, b"")
    runtime.wait_for_all()

    def ask(client=2, limit=ENOUGH, deadline_seconds=0.2):
        return runtime.exchange({client: HELLO}, {client: limit}, deadline_seconds)[client]

    with closing(runtime):
        yield link, runtime, ask


@pytest.fixture
def make(tmp_path):
    def local(plan, shards):  # laws ask for a round again from another memory, which a journal refuses
        return local_runtime(plan, shards, tmp_path, journalled=False)

    return local


def test_every_law_of_runtimes(make):
    for law in laws(make, deadlines=False, memories=False):
        law()


@pytest.mark.parametrize("name", ["remembering", pytest.param("nodes", marks=pytest.mark.slow)])
@pytest.mark.parametrize("lost", ["order", "answer"])
def test_what_is_lost_on_the_way_changes_no_bit(tmp_path, expected, name, lost):
    """Every fifth message is lost, or its answer: the order is sent again, and answered the same."""

    def losing(plan, shards):
        runtime = local_runtime(plan, shards, tmp_path)
        runtime._link.lose = lambda node, content: lost if len(runtime._link.sent) % 5 == 0 else ""
        return runtime

    found = play(toy(**(REMEMBERING if name == "remembering" else NODES)), losing)
    assert found.digest == expected[name].digest
    assert found.charged == expected[name].charged


@pytest.mark.slow
@pytest.mark.parametrize("name", ["remembering", "nodes"])
def test_nodes_that_start_anew_before_every_order_change_no_bit(tmp_path, expected, name):
    """What a node has in memory alone, a paused round too, is made again from its disk."""

    def restarting(plan, shards):
        runtime = local_runtime(plan, shards, tmp_path)
        link = runtime._link

        def restart(node, content):
            if len(link.sent) % 3 == 0:
                link.by_id[node] = nodes_of(plan, shards, tmp_path)[node - 100]
            return ""

        link.lose = restart
        return runtime

    found = play(toy(**(REMEMBERING if name == "remembering" else NODES)), restarting)
    assert found.digest == expected[name].digest
    assert found.charged == expected[name].charged


@pytest.mark.parametrize("name", ["remembering", pytest.param("nodes", marks=pytest.mark.slow)])
def test_two_processes_that_take_turns_as_one_node_change_no_bit(tmp_path, expected, name):
    """As in a simulation: each has in memory a round that waits, which the other may have taken further."""

    def alternating(plan, shards):
        runtime = local_runtime(plan, shards, tmp_path, journalled=False)
        link, order = runtime._link, [0]
        others = {100 + client: node for client, node in nodes_of(plan, shards, tmp_path, journalled=False).items()}

        def swap(node, content):
            order[0] += 1
            if order[0] % 3:
                link.by_id[node], others[node] = others[node], link.by_id[node]
            return ""

        link.lose = swap
        return runtime

    found = play(toy(**(REMEMBERING if name == "remembering" else NODES)), alternating)
    assert found.digest == expected[name].digest
    assert found.charged == expected[name].charged


def test_a_node_that_lost_its_memory_goes_on_as_new_and_the_row_says_so(tmp_path):
    def forgetful(plan, shards):
        runtime = local_runtime(plan, shards, tmp_path)

        def wipe(node, content):
            if node == 101 and len(runtime._link.sent) > 40 and not runtime._link.changed:
                runtime._link.changed = True
                for path in (tmp_path / "1").rglob("*.bin"):
                    path.unlink()
            return ""

        runtime._link.changed = False
        runtime._link.lose = wipe
        return runtime

    rows = play(toy(**{**REMEMBERING, "rounds": 8}), forgetful).rows
    failed = [row.failed for row in rows if row.failed]
    assert failed == [{1: "probe: " + FORGOT}]
    assert rows[-1].round == 8


def test_a_memory_that_is_lost_between_its_round_and_the_checkpoint_is_not_in_it(tmp_path):
    stored = []

    def forgetful(plan, shards):
        runtime = local_runtime(plan, shards, tmp_path)

        def wipe(node, content):
            if opened(Order, content).kind != "measure":
                stored.append(dict(runtime.memories()))
            else:
                for path in (tmp_path / "1").rglob("*.bin"):
                    path.unlink()
            return ""

        runtime._link.lose = wipe
        return runtime

    assert play(toy(**{**REMEMBERING, "rounds": 8}), forgetful).rows[-1].round == 8
    assert {client for memories in stored for client in memories} >= {0, 2}


def test_a_node_that_is_away_is_waited_for_and_only_a_deadline_gives_it_up(hello):
    link, _runtime, ask = hello
    link.away = {102}
    assert ask().reason == "no reply within the deadline"
    assert ask(deadline_seconds=30.0) == ClientFailed(AWAY), "it is not waited for again"
    link.away = set()
    assert isinstance(ask(), bytes)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda answer: b"\x00garbage", "no answer to this order"),
        (lambda answer: packed(Answer(bytes(16), RUN, 2, "served", answer.reply)), "no answer to this order"),
        (lambda answer: packed(Answer(answer.id, RUN, 3, "served", answer.reply)), "no answer to this order"),
        (lambda answer: packed(Answer(answer.id, "0" * 32, 2, "served", answer.reply)), "no answer to this order"),
        (lambda answer: packed(Answer(answer.id, RUN, 2, "served", bytes(ENOUGH + 1))), "at most 1048576"),
        (lambda answer: packed(Answer(answer.id, RUN, 2, "refused", b"disk full\x1b[2J")), "disk full"),
    ],
    ids=["garbage", "replayed", "another client's", "another run's", "oversized", "refused"],
)
def test_an_answer_that_is_none_fails_its_client_alone(hello, change, reason):
    link, _runtime, ask = hello
    link.change = lambda node, data: change(opened(Answer, data))
    found = ask()
    assert isinstance(found, ClientFailed)
    assert reason in found.reason
    assert "\x1b" not in found.reason


def test_a_second_answer_is_not_taken(hello):
    link, _runtime, ask = hello
    assert isinstance(ask(), bytes)
    link.answers["again"] = link.answers.get("message 5")
    assert isinstance(ask(3), bytes)


def test_only_nodes_that_are_known_take_part(tmp_path):
    experiment, notes = toy(), []
    link = LocalLink(nodes_of(experiment.plan, shards_of(experiment), tmp_path))
    link.by_id[7] = link.by_id[102]
    known = {100: 0, 101: 1, 102: 2, 103: 4, 104: 4}
    runtime = NodesRuntime(link, RUN, 5, b"", LocalRoster(known), notes.append)
    runtime.wait_for_all(1.0)
    assert sorted(runtime.members.here) == [0, 1, 2, 4]
    assert any("not of this run" in note for note in notes)
    assert any("it says that it is client 3, which it is not" in note for note in notes)


def test_who_is_removed_or_has_a_new_key_is_so_at_once_and_nobody_waits_for_who_has_none(tmp_path, impatient):
    experiment, notes = toy(), []
    link = LocalLink(nodes_of(experiment.plan, shards_of(experiment), tmp_path))
    roster = LocalRoster({100: 0, 101: 1, 102: 2, 103: 3}, gone={4})
    with closing(NodesRuntime(link, RUN, 5, b"", roster, notes.append)) as runtime:
        runtime.wait_for_all()
        assert sorted(runtime.members.here) == [0, 1, 2, 3]

        def rotated(node, content):
            link.lose = lambda node, content: ""
            link.by_id[202] = link.by_id.pop(102)
            roster.known = {100: 0, 101: 1, 202: 2, 103: 3}
            return "silence"

        def removed(node, content):
            link.lose = lambda node, content: ""
            roster.known, roster.gone = {100: 0, 101: 1, 202: 2}, frozenset({3, 4})
            return "silence"

        for change, client, said in ((rotated, 2, bytes), (removed, 3, KEYLESS), (None, 4, KEYLESS)):
            link.lose = change or link.lose
            found = runtime.exchange({client: HELLO}, {client: ENOUGH}, None)[client]
            assert isinstance(found, said) if said is bytes else found == ClientFailed(said)
        assert 103 not in runtime.members.here.values(), "it is connected still, and not asked"
        assert notes[-1] == "A node that is not of this run is connected; it is left out."


@pytest.mark.parametrize("known", [LocalRoster({100 + client: client for client in range(5)}), None])
def test_nodes_are_told_what_their_client_is_to_know_also_when_they_begin_anew(tmp_path, known):
    experiment = toy()
    shards = shards_of(experiment)
    nodes = nodes_of(experiment.plan, shards, tmp_path)
    heard = {client: [] for client in nodes}
    for client, node in nodes.items():

        def read(recipe, told, run, nonce, client=client):
            heard[client].append(told)
            return shards[client] if told else None, {"name": f"site {client}"}

        node.read_data = read
    with closing(NodesRuntime(LocalLink(nodes), RUN, 5, b"", known)) as runtime:
        runtime.wait_for_all()
        assert heard == {client: [b""] for client in nodes}
        runtime.members.told = {client: b"for %d" % client for client in nodes}
        runtime.members.begin_again(b"agreed")
        runtime.wait_for_all()
        assert {client: each[1:] for client, each in heard.items()} == {k: [b"for %d" % k] for k in nodes}
        nodes[2]._runs.clear()
        runtime.members.ask(102)
        assert isinstance(runtime.exchange({2: HELLO}, {2: ENOUGH}, 5.0)[2], bytes)
        assert heard[2][-1] == b"for 2"
        runtime.members.ask(103)  # as after a silence
        assert isinstance(runtime.exchange({3: HELLO}, {3: ENOUGH}, 5.0)[3], bytes)
        assert heard[3] == [b"", b"for 3"]


def test_a_node_that_refuses_the_recipe_ends_the_run_with_a_code_and_has_the_reason_in_its_log(tmp_path, caplog):
    def refuse(recipe):
        raise InputError("rounds must be >= 1; got 0.")

    experiment = toy()
    nodes = nodes_of(experiment.plan, shards_of(experiment), tmp_path)
    nodes[3].plan_of = refuse
    with pytest.raises(
        InputError, match=r"node of client 3 refuses this run: recipe refused\. The log of its site says why\."
    ):
        NodesRuntime(LocalLink(nodes), RUN, 5, b"").wait_for_all()
    assert "Order 'join' could not be served: rounds must be >= 1; got 0." in caplog.text


def test_a_node_whose_list_of_users_is_another_ends_the_run_by_name(tmp_path):
    experiment = toy()
    nodes = nodes_of(experiment.plan, shards_of(experiment), tmp_path)
    for client, node in nodes.items():
        node.about = {"tables": {"users": b"ours" if client < 4 else b"theirs"}}
    with pytest.raises(InputError, match=r"node of client 4 refuses this run: its table 'users' is not that of client"):
        NodesRuntime(LocalLink(nodes), RUN, 5, b"").wait_for_all()


@pytest.fixture
def impatient(monkeypatch):
    """Questions to nodes count as lost after moments."""
    for module in (members, nodes_runtime):
        monkeypatch.setattr(module, "PROBE_SECONDS", 0.2)
        monkeypatch.setattr(module, "REFRESH_SECONDS", 0.1, raising=False)
    monkeypatch.setattr(members, "LOST_SECONDS", 0.5)


def test_a_node_that_began_anew_when_it_was_asked_to_join_is_asked_again(tmp_path, impatient):
    experiment = toy()
    link = LocalLink(nodes_of(experiment.plan, shards_of(experiment), tmp_path))
    link.lose = lambda node, content: "silence" if node == 101 and len(link.sent) < 8 else ""
    NodesRuntime(link, RUN, 5, b"").wait_for_all()
    assert sum(node == 101 for node, _ in link.sent) > 1


def test_an_order_and_the_question_after_it_are_lost_in_silence_and_the_order_is_sent_again(hello, impatient):
    link, _runtime, ask = hello
    before = len(link.sent)
    link.lose = lambda node, content: "silence" if len(link.sent) <= before + 2 else ""
    assert isinstance(ask(deadline_seconds=20.0), bytes)
    assert len(link.sent) == before + 4, "an order, two questions, and the order again"


@pytest.mark.parametrize("away", [set(), {102}])
def test_who_has_not_answered_for_a_minute_is_named_once(tmp_path, impatient, monkeypatch, away):
    monkeypatch.setattr(nodes_runtime, "SILENT_SECONDS", 0.3)
    experiment, notes = toy(), []
    link = LocalLink(nodes_of(experiment.plan, shards_of(experiment), tmp_path))
    with closing(NodesRuntime(link, RUN, 5, b"", note=notes.append)) as runtime:
        runtime.wait_for_all()

        def lose(node, content):
            link.away |= away
            return "silence" if node == 102 else ""

        link.lose = lose
        notes.clear()
        for _ in range(2):
            found = runtime.exchange({1: HELLO, 2: HELLO}, {1: ENOUGH, 2: ENOUGH}, 1.5)
        assert isinstance(found[1], bytes)
        assert isinstance(found[2], ClientFailed)
        state = "is not connected" if away else "is connected"
        assert notes == [f"Client 2 has not answered for 0.3 s; its node {state}. It is waited for."]


def test_no_private_memory_leaves_a_node(tmp_path):
    """What the server's checkpoint holds of a memory is 16 bytes."""
    played = play(toy(**REMEMBERING), lambda plan, shards: local_runtime(plan, shards, tmp_path))
    assert {len(memory) for memory in played.remembered.values()} == {16}


def test_messages_are_those_of_one_process(tmp_path, expected):
    made = []

    def counted(plan, shards):
        made.append(local_runtime(plan, shards, tmp_path))
        return made[0]

    played = play(toy(**NODES), counted)
    sent = [kind for _, kind in orders(made[0]._link)]
    protocol = [each.kind for each in expected["nodes"].sent if each.kind not in ("measure", "relay")]
    assert sorted(sent) == sorted(protocol)
    assert played.state.bytes == expected["nodes"].state.bytes
    assert made[0].outside["down"] > 0
