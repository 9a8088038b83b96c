"""A federation over Flower's own programs: its SuperLink, a SuperNode for each site, and `flwr run`."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest

from fedgraft.runtimes.federation.folders import file_name
from helpers.federations import call_here, free_port, run_here, same

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")
pytestmark = [pytest.mark.federation, pytest.mark.slow]

PAGE = (Path(__file__).parents[2] / "docs" / "methods" / "flower.md").read_text(encoding="utf-8")
TINY = (
    *("fedacs", "data.clients=2", "data.users=60", "data.items=60", "data.count=900"),
    *("rounds=2", "evaluation.every=2", "baselines=[]"),
)
PROGRAMS = Path(sys.executable).parent


def app(path):
    """The app of the page."""
    files = {name: text for name, text in blocks(PAGE) if name}
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    assert set(files) == {"pyproject.toml", "fedgraft_app/client_app.py", "fedgraft_app/server_app.py"}
    (path / "fedgraft_app" / "__init__.py").touch()
    return path


def blocks(page):
    """(name of the file that the first line says, content) of a page's blocks."""
    for block in page.split("```")[1::2]:
        head, _, text = block.partition("\n")
        first = text.partition("\n")[0]
        yield (first.removeprefix("# ") if head in ("toml", "python") and first.startswith("# ") else ""), text


@pytest.fixture
def programs(tmp_path):
    """Start a program of Flower's; they all end with the test."""
    found, environment = [], {**os.environ, "FLWR_HOME": str(tmp_path / "flwr"), "FLWR_TELEMETRY_ENABLED": "0"}
    environment |= {"FLWR_DISABLE_UPDATE_CHECK": "1", "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1"}
    environment |= {"PATH": os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", "")])}

    def start(name, *arguments):
        with open(tmp_path / f"{name}{len(found)}.log", "wb") as log:
            command = [str(PROGRAMS / name), *map(str, arguments)]
            found.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True))
        return found[-1]

    yield start
    for process in reversed(found):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_run_over_flower_s_own_programs_ends_as_on_one_machine(tmp_path, programs):
    fed, run = tmp_path / "fed", tmp_path / "run"
    call_here("shard", TINY[0], "-o", fed, *TINY[1:])
    call_here("federation", "init", fed)
    names = [file_name(name) for name in tomllib.loads((fed / "clients.toml").read_text())["names"]]
    port, home = free_port(), tmp_path / "flwr"
    home.mkdir()
    (home / "config.toml").write_text(f'[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n')
    programs("flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", port)
    for name in names:
        config = f"folder='{fed}/nodes/{name}' data='{fed}/clients/{name}.data'"
        own = ("--host", "127.0.0.1", "--port", free_port())
        programs("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}", *own, "--node-config", config)
    time.sleep(5)
    said = f'federation="{fed}" recipe="{fed}/recipe.toml" folder="{run}"'
    begun = programs("flwr", "run", app(tmp_path / "app"), "here", "--run-config", said, "--stream")
    until = time.monotonic() + 600
    while not (run / "summary.json").exists():
        assert time.monotonic() < until, "\n".join(log.read_text(errors="replace") for log in tmp_path.glob("*.log"))
        time.sleep(1)
    assert begun.poll() in (None, 0)
    one, two = same(json.loads((run / "summary.json").read_text()), run_here(tmp_path / "here", *TINY))
    assert one == two
