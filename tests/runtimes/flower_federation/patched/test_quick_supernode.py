"""A SuperNode's way of fetching a message: one whose run ends meanwhile leaves nothing that is answered later."""

import inspect

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

from fedgraft.runtimes.flower_federation.patched.quick_supernode import receiving
from fedgraft.runtimes.flower_federation.record import record_of

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


def fetched(state, ends_with=None):
    """Fetch a message, whose run ends while its content, or what confirms it, is under way."""
    message = Message(record_of(b"content"), NODE, MessageType.QUERY)
    message.metadata.__dict__["_message_id"] = message.object_id

    def ended(*given):
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
