"""A federation's server with real processes: who is let in, under which id, and what is left after each kind of end."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")
pytest.importorskip("httpx", reason="the extra 'flower' is not installed")

import httpx

from fedgraft.errors import MachineError
from fedgraft.experiment.experiment import load
from fedgraft.runtimes.federation import control
from fedgraft.runtimes.federation.certificates import authority, node_key
from fedgraft.runtimes.federation.folders import FederationFolder, NodeFolder
from fedgraft.runtimes.federation.making import make, write_connection
from fedgraft.runtimes.federation.superlink import register_all
from helpers.federations import WAIT_SECONDS, free_port

pytestmark = pytest.mark.federation

RECIPE = load("fedacs").to_toml()
SLEEPER = """import os
import time
from pathlib import Path

from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    folder = Path(context.run_config["folder"])
    nodes = " ".join(map(str, sorted(grid.get_node_ids())))
    (folder / "new").write_text(f"{os.getpid()} {nodes}")
    (folder / "new").rename(folder / "began")
    while not (folder / "end").exists():
        grid.get_node_ids()
        time.sleep(0.5)
"""


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
                process.kill()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def federation(path, insecure=False):
    return make(path, ["north", "south"], RECIPE, "localhost", free_port(), insecure)


def environment(home):
    return {**os.environ, "OMP_NUM_THREADS": "1", "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0"}


def started(processes, folder, log, fails=False):
    """The server, once it is ready."""
    process = launch(processes, [sys.executable, "-m", "fedgraft", "federation", "start", str(folder.path)], log)
    wait_for(lambda: "ready at" in log.read_text() or process.poll() is not None, log)
    assert process.poll() is None or fails, f"exit code {process.returncode}: {log.read_text()}"
    return process


def launch(processes, command, log):
    with open(log, "wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env=environment(log.with_suffix(".home")), start_new_session=True
        )
    processes.append(process)
    return process


def supernode(processes, folder, log, *trust):
    """Flower's own node; its ClientApps are never run here."""
    command = [str(Path(sys.executable).parent / "flower-supernode"), "--superlink", folder.address, *map(str, trust)]
    return launch(processes, [*command, "--isolation", "process", "--port", str(free_port())], log)


def wait_for(holds, log=None, seconds=WAIT_SECONDS):
    until = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < until, log.read_text(errors="replace") if log else "it took too long"
        time.sleep(0.2)
    return found


def states(folder):
    return {node: standing.status for node, standing in control.nodes(folder).items()}


def wait_for_state(folder, name, state, log):
    node = folder.node_ids()[name]
    wait_for(lambda: states(folder)[node] == state, log)


def ended(port):
    """Whether no process has the port in its command line, and nobody listens at it."""
    with socket.socket() as tried:
        tried.settimeout(1.0)
        return not list(with_port(port)) and tried.connect_ex(("127.0.0.1", port)) != 0


def with_port(port):
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(port).encode() in (entry / "cmdline").read_bytes() and entry.name != str(os.getpid()):
                yield entry.name


def gone(pid):
    """Whether a process has ended; Flower does not always ask how."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True


@contextmanager
def sleeping_run(folder, where):
    """A run whose ServerApp sleeps: its id and the words that it left."""
    (folder.app / "fedgraft_app" / "server_app.py").write_text(SLEEPER)
    where.mkdir()
    run = control.submit(folder, {"folder": str(where)})
    wait_for((where / "began").exists)
    try:
        yield run, (where / "began").read_text().split()
    finally:
        (where / "end").touch()


def test_a_registered_key_is_let_in_under_its_id_also_after_restarts_of_node_and_server(folder, processes, tmp_path):
    server = started(processes, folder, tmp_path / "server.log")
    assert f"ready at {folder.address}; 2 nodes registered" in (tmp_path / "server.log").read_text()
    ids = folder.node_ids()
    assert sorted(ids) == ["north", "south"]
    assert states(folder) == dict.fromkeys(ids.values(), "registered")

    own = NodeFolder(folder.node("north"), 0, "north", folder.host, folder.port)
    node = supernode(processes, folder, tmp_path / "north.log", *own.trust())
    wait_for_state(folder, "north", "online", tmp_path / "north.log")
    assert states(folder)[ids["south"]] == "registered"
    with sleeping_run(folder, tmp_path / "one") as (_, (_, *nodes)):
        assert nodes == [str(ids["north"])], "the ServerApp sees the node under the id of its registration"

    node.terminate()
    wait_for_state(folder, "north", "offline", tmp_path / "north.log")
    node = supernode(processes, folder, tmp_path / "again.log", *own.trust())
    wait_for_state(folder, "north", "online", tmp_path / "again.log")
    assert set(states(folder)) == set(ids.values())

    server.terminate()
    assert server.wait(WAIT_SECONDS) == 143
    started(processes, folder, tmp_path / "server2.log")
    assert folder.node_ids() == ids, "nobody is registered twice"
    wait_for_state(folder, "north", "online", tmp_path / "again.log")
    assert node.poll() is None, "a node waits for its server"


def test_strangers_are_refused(served, processes, tmp_path):
    stranger = tmp_path / "stranger.key"
    stranger.write_bytes(node_key("stranger").private)
    foreign = tmp_path / "foreign.crt"
    foreign.write_bytes(authority()[0].public)
    key, known = served.node("north") / "node.key", ["--root-certificates", served.authority]
    tries = {
        "no key": known,
        "another key": [*known, "--auth-supernode-private-key", stranger],
        "no TLS": ["--insecure"],
        "another authority": ["--root-certificates", foreign, "--auth-supernode-private-key", key],
    }
    limit = ["--max-retries", "1"]
    found = {
        name: supernode(processes, served, tmp_path / f"{name}.log", *trust, *limit) for name, trust in tries.items()
    }
    for name, process in found.items():
        wait_for(lambda process=process: process.poll() is not None, tmp_path / f"{name}.log")
        assert process.returncode != 0, name
    assert list(states(served).values()) == ["registered"] * 2, "none was online, none is new"


def test_only_the_servers_machine_starts_runs_and_registers_nodes(served):
    for caller, expected in (("127.0.0.1", 415), ("127.0.0.2", 403)):
        transport = httpx.HTTPTransport(local_address=caller, verify=context_of(served))
        with httpx.Client(transport=transport, base_url=f"https://localhost:{served.port}") as client:
            spoofed = {"X-Forwarded-For": "127.0.0.1"} if expected == 403 else {}
            for path in ("control/start-run", "control/register-node", "control/list-nodes"):
                assert client.post(f"/v1/{path}", headers=spoofed).status_code == expected, (caller, path)
            assert client.post("/v1/fleet/pull-messages").status_code == 415, "nodes' own part is there for all"


def test_a_long_body_of_a_stranger_is_not_read(served):
    head = "POST /v1/fleet/push-object HTTP/1.1\r\nHost: localhost\r\nContent-Length: 800000000\r\n\r\n"
    with (
        socket.create_connection(("127.0.0.1", served.port), timeout=60) as plain,
        context_of(served).wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        connection.sendall(head.encode())
        assert connection.recv(1 << 12).startswith(b"HTTP/1.1 401")
        until, ended = time.monotonic() + 60, False
        while not ended and time.monotonic() < until:
            try:
                connection.sendall(bytes(1 << 16))
                time.sleep(0.05)
            except OSError:
                ended = True
        assert ended


def context_of(folder):
    return ssl.create_default_context(cafile=str(folder.authority))


@pytest.mark.slow
def test_a_server_that_is_killed_leaves_no_process_and_the_next_one_stops_its_run(folder, processes, tmp_path):
    server = started(processes, folder, tmp_path / "server.log")
    ids = folder.node_ids()
    with sleeping_run(folder, tmp_path / "run") as (run, (pid, *_)):
        assert control.status_of(folder, run) == "running"
        server.kill()
        wait_for(lambda: ended(folder.port), tmp_path / "server.log")
        wait_for(lambda: gone(pid), tmp_path / "server.log")
        started(processes, folder, tmp_path / "server2.log")
        assert folder.node_ids() == ids
        assert set(states(folder)) == set(ids.values())
        assert control.status_of(folder, run) == "finished:stopped"


@pytest.mark.slow
def test_a_run_that_is_stopped_ends_when_it_next_asks_for_nodes(served, tmp_path):
    with sleeping_run(served, tmp_path / "run") as (run, (pid, *_)):
        control.stop(served, run)
        assert control.status_of(served, run) == "finished:stopped"
        wait_for(lambda: gone(pid))
    assert control.status_of(served, "12345") == ""
    with pytest.raises(MachineError, match=r"^The SuperLink at localhost:\d+ says: .*$"):
        control.stop(served, "12345")


@pytest.mark.slow
def test_nodes_are_known_by_keys_those_of_no_site_are_refused_and_lost_registrations_made_anew(
    folder, processes, tmp_path
):
    server = started(processes, folder, tmp_path / "server.log")
    before = folder.node_ids()
    for noted in ({"north": before["north"]}, {}):
        folder.note_node_ids(noted)
        assert register_all(folder, lambda: False) == 2
        assert folder.node_ids() == before, "nodes are known by their keys"

    key = folder.public_key("south").read_bytes()
    folder.public_key("south").unlink()
    assert register_all(folder, lambda: False) == 1
    assert states(folder)[before["south"]] == "unregistered"
    folder.public_key("south").write_bytes(key)
    with pytest.raises(MachineError, match=r"^The key of south was removed before, and stays refused: .* rotate .*$"):
        register_all(folder, lambda: False)
    assert folder.node_ids() == {"north": before["north"]}

    server.terminate()
    assert server.wait(WAIT_SECONDS) == 143
    folder.state.unlink()
    folder.note_node_ids(before)
    started(processes, folder, tmp_path / "server2.log")
    after = folder.node_ids()
    assert sorted(after) == ["north", "south"]
    assert not set(after.values()) & set(before.values())
    assert set(states(folder)) == set(after.values())


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
    assert said.startswith("error: Flower's SuperLink has ended (exit code ")
    assert said.count("\n") == 1


@pytest.mark.slow
def test_without_tls_nodes_need_no_key(processes, tmp_path):
    folder = federation(tmp_path / "federation", insecure=True)
    started(processes, folder, tmp_path / "server.log")
    assert "any node may join" in (tmp_path / "server.log").read_text()
    supernode(processes, folder, tmp_path / "node.log", "--insecure")
    wait_for(lambda: list(states(folder).values()) == ["online"], tmp_path / "node.log")
    status = subprocess.run(
        [sys.executable, "-m", "fedgraft", "federation", "status", str(folder.path), "--json"],
        capture_output=True,
        check=True,
    )
    assert json.loads(status.stdout)["nodes"][0]["state"] == "online"


def test_where_no_server_answers_is_one_line(folder):
    write_connection(folder)
    with pytest.raises(MachineError, match=rf"^No SuperLink answers at localhost:{folder.port}; start it with .*\.$"):
        control.nodes(FederationFolder.read(folder.path))
