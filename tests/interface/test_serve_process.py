"""`fedgraft serve` as a process: it listens where it says, and ends in one line whatever ends it."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fedgraft.interface import serve
from helpers.asgi import Client
from helpers.tiny import ARGUMENTS

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
REQUEST = {"tables": {"pairs": [{"user": "user-01", "item": "item-01"}]}}
HEAD = b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
LACKING = """
import sys
class Finder:
    def find_spec(self, name, *rest):
        if name == {name!r}:
            raise ModuleNotFoundError("No module named " + name, name=name)
sys.meta_path.insert(0, Finder())
from fedgraft.__main__ import main
sys.argv[1:] = {arguments!r}
main()
"""


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server and its address; it is gone afterwards."""
    command = [sys.executable, "-m", "fedgraft", "serve", str(folder), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("Run run answers at http://127.0.0.1:"), line
        yield process, line.split()[4]
    finally:
        process.kill()
        process.communicate()


def ask(address: str, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(address + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)


def test_it_answers_over_loopback_what_the_python_interface_does(finished_run: Path) -> None:
    expected = Client(serve.app(finished_run)).post("/predict", json=REQUEST).json()
    with serving(finished_run, "--max-request", "1kB") as (process, address):
        assert ask(address, "/health")["run"] == "run"
        for _ in range(2):
            assert ask(address, "/predict", REQUEST) == expected
        with pytest.raises(urllib.error.HTTPError) as caught:
            ask(address, "/predict", {"tables": {"pairs": [{"user": "x" * 500, "item": "y" * 500}]}})
        with caught.value as refused:
            assert refused.code == 413
        # Nothing of a body that is too large is waited for.
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 60) as connection:
            connection.sendall(HEAD % 99_999_999)
            assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (130, "", "Interrupted.\n")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_signals_end_it_with_requests_under_way(finished_run: Path, name: str, code: int) -> None:
    with serving(finished_run) as (process, address):
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 60) as idle:
            idle.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
            assert idle.recv(100).startswith(b"HTTP/1.1 200 ")
            process.send_signal(signal.Signals[name])
            out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (code, "", f"Ended by {name}.\n")


@pytest.mark.slow
def test_a_body_that_never_ends_does_not_keep_it(finished_run: Path) -> None:
    with serving(finished_run) as (process, address):
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 60) as slow:
            slow.sendall(HEAD % 99 + b"{")
            assert ask(address, "/health")["status"] == "ok"
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=serve.GRACE + 30)
        assert (process.returncode, err) == (130, "Interrupted.\n")


def test_an_address_that_cannot_be_had_is_one_line(fedgraft, finished_run: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = fedgraft("serve", finished_run, "--port", port)
    line = f"error: --port {port} at 127.0.0.1 is in use already; give another one, or 0 for any that is free.\n"
    assert (done.code, done.out, done.err) == (2, "", line)
    done = fedgraft("serve", finished_run, "--host", "203.0.113.1", "--port", "0")
    assert done.code == 2
    assert done.err.startswith("error: --host 203.0.113.1, --port 0 cannot be had: ")
    done = fedgraft("serve", finished_run, "--host", "no address")
    assert done.code == 2
    assert done.err.startswith("error: --host 'no address' is no address: ")


def test_a_run_that_has_not_finished_and_a_folder_that_is_none_are_one_line(fedgraft, tmp_path: Path) -> None:
    assert fedgraft("run", "fedacs", *ARGUMENTS, "--out", "a", "-q").code == 0
    (tmp_path / "a" / "summary.json").unlink()
    done = fedgraft("serve", "a", "--port", "0")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: a has no summary.json yet; finish it with 'fedgraft resume a'.\n"
    done = fedgraft("serve", "b", "--port", "0")
    assert (done.code, done.err) == (2, "error: b is not a run's folder: there is no such folder.\n")
    assert fedgraft("serve", "a", "--max-request", "9 apples", "--port", "0").code == 2


def test_what_a_server_should_know_is_told(finished_run: Path, monkeypatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(serve, "_until_asked_to_end", lambda predictor, listener: signal.SIGINT)
    assert serve.serve(finished_run, "0.0.0.0", 0, "10MB", 10, said.append) == signal.SIGINT
    assert said[0] == "warning: whoever reaches 0.0.0.0 can ask: there is no authentication; put a proxy in front."
    assert said[1].startswith("Run run answers at http://0.0.0.0:")
    assert len(said) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["starlette", "uvicorn"])
def test_a_missing_extra_is_named(finished_run: Path, name: str) -> None:
    script = LACKING.format(name=name, arguments=["serve", str(finished_run)])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: fedgraft serve needs {name}: pip install 'fedgraft[serve]'\n"


def test_no_other_command_imports_what_the_extra_installs() -> None:
    script = "import sys, fedgraft, fedgraft.interface.cli; print({'starlette', 'uvicorn'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert done.stdout == "set()\n"
