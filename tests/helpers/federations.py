"""A federation of real processes on this machine: a server with TLS, and a node for each client."""

import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import tomllib
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import pytest

from fedgraft.interface.cli import main
from fedgraft.runtimes.federation.folders import file_name

WAIT_SECONDS = 300
"""Far more than anything takes: other tests, and other federations, run at the same time."""
SHOPS = (
    *("fedacs", "data.clients=2", "data.users=200", "data.items=150", "data.count=4000"),
    *("rounds=24", "evaluation.every=12", "baselines=[]"),
)
"""A recipe and what is changed in it: small, rating."""


def call_here(*arguments, cwd=".", code=0):
    """Run a command in this process, which has imported it; its output, or what it said where it is refused."""
    said = io.StringIO()
    redirected = redirect_stderr if code else redirect_stdout
    with chdir(cwd), redirected(said), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["fedgraft", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
    assert (ended.value.code or 0) == code, f"{arguments}: exit code {ended.value.code}\n{said.getvalue()}"
    return said.getvalue()


def run_here(root, recipe, *changes):
    """The summary of a run on one machine, scored where a federation's are."""
    alike = ("runtime.workers=0", "evaluation.at=clients")
    return json.loads(call_here("run", recipe, "--out", root, "--json", "-q", *alike, *changes))


def environment():
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }


def free_port():
    """A port that the system gives to no connection: a program that starts late would find it in use."""
    while True:
        port = random.SystemRandom().randrange(20000, 32000)
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port


def ended(process):
    """Wait for a process that was told to end."""
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Federation:
    """Processes of one federation; `kill` and `start` by name.

    Args:
        root: a new folder.
        recipe: name of a recipe.
        changes: overrides of it.
        host: what sites call the server.
        spaces: network namespaces of the server and of its sites, in order; () for none.
        allow: what the sites let a server's recipe differ in.
    """

    def __init__(self, root, recipe, *changes, host="localhost", spaces=(), allow=()):
        self.root, self.recipe, self.processes = Path(root), self._shard(root, recipe, changes), {}
        self.port, self.host = free_port(), host
        signed = "secure_sum.signed=true" in changes
        keys = ["--no-keys"] if signed else []
        call_here("federation", "init", self.root, "--host", host, "--port", self.port, *keys)
        names = tomllib.loads((self.root / "clients.toml").read_text())["names"]
        self.names = [file_name(name) for name in names]
        for name in names if signed else ():
            self._add(name)
        for path in (self.root / "nodes").glob("*/node.toml"):
            path.write_text(path.read_text().replace("allow = []", f"allow = {json.dumps(allow)}"))
        self._spaces = dict(zip(["server", *self.names], spaces, strict=True)) if spaces else {}

    def _add(self, name):
        """Add a site with a key that it has made itself."""
        made = self.root / "sites" / file_name(name)
        call_here("federation", "keygen", made)
        call_here("federation", "add", self.root, name, "--key", made / "node.pub")
        (made / "node.key").rename(self.root / "nodes" / file_name(name) / "node.key")

    def _shard(self, root, recipe, changes):
        call_here("shard", recipe, "-o", root, *changes)
        return root / "recipe.toml"

    def __enter__(self):
        self.start_server()
        for name in self.names:
            self.start(name)
        return self

    def __exit__(self, *error):
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        while self.processes:
            ended(self.processes.popitem()[1])

    def start_server(self):
        (self.root / "server.log").unlink(missing_ok=True)
        self._start("server", "federation", "start", self.root)
        self.wait_for("server", f"ready at {self.host}:{self.port}")

    def start(self, name, lies=(), program=("fedgraft",)):
        """Start a node; with lies, `helpers.lying_node` says which, one that changes its answers."""
        folder, data = self.root / "nodes" / name, self.root / "clients" / f"{name}.data"
        program = ("helpers.lying_node", ",".join(lies)) if lies else program
        self._start(name, "node", folder, "--data", data, program=program)

    def _start(self, name, *arguments, program=("fedgraft",)):
        command = [*self._within(name), sys.executable, "-m", *program, *map(str, arguments)]
        with open(self.root / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment(), start_new_session=True
            )

    def _within(self, name):
        """What puts a command into the network namespace of a site, or of the server."""
        space = self._spaces.get(name, self._spaces.get("server"))
        return ["ip", "netns", "exec", space] if space else []

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
        ended(process)

    def run(self, out, *changes, code=0):
        said = call_here("run", self.recipe, "--on", self.root, "--out", out, "--json", *changes, code=code)
        return said if code else json.loads(said)

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
def federation(root, recipe, *changes, **where):
    """A running federation, whose processes end with the block."""
    with Federation(root, recipe, *changes, **where) as made:
        yield made


def same(one, two):
    """The parts of two summaries that no runtime may change."""
    names = ("digest", "bytes", "rounds", "test", "validation", "flops", "selections")
    return {name: one[name] for name in names}, {name: two[name] for name in names}
