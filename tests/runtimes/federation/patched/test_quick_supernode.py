"""A SuperNode's way with a message: nothing is left of one whose run ends, and none waits for an answer for ever."""

import inspect
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")

import httpx
from flwr.app import Context, Message, MessageType, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run, RunNotRunningException
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode import start_client_internal
from flwr.supernode.nodestate import NodeStateFactory

from fedgraft.runtimes.federation.child import ANEW
from fedgraft.runtimes.federation.patched import quick_supernode
from fedgraft.runtimes.federation.patched.quick_supernode import (
    Patience,
    Unanswered,
    answering,
    lasting,
    receiving,
)
from fedgraft.runtimes.flower_simulation.record import record_of

RUN, NODE = 7, 5
PARTS = inspect.signature(start_client_internal._pull_and_store_message).parameters
FETCH = receiving(start_client_internal._pull_and_store_message)


@pytest.fixture
def state(monkeypatch):
    """What a SuperNode knows, the run among it."""
    found = NodeStateFactory(ObjectStoreFactory()).state()
    found.set_node_id(NODE)
    for name, value in {"_run_id": RUN, "_node_id": NODE, "_task_id": 1}.items():
        monkeypatch.setattr(TaskIdentity, name, value)
    found.store_run(Run.create_empty(RUN))
    found.set_run_series_context(0, Context(RUN, NODE, {}, RecordDict(), {}, 0))
    return found


def message_of(content):
    message = Message(record_of(content), NODE, MessageType.QUERY)
    message.metadata.__dict__["_message_id"] = message.object_id
    return message


def answered_by_node(state):
    """Do what a node does in its own process: take the next task, and answer its message; return whether it could."""
    tasks = state.get_tasks(statuses=["pending"])
    if not tasks:
        return False
    state.claim_task(tasks[0].task_id)
    state.activate_task(tasks[0].task_id)
    (message,) = state.get_messages_legacy(is_reply=False)
    state.record_message_processing_start(message.metadata.message_id)
    reply = Message(record_of(b"answer"), reply_to=message)
    start_client_internal._insert_message(reply, state, state._object_store)
    state.record_message_processing_end(message.metadata.message_id)
    return state.finish_task(tasks[0].task_id, "completed", "")


def fetched(state, ends_with=None, content=b"content"):
    """Fetch a message, whose run ends while its content, or what confirms it, is under way."""
    message = message_of(content)

    def ended(*given):
        answered_by_node(state)
        raise RunNotRunningException

    contents = {name: each.deflate() for name, each in get_all_nested_objects(message).items()}
    parts = {"pull_object": lambda run, name: contents[name], "confirm_message_received": lambda run, message: None}
    if ends_with:
        parts[ends_with] = ended
    return FETCH(
        state=state,
        object_store=state._object_store,
        node_config={},
        receive=lambda: (message, get_object_tree(message)),
        get_run=None,
        get_fab=None,
        trusted_entities=None,
        **parts,
    )


@pytest.mark.parametrize("ends_with", ["pull_object", "confirm_message_received"])
def test_nothing_is_left_of_a_message_whose_run_ends_while_it_is_fetched(state, ends_with):
    assert fetched(state, ends_with) is None
    assert list(state.get_messages_legacy()) == []


@pytest.mark.parametrize("code", [500, 503])
def test_an_error_of_the_superlink_is_no_message(state, code):
    assert FETCH(**{**dict.fromkeys(PARTS), "state": state, "receive": lambda: refuse(code)}) is None


def test_who_is_not_let_in_is_told(state):
    with pytest.raises(httpx.HTTPStatusError):
        FETCH(**{**dict.fromkeys(PARTS), "state": state, "receive": lambda: refuse(401)})


def refuse(code):
    request = httpx.Request("POST", "https://localhost/v1/fleet/pull-messages")
    httpx.Response(code, request=request).raise_for_status()


def test_a_message_is_kept_with_a_task(state):
    assert fetched(state) == RUN
    assert len(state.get_messages_legacy()) == 1


def sent(state, patience=None):
    """Have the SuperNode send the answer to the message at hand; return ids of the messages that were answered."""
    answered = []

    def send(message, tree, seconds):
        answered.append(message.metadata.reply_to_message_id)
        return set(), ""

    push = answering(start_client_internal._push_messages, patience or Patience(0))
    push(state=state, object_store=state._object_store, send=send, push_object=None)
    return answered


def test_a_message_is_given_to_be_answered_when_all_of_it_is_here(state):
    assert not fetched(state, "confirm_message_received", b"first")  # where the server is killed, and back
    assert not state.get_tasks()
    assert fetched(state, content=b"second") == RUN
    (message,) = [entry.message for entry in state.msg_store.values()]
    assert answered_by_node(state)
    assert sent(state) == [message.metadata.message_id]


def test_a_late_answer_does_not_take_the_place_of_the_next_one(state):
    assert fetched(state) == RUN
    (late,) = [entry.message for entry in state.msg_store.values()]
    assert answered_by_node(state)
    assert fetched(state, content=b"second") == RUN
    (message,) = [entry.message for entry in state.msg_store.values()]
    start_client_internal._insert_message(Message(record_of(b"late"), reply_to=late), state, state._object_store)
    thread = threading.Timer(0.2, answered_by_node, [state])
    thread.start()
    assert sent(state) == [late.metadata.message_id, message.metadata.message_id]
    thread.join()
    assert not state.msg_store


@pytest.fixture
def quick(monkeypatch):
    """A SuperNode's patience of a tenth of a second, which looks who is at work as often."""
    monkeypatch.setattr(quick_supernode, "WORK_SECONDS", 0.1)
    patience = Patience(0.1)
    monkeypatch.setattr(start_client_internal, "time", SimpleNamespace(sleep=patience.sleep))
    return patience


def test_a_message_that_nobody_is_answering_ends_the_supernode(state, quick):
    assert fetched(state) == RUN
    (task,) = state.get_tasks()
    state.claim_task(task.task_id)
    state.finish_task(task.task_id, "failed", "")  # as Flower ends one without signs of life
    with pytest.raises(Unanswered, match=r"a message is held for 0\.1 s, and nobody is at work on its answer"):
        sent(state, quick)


def test_a_message_that_somebody_is_answering_is_waited_for(state, quick):
    assert fetched(state) == RUN
    thread = threading.Timer(1.0, answered_by_node, [state])
    thread.start()
    assert len(sent(state, quick)) == 1
    thread.join()


@pytest.mark.parametrize("error", [RuntimeError("it does not know this SuperNode"), 500])
def test_signs_of_life_go_on_after_an_error_of_the_superlink(error, capsys):
    def beat():
        if isinstance(error, int):
            refuse(error)
        raise error

    assert lasting(beat)() is False
    assert capsys.readouterr().err
    assert lasting(lambda: True)() is True


@pytest.mark.parametrize(
    ("ends", "code"), [(None, ANEW), (Unanswered("a message is held"), ANEW), (OSError("no certificate"), 1)]
)
def test_a_supernode_that_fetches_no_message_any_more_ends_with_a_code(ends, code, monkeypatch):
    """Flower's returns where an error ended its loop, and leaves the threads of its interface."""
    for module in (start_client_internal, quick_supernode.fleet_http_connection, quick_supernode.client):
        monkeypatch.setattr(quick_supernode, module.__name__.rpartition(".")[2], SimpleNamespace(**vars(module)))
    codes = []
    monkeypatch.setattr(quick_supernode.os, "_exit", codes.append)

    def flower():
        if ends:
            raise ends

    monkeypatch.setattr(quick_supernode, "flower_supernode", flower)
    quick_supernode.main()
    assert codes == [code]
