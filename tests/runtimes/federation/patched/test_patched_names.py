"""The names of Flower's inside that are replaced or called: each is where it was, and is used as it was.

A new version of Flower may change any of them. Then the test of that name fails, and says who needs it.
"""

import ast
import importlib
import importlib.metadata
import inspect
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")

from fedgraft.runtimes import federation
from fedgraft.runtimes.federation import patched
from fedgraft.runtimes.federation.patched.long_polls import APP, NODE, PULL, PUSH, PUSH_CONTENT

FOLDER = Path(patched.__file__).parent
PUBLIC = {"flwr.app", "flwr.clientapp", "flwr.serverapp", "flwr.simulation"}
"""Modules of Flower's API."""


def imported(path):
    """[(module, name)] that a file takes from Flower."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    found = [node for node in nodes if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("flwr")]
    return [(node.module, each.name) for node in found for each in node.names]


IMPORTED = sorted({(path.stem, *each) for path in FOLDER.glob("*.py") for each in imported(path)})
REPLACED = [
    ("guarded_superlink", "flwr.superlink.main", "create_app", "flwr.superlink.cli.flower_superlink", "create_app"),
    ("guarded_superlink", "flwr.superlink.cli.flower_superlink", "uvicorn", None, "uvicorn.run"),
    ("quick_supernode", "flwr.supernode.start_client_internal", "time", None, "time.sleep"),
    ("quick_supernode", "flwr.supernode.start_client_internal", "_pull_and_store_message", None, ""),
    ("quick_supernode", "flwr.supernode.start_client_internal", "_push_messages", None, ""),
    ("quick_supernode", "flwr.supernode.fleet_http_connection", "HeartbeatSender", None, ""),
    ("quick_supernode", "flwr.supercore.protobuf.client", "httpx", None, "httpx.Client"),
]
"""Who replaces what, where: module, name; and the module that calls it, and how; None and "" for the same."""
CALLED = [
    ("quick_supernode", "flwr.supernode.start_client_internal", "_pull_and_store_message", "pull_object"),
    ("quick_supernode", "flwr.supernode.start_client_internal", "_pull_and_store_message", "confirm_message_received"),
    ("quick_supernode", "flwr.supernode.start_client_internal", "_push_messages", "state"),
    *(
        (file, module, f"{client}.from_server_address", parameter)
        for file, module, client in (
            ("executor", "flwr.supercore.runtime", "RuntimeHttpClient"),
            ("control_api", "flwr.supercore.control", "ControlHttpClient"),
        )
        for parameter in ("server_address", "insecure", "root_certificates", "interceptors")
    ),
    ("executor", "flwr.supercore.runtime", "RuntimeHttpClient.from_server_address", "retry_invoker"),
    ("executor", "flwr.supercore.interceptors", "SuperExecAuthHttpInterceptor", "master_secret"),
    ("executor", "flwr.supercore.interceptors", "SuperExecAuthHttpInterceptor", "protected_methods"),
    ("executor", "flwr.supercore.interceptors", "RuntimeVersionHttpInterceptor", "component_name"),
    ("executor", "flwr.supernode.runtime.run_clientapp", "pull_task_input", "client"),
    ("executor", "flwr.supernode.runtime.run_clientapp", "push_message", "message"),
    ("executor", "flwr.supernode.runtime.run_clientapp", "push_task_output", "sub_status"),
    ("executor", "flwr.supercore.runtime", "RuntimeHttpClient.AcquireTask", ""),
    ("executor", "flwr.supercore.runtime", "RuntimeHttpClient.SendTaskHeartbeat", ""),
    *(
        ("control_api", "flwr.supercore.control", f"ControlHttpClient.{name}", "")
        for name in ("RegisterNode", "ListNodes", "ListRuns", "StopRun")
    ),
]
"""Who calls what, and a parameter that it needs."""
MESSAGES = [
    ("fleet_pb2", "PullMessagesRequest", ["node"]),
    ("fleet_pb2", "PullMessagesResponse", ["messages_list"]),
    ("fleet_pb2", "PushMessagesRequest", ["messages_list"]),
    ("fleet_pb2", "PushMessagesResponse", ["session_id", "objects_to_push"]),
    ("message_pb2", "Metadata", ["dst_node_id"]),
    ("message_pb2", "PushObjectRequest", ["session_id", "object_id"]),
    ("node_pb2", "Node", ["node_id"]),
    ("node_pb2", "NodeInfo", ["node_id", "status", "last_activated_at", "last_deactivated_at", "registered_at"]),
    ("run_pb2", "Run", ["run_id", "status", "pending_at", "starting_at", "running_at", "finished_at"]),
    ("runtime_pb2", "AcquireTaskRequest", ["supported_task_types"]),
    ("runtime_pb2", "AcquireTaskResponse", ["token", "task"]),
    ("runtime_pb2", "PullAppMessagesResponse", ["messages_list"]),
    ("runtime_pb2", "PushAppMessagesRequest", ["messages_list"]),
    ("runtime_pb2", "PushAppMessagesResponse", ["session_id", "objects_to_push"]),
]
"""Messages of Flower's, and the fields that are read or written."""


def changed(who, what):
    """What a test says whose name is gone."""
    version = importlib.metadata.version("flwr")
    return f"Flower {version} has changed {what}, which federation/patched/{who}.py needs (decision 17)."


def found(who, module, name):
    """Return what has the name in a module of Flower's; fail where there is none."""
    try:
        value = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError):
        pytest.fail(changed(who, f"{module}.{name}"))
    return value


def calls(module):
    """The names of all functions that a module calls, as it writes them."""
    nodes = ast.walk(ast.parse(inspect.getsource(importlib.import_module(module))))
    return {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}


@pytest.mark.parametrize(("who", "module", "name"), IMPORTED)
def test_a_name_that_is_imported_is_there(who, module, name):
    try:
        importlib.import_module(f"{module}.{name}")  # a module of a package
    except ImportError:
        found(who, module, name)


@pytest.mark.parametrize(("who", "module", "name", "caller", "call"), REPLACED)
def test_a_name_that_is_replaced_is_what_flower_calls(who, module, name, caller, call):
    found(who, module, name)
    assert (call or name) in calls(caller or module), changed(who, f"how {caller or module} calls {call or name}")


def test_the_application_is_looked_up_when_it_is_made():
    """An import at the top of the module would keep Flower's own, whatever takes its place later."""
    module = importlib.import_module("flwr.superlink.cli.flower_superlink")
    assert not hasattr(module, "create_app"), changed("guarded_superlink", "where it imports create_app")


@pytest.mark.parametrize("name", ["_pull_and_store_message", "_push_messages", "state.create_task"])
def test_what_is_replaced_is_called_by_names(name):
    tree = ast.parse(inspect.getsource(importlib.import_module("flwr.supernode.start_client_internal")))
    made = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    (call,) = [node for node in made if ast.unparse(node.func) == name]
    assert not call.args, changed("quick_supernode", f"how {name} is called")


@pytest.mark.parametrize("name", ["msg_store", "get_tasks", "delete_messages"])
def test_a_supernode_s_state_has_what_is_looked_at(name):
    factory = found("quick_supernode", "flwr.supernode.nodestate", "NodeStateFactory")
    store = found("quick_supernode", "flwr.supercore.object_store", "ObjectStoreFactory")()
    assert hasattr(factory(store).state(), name), changed("quick_supernode", f"the attribute {name} of a node's state")


@pytest.mark.parametrize(("who", "module", "name", "parameter"), CALLED)
def test_what_is_called_takes_what_it_is_given(who, module, name, parameter):
    function = found(who, module, name)
    known = inspect.signature(function).parameters
    assert not parameter or parameter in known, changed(who, f"{module}.{name}: it takes no {parameter}")


def test_a_retry_can_be_told_to_give_up():
    made = found("executor", "flwr.supercore.retry", "make_simple_http_retry_invoker")()
    for name in ("max_tries", "should_giveup"):
        assert hasattr(made, name), changed("executor", f"the attribute {name} of a retry invoker")


@pytest.mark.parametrize(("file", "message", "fields"), MESSAGES)
def test_a_message_has_its_fields(file, message, fields):
    who = "executor" if "AcquireTask" in message else "control_api" if message in ("NodeInfo", "Run") else "long_polls"
    there = found(who, f"flwr.proto.{file}", message).DESCRIPTOR.fields_by_name
    assert set(fields) <= set(there), changed(who, f"the fields of {message}: no {set(fields) - set(there)}")


@pytest.mark.parametrize("name", [PULL, PUSH, PUSH_CONTENT])
@pytest.mark.parametrize("interface", [NODE, APP])
def test_the_superlink_answers_where_polls_are_held(interface, name):
    module = {NODE: "flwr.superlink.routers.fleet.router", APP: "flwr.supercore.routers.runtime.router"}[interface]
    paths = {route.path for route in found("long_polls", module, "router").routes}
    assert interface + name in paths, changed("long_polls", f"the path {interface}{name}")


def test_only_what_is_patched_knows_flower_s_inside():
    files = [path for path in Path(federation.__file__).parent.rglob("*.py") if FOLDER not in path.parents]
    inside = {(path.name, module) for path in files for module, _ in imported(path) if module not in PUBLIC}
    assert not inside, "what reaches into Flower belongs in federation/patched"


def test_a_name_that_is_gone_is_told():
    with pytest.raises(
        pytest.fail.Exception, match=r"has changed flwr\.app\.Gone, which .*/patched/executor\.py needs"
    ):
        found("executor", "flwr.app", "Gone")
