"""A federation's server with real processes: who is let in, under which id, and what is left after each kind of end."""

import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
from contextlib import closing, contextmanager, suppress
from http.client import HTTPSConnection

import pytest

pytest.importorskip("uvicorn", reason="the extra 'federation' is not installed")

from fedgraft.errors import FedgraftError, MachineError
from fedgraft.experiment.job import load
from fedgraft.runtimes.federation import operator_socket
from fedgraft.runtimes.federation.certificates import node_key
from fedgraft.runtimes.federation.folders import FederationFolder, NodeFolder
from fedgraft.runtimes.federation.making import make
from fedgraft.runtimes.federation.operator_socket import ServerLink
from fedgraft.runtimes.federation.signed_requests import Signer, node_id
from fedgraft.runtimes.federation.site_link import SiteLink, connection_of
from helpers.federations import WAIT_SECONDS, free_port

pytestmark = pytest.mark.federation

RECIPE = load("fedacs").to_toml()
RUN = "0123456789abcdef" * 2


@pytest.fixture
def folder(tmp_path):
    return federation(tmp_path / "federation")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A federation with a server, which no test ends."""
    folder = federation(tmp_path_factory.mktemp("served") / "federation")
    with ending() as found:
        started(found, folder, folder.path / "server.log")
        yield folder


@pytest.fixture
def processes():
    """Processes of a test, in sessions of their own, which end with it."""
    with ending() as found:
        yield found


@contextmanager
def ending():
    """A list of processes, in sessions of their own, which end with the block."""
    found = []
    try:
        yield found
    finally:
        for process in found:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def federation(path, insecure=False):
    return make(path, ["north", "south"], RECIPE, "localhost", free_port(), insecure)


def started(processes, folder, log, fails=False):
    """The server, once it is ready."""
    command = [sys.executable, "-m", "fedgraft", "federation", "start", str(folder.path)]
    process = launch(processes, command, log)
    wait_for(lambda: "ready at" in log.read_text() or process.poll() is not None, log)
    assert process.poll() is None or fails, f"exit code {process.returncode}: {log.read_text()}"
    return process


def launch(processes, command, log):
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    processes.append(process)
    return process


NODE = """import sys
from pathlib import Path

from fedgraft.runtimes.federation.folders import NodeFolder
from fedgraft.runtimes.federation.site_link import SiteLink

SiteLink(NodeFolder.read(Path(sys.argv[1]))).serve(lambda order: order[::-1], lambda: False)
"""
"""A node that answers each order with its bytes in reverse."""


def node(processes, folder, log):
    return launch(processes, [sys.executable, "-c", NODE, str(folder)], log)


def wait_for(holds, log=None, seconds=WAIT_SECONDS):
    until = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < until, log.read_text(errors="replace") if log else "it took too long"
        time.sleep(0.1)
    return found


def id_of(folder, name):
    return node_id(folder.public_key(name).read_bytes())


def states(folder):
    return {int(node): each["state"] for node, each in operator_socket.status(folder)["nodes"].items()}


def wait_for_state(folder, name, state, log):
    wait_for(lambda: states(folder).get(id_of(folder, name)) == state, log)


def echoed(link, node, content):
    """What a node answers."""
    message = link.send(node, content)
    ((found, by, answer),) = wait_for(lambda: link.receive([message], 1.0))
    assert (found, by) == (message, node)
    return answer


def test_a_key_is_let_in_under_its_id_also_after_restarts_of_node_and_server(folder, processes, tmp_path):
    server = started(processes, folder, tmp_path / "server.log")
    assert f"ready at {folder.address}; 2 nodes registered" in (tmp_path / "server.log").read_text()
    assert states(folder) == {}
    north = node(processes, folder.node("north"), tmp_path / "north.log")
    wait_for_state(folder, "north", "online", tmp_path / "north.log")
    with closing(ServerLink(folder, RUN)) as link:
        assert link.nodes() == [id_of(folder, "north")]
        assert link.send(id_of(folder, "south"), b"never there") is None
        assert echoed(link, id_of(folder, "north"), b"abc") == b"cba"
        large = os.urandom(3 << 20)
        assert echoed(link, id_of(folder, "north"), large) == large[::-1]

    north.kill()
    north.wait()
    wait_for_state(folder, "north", "offline", tmp_path / "north.log")
    node(processes, folder.node("north"), tmp_path / "again.log")
    wait_for_state(folder, "north", "online", tmp_path / "again.log")

    server.terminate()
    assert server.wait(WAIT_SECONDS) == 143
    started(processes, folder, tmp_path / "server2.log")
    wait_for_state(folder, "north", "online", tmp_path / "again.log")
    assert "is tried again and again" in (tmp_path / "again.log").read_text()
    with closing(ServerLink(folder, RUN)) as link:
        assert echoed(link, id_of(folder, "north"), b"still there") == b"ereht llits"


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ((), "not this federation's server"),
        (("node.key", "node.crt"), "not this federation's server"),
        (("ca.crt", "node.crt"), "do not fit each other"),
        (("ca.crt", "node.key"), "do not fit each other"),
    ],
    ids=["another federation", "another authority", "another key", "another certificate"],
)
def test_strangers_are_refused(served, tmp_path, own, said):
    theirs = federation(tmp_path / "foreign").node("north")
    for file in own:
        (theirs / file).write_bytes((served.node("north") / file).read_bytes())
    stranger = NodeFolder(theirs, 0, "north", served.host, served.port)
    with pytest.raises(FedgraftError, match=said):
        SiteLink(stranger).serve(bytes, lambda: False)
    assert id_of(served, "north") not in states(served)


@pytest.mark.parametrize("foreign", [False, True])
def test_without_a_certificate_of_the_authority_there_is_no_connection(served, tmp_path, foreign):
    context = ssl.create_default_context(cafile=str(served.authority))
    if foreign:
        other = federation(tmp_path / "foreign")
        context.load_cert_chain(other.certificate, other.key)
    with pytest.raises((ssl.SSLError, ConnectionError)):  # in TLS 1.3 the server looks at it after the client has begun
        asked_hello(HTTPSConnection("localhost", served.port, context=context, timeout=20))


def asked_hello(connection):
    with closing(connection):
        connection.request("GET", "/hello")
        connection.getresponse()


def test_a_key_that_is_not_registered_is_refused_in_so_many_words(folder, processes, tmp_path):
    started(processes, folder, tmp_path / "server.log")
    folder.public_key("south").unlink()
    operator_socket.read_keys(folder)
    with pytest.raises(MachineError, match=r"^unknown key: localhost:\d+ does not know .*node\.key\. It was removed,"):
        SiteLink(NodeFolder.read(folder.node("south"))).serve(bytes, lambda: False)
    wait_for(lambda: "no site has it; refused." in (tmp_path / "server.log").read_text())
    assert (tmp_path / "server.log").read_text().count("unknown key SHA256:") == 1


def test_only_who_owns_the_folder_starts_runs_and_reads_keys(served):
    mode = (served.server / operator_socket.NAME).stat().st_mode
    assert (stat.S_IMODE(mode), stat.S_IMODE(served.server.stat().st_mode)) == (0o600, 0o700)
    with closing(connection_of(NodeFolder.read(served.node("north")))) as connection:
        for method, path in (("POST", "/runs/a"), ("POST", "/keys"), ("GET", "/status"), ("GET", "/nodes")):
            connection.request(method, path)
            response = connection.getresponse()
            assert (response.status, response.read()) == (404, b"Not Found"), "nodes have a part of their own"


def test_a_second_process_with_a_key_waits_until_the_first_has_gone(served, processes, tmp_path):
    first = node(processes, served.node("south"), tmp_path / "first.log")
    wait_for_state(served, "south", "online", tmp_path / "first.log")
    node(processes, served.node("south"), tmp_path / "second.log")
    said = "a node with this key is connected already"
    wait_for(lambda: said in (tmp_path / "second.log").read_text(), tmp_path / "second.log")
    first.kill()
    wait_for(lambda: "is there again" in (tmp_path / "second.log").read_text(), tmp_path / "second.log")
    assert states(served)[id_of(served, "south")] == "online"


def test_a_long_body_of_a_stranger_is_not_read(served):
    own = NodeFolder.read(served.node("north"))
    headers = Signer(node_key("stranger").private).headers("/join", b"")
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST /join HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: 800000000\r\n\r\n"
    with closing(connection_of(own)) as connection:
        connection.connect()
        connection.sock.sendall(head.encode())
        assert connection.sock.recv(1 << 12).startswith(b"HTTP/1.1 401")
        until, ended = time.monotonic() + 60, False
        while not ended and time.monotonic() < until:
            try:
                connection.sock.sendall(bytes(1 << 16))
                time.sleep(0.05)
            except OSError:
                ended = True
        assert ended


def test_a_server_that_is_killed_leaves_nothing_that_stops_the_next_one(folder, processes, tmp_path):
    server = started(processes, folder, tmp_path / "server.log")
    with closing(ServerLink(folder, RUN)) as link:
        server.kill()
        server.wait()
        with pytest.raises(MachineError, match=r"^No server answers at localhost:\d+; start it with 'fedgraft fed"):
            link.nodes()
        started(processes, folder, tmp_path / "server2.log")
        with pytest.raises(MachineError, match="this run is not under way"):
            link.receive(["a message"])
    assert operator_socket.status(folder)["runs"] == []


def test_a_run_ends_at_the_server_with_its_process(served):
    with closing(ServerLink(served, RUN)) as link:
        with pytest.raises(MachineError, match="this run is under way already"):
            ServerLink(served, RUN)
        assert operator_socket.status(served)["runs"][0]["status"] == "running"
        assert link.receive([], 0.0) == []
    wait_for(lambda: operator_socket.status(served)["runs"][0]["status"] == "ended")


def test_a_port_in_use_is_one_line(folder, processes, tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", folder.port))
        other.listen()
        server = started(processes, folder, tmp_path / "server.log", fails=True)
        assert server.wait(WAIT_SECONDS) == 1
    said = (tmp_path / "server.log").read_text()
    assert said.startswith(f"error: Port {folder.port} cannot be listened at: Address already in use.")
    assert said.count("\n") == 1


def test_a_server_that_cannot_begin_is_one_line(folder, processes, tmp_path):
    folder.certificate.write_text("nonsense")
    server = started(processes, folder, tmp_path / "server.log", fails=True)
    assert server.wait(WAIT_SECONDS) == 1
    said = (tmp_path / "server.log").read_text()
    assert said.startswith(f"error: The certificate {folder.certificate}, or its key, cannot be used: ")
    assert said.count("\n") == 1


def test_without_tls_nodes_need_no_key(processes, tmp_path):
    folder = federation(tmp_path / "federation", insecure=True)
    started(processes, folder, tmp_path / "server.log")
    assert "any node may join" in (tmp_path / "server.log").read_text()
    node(processes, folder.node("north"), tmp_path / "node.log")
    wait_for(lambda: list(states(folder).values()) == ["online"], tmp_path / "node.log")
    status = subprocess.run(
        [sys.executable, "-m", "fedgraft", "federation", "status", str(folder.path), "--json"],
        capture_output=True,
        check=True,
    )
    assert json.loads(status.stdout)["nodes"][0]["state"] == "online"


def test_where_no_server_answers_is_one_line(folder):
    with pytest.raises(MachineError, match=rf"^No server answers at localhost:{folder.port}; start it with .*\.$"):
        operator_socket.status(FederationFolder.read(folder.path))
