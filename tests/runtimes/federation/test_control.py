"""What is asked of a SuperLink, and what is said where it cannot be asked."""

import subprocess
import sys

import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.proto.node_pb2 import NodeInfo
from flwr.proto.run_pb2 import Run

from fedgraft.errors import InputError, MachineError
from fedgraft.runtimes.federation import control
from fedgraft.runtimes.federation.child import environment
from fedgraft.runtimes.federation.making import make
from fedgraft.runtimes.federation.patched import control_api
from helpers.federations import free_port


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path / "federation", ["north"], "seed = 1\n", port=free_port())


def test_what_is_no_key_is_named_with_its_file(folder):
    path = folder.public_key("north")
    path.write_text("nonsense")
    with pytest.raises(InputError, match=rf"^{path} is no public key of OpenSSH: .*\.$"):
        control.register(folder, "north")
    other = Ed25519PrivateKey.generate().public_key()
    path.write_bytes(other.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    with pytest.raises(InputError, match=rf"^{path} must be a key on an elliptic curve; got Ed25519PublicKey\.$"):
        control.register(folder, "north")


@pytest.mark.parametrize("ask", [control.nodes, control.runs, lambda folder: control.stop(folder, "1")])
def test_where_nobody_answers_it_is_said_how_to_start_the_server(folder, ask):
    said = rf"^No SuperLink answers at localhost:{folder.port}; start it with 'fedgraft federation start .*'\.$"
    with pytest.raises(MachineError, match=said):
        ask(folder)


def test_without_flower_the_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, control_api.__name__, None)
    monkeypatch.delattr(sys.modules[control_api.__package__], "control_api")
    with pytest.raises(InputError, match=r"pip install 'fedgraft\[flower\]'"):
        control.nodes(folder)


def test_times_and_states_are_those_of_the_last_change(folder, monkeypatch):
    node = NodeInfo(
        node_id=7,
        status="offline",
        registered_at="2026-11-24T12:00:00+00:00",
        last_activated_at="2026-11-24T12:00:01+00:00",
        last_deactivated_at="2026-11-24T14:00:02+02:00",
    )
    run = Run(run_id=9, pending_at="2026-11-24T12:00:00+00:00", running_at="2026-11-24T12:00:03+00:00")
    run.status.status, run.status.sub_status = "finished", "failed"

    class Client:
        def ListNodes(self, request):
            return type("Answer", (), {"nodes_info": [node]})

        def ListRuns(self, request):
            return type("Answer", (), {"run_dict": {9: run}})

    monkeypatch.setattr(control_api, "_asked", lambda folder, ask: ask(Client()))
    assert control.nodes(folder) == {7: control.Standing("7", "offline", "2026-11-24 12:00:02Z")}
    assert control.runs(folder) == [control.Standing("9", "finished:failed", "2026-11-24 12:00:03Z")]
    assert control.status_of(folder, "9") == "finished:failed"
    assert control.status_of(folder, "8") == ""


def test_flower_prints_its_json_without_colours_wherever_it_is_asked(folder, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as the kernel of a notebook has it
    shown = "import rich.console as rich; print(rich.Console().is_terminal)"
    told = subprocess.run(
        [sys.executable, "-c", shown], env=environment(folder.home), capture_output=True, text=True, check=True
    )
    assert told.stdout == "False\n"
