"""What a site gives a server at most: orders beyond it are refused by name, and the node goes on."""

import signal
import threading
import time

import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.errors import BeyondLimitError, InputError
from fedgraft.runtimes.federation.folders import NodeFolder
from fedgraft.runtimes.federation.nodes_runtime import NodesRuntime
from fedgraft.runtimes.federation.site_limits import SiteLimits
from fedgraft.testing.runs import toy
from fedgraft.wire import Message
from helpers.local_nodes import RUN, LocalLink, nodes_of

HELLO = wire.encode(Message("hello", 0))


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        (
            {"training": {"epochs": 10**9}},
            r"training\.epochs must be at most 1000, limits\.epochs of this node; got 10",
        ),
        ({"sharing": {"name": "ditto", "personal_epochs": 1001}}, r"sharing\.personal_epochs must be at most 1000"),
        ({"training": {"epochs": "many"}}, r"training\.epochs must be at most 1000, limits\.epochs .* got 'many'"),
        ({"runtime": {"threads": 65}}, r"runtime\.threads must be at most 64, limits\.threads of this node; got 65"),
    ],
)
def test_a_recipe_that_orders_more_is_refused(recipe, said):
    SiteLimits().check({"training": {"epochs": 1000, "batch_size": 10**6}, "rounds": 10**6})
    with pytest.raises(InputError, match=said):
        SiteLimits().check(recipe)
    SiteLimits(epochs=2**40, threads=65).check({**recipe, "training": {"epochs": 10**9}})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"epochs": 0}, r"limits\.epochs must be a whole number >= 1; got 0\."),
        ({"seconds": 0.5}, r"limits\.seconds must be a whole number >= 0; got 0\.5\."),
        ({"second": 5}, r"No option of \[limits\] named 'second'\. Did you mean 'seconds'\?"),
    ],
)
def test_limits_are_checked_as_a_node_s_folder_is_read(tmp_path, table, said):
    folder = NodeFolder(tmp_path, 0, "north", "localhost", 8000, True, limits=SiteLimits(5, 2, 60))
    folder.write()
    assert NodeFolder.read(tmp_path) == folder
    path = tmp_path / "node.toml"
    before = path.read_text().partition("[limits]")[0]
    (option, value) = next(iter(table.items()))
    path.write_text(f"{before}[limits]\n{option} = {value}\n")
    with pytest.raises(InputError, match=rf"node\.toml: {said}"):
        NodeFolder.read(tmp_path)
    path.write_text(before)  # a site may take its table away
    assert NodeFolder.read(tmp_path).limits == SiteLimits()


@pytest.fixture
def soon(monkeypatch):
    """Limits whose seconds are a tenth as long."""
    usual = signal.setitimer
    monkeypatch.setattr(signal, "setitimer", lambda which, first, *more: usual(which, first / 10, *more))


def busy(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(100))


def test_what_takes_longer_is_ended_and_nothing_after_it(soon):
    before = signal.getsignal(signal.SIGALRM)
    limits = SiteLimits(seconds=1)
    began = time.monotonic()
    with (
        pytest.raises(BeyondLimitError, match=r"it took longer than 1 seconds, limits\.seconds of this node"),
        limits.in_time(),
    ):
        busy(30)
    assert time.monotonic() - began < 10
    with limits.in_time():
        pass
    busy(0.3)
    assert signal.getsignal(signal.SIGALRM) == before
    with SiteLimits(seconds=0).in_time():
        busy(0.2)


def test_elsewhere_than_in_the_main_thread_there_is_no_limit_of_time(soon):
    done = []

    def work():
        with SiteLimits(seconds=1).in_time():
            busy(0.3)
        done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done


def test_an_order_that_takes_too_long_fails_its_client_for_once(tmp_path, soon, caplog):
    experiment = toy()
    nodes = nodes_of(experiment.plan, experiment.data.load(experiment.seed), tmp_path)
    runtime = NodesRuntime(LocalLink(nodes), RUN, 5, b"")
    runtime.wait_for_all()
    node = nodes[2]
    serve, node.in_time = node._serve, SiteLimits(seconds=1).in_time
    node._serve = lambda *order: busy(30)
    found = runtime.exchange({2: HELLO}, {2: 1 << 20}, 20.0)[2]
    assert isinstance(found, ClientFailed)
    assert found.reason == "beyond a limit of its site"
    assert "Order 'serve' could not be served: it took longer than 1 seconds, limits.seconds" in caplog.text
    node._serve = serve
    assert isinstance(runtime.exchange({2: HELLO}, {2: 1 << 20}, 20.0)[2], bytes)


def test_no_client_tries_more_epochs_than_a_round_has():
    from fedgraft.engine.client.client import Client

    experiment = toy(selector={"name": "fedmarl"}, training={"optimizer": "sgd", "learning_rate": 0.1, "epochs": 2})
    plan = experiment.plan
    client = Client(plan, dict(enumerate(experiment.data.load(experiment.seed))))
    reasons = []
    for epochs in (2, 3, 10**9):
        request = wire.encode(
            Message(
                "trial",
                1,
                {"epochs": float(epochs)},
                plan.downlink.encode(plan.first, plan.downlink.init(plan.model_layout), None)[0],
            ),
            Protocol.of(plan).request_layouts["trial"],
            Protocol.of(plan).request_names["trial"],
        )
        reasons.append(client.serve(0, request, b"").reason)
    assert reasons == ["", "", "asked to try 1000000000 epochs, of which 10 are the most"]
