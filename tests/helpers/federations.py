"""A federation of real processes on this machine: a SuperLink with TLS, and a node for each client."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
from contextlib import contextmanager
from pathlib import Path

from fedgraft.runtimes.flower_federation.folders import file_name

WAIT_SECONDS = 90


def fedgraft(*arguments):
    """The command, as a list."""
    return [sys.executable, "-m", "fedgraft", *map(str, arguments)]


def call(*arguments, code=0, **options):
    """Run a command to its end; its output, and on another exit code than expected what it said."""
    done = subprocess.run(
        fedgraft(*arguments), capture_output=True, text=True, timeout=300, check=False, env=environment(), **options
    )
    assert code is None or done.returncode == code, (
        f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    )
    return done.stdout if code == 0 else done.stderr or done.stdout


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Federation:
    """Processes of one federation; `kill` and `start` by name.

    Args:
        root: a new folder.
        recipe: name of a recipe.
        changes: overrides of it.
    """

    def __init__(self, root, recipe, *changes):
        self.root, self.recipe, self.processes = Path(root), self._shard(root, recipe, changes), {}
        self.port = free_port()
        self.said = call("federation", "init", self.root, "--port", self.port)
        self.names = [file_name(name) for name in tomllib.loads((self.root / "clients.toml").read_text())["names"]]

    def _shard(self, root, recipe, changes):
        call("shard", recipe, "-o", root, *changes)
        return root / "recipe.toml"

    def __enter__(self):
        self.start_server()
        for name in self.names:
            self.start(name)
        return self

    def __exit__(self, *error):
        for name in list(self.processes):
            self.kill(name, signal.SIGTERM)

    def start_server(self):
        (self.root / "server.log").unlink(missing_ok=True)
        self._start("server", "federation", "start", self.root)
        self.wait_for("server", f"ready at localhost:{self.port}")

    def start(self, name, folder=None, data=None):
        folder = folder or self.root / "nodes" / name
        self._start(name, "node", folder, "--data", data or self.root / "clients" / f"{name}.data")

    def _start(self, name, *arguments):
        with open(self.root / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                fedgraft(*arguments), stdout=log, stderr=log, env=environment(), start_new_session=True
            )

    def log(self, name):
        return (self.root / f"{name}.log").read_text(errors="replace")

    def wait_for(self, name, text):
        until = time.monotonic() + WAIT_SECONDS
        while text not in self.log(name):
            assert self.processes[name].poll() is None, f"{name} ended: {self.log(name)}"
            assert time.monotonic() < until, f"{name} has not said {text!r}: {self.log(name)}"
            time.sleep(0.2)

    def kill(self, name, number=signal.SIGKILL):
        process = self.processes.pop(name)
        process.send_signal(number)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def run(self, out, *changes, code=0):
        done = call("run", self.recipe, "--on", self.root, "--out", out, "--json", *changes, code=code)
        return json.loads(done) if code == 0 else done

    def begin(self, out, *changes):
        """Begin a run and return its process; one before it has to have ended, or ends now."""
        if "run" in self.processes:
            self.kill("run")
        self._start("run", "run", self.recipe, "--on", self.root, "--out", out, *changes)
        return self.processes["run"]

    def wait_for_round(self, out, round):
        until, rows = time.monotonic() + WAIT_SECONDS, Path(out) / "rounds.jsonl"
        while not rows.exists() or len(rows.read_text().splitlines()) < round:
            assert time.monotonic() < until, self.log("run")
            time.sleep(0.1)


@contextmanager
def federation(root, recipe, *changes):
    """A running federation, whose processes end with the block."""
    with Federation(root, recipe, *changes) as made:
        yield made


def same(one, two):
    """The parts of two summaries that no runtime may change."""
    names = ("digest", "bytes", "rounds", "test", "validation", "flops", "selections")
    return {name: one[name] for name in names}, {name: two[name] for name in names}
