"""Portable runs: which kernels compute, in the server's process and in workers, and what that is worth."""

import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from fedgraft.errors import InputError
from fedgraft.experiment.running import portable
from fedgraft.runtimes.processes import Processes
from helpers.tiny import ARGUMENTS

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or torch.backends.cpu.get_cpu_capability() == "DEFAULT", reason="no AVX2"
)
COMMAND = [sys.executable, "-m", "fedgraft"]
CLEAN = {name: value for name, value in os.environ.items() if name not in portable.settings()}
TELL = """
from helpers.kernels import used, tell
from fedgraft.runtimes.workers.starting import start
process, pipe = start(tell, ())
import json
print(json.dumps([used(), pipe.recv()]))
"""


def run(folder: Path, *changes: str) -> Any:
    """The digest of a short run with the command."""
    command = [*COMMAND, "run", "fedacs", *ARGUMENTS, *changes, "--json", "-q", "--out", str(folder)]
    done = subprocess.run(command, env=CLEAN, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["digest"]


@pytest.mark.slow
def test_server_and_workers_use_the_same_kernels() -> None:
    path = os.pathsep.join(sys.path)
    environment = {**CLEAN, **portable.settings(), "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", TELL], env=environment, capture_output=True, text=True, check=True)
    here, there = json.loads(done.stdout)
    assert here == there == ["AVX2", []]


@pytest.mark.slow
def test_workers_and_kills_do_not_change_the_digest(tmp_path: Path) -> None:
    expected = run(tmp_path / "0", "runtime.portable=true", "runtime.workers=0", "rounds=10")
    assert run(tmp_path / "2", "runtime.portable=true", "runtime.workers=2", "rounds=10") == expected
    folder = tmp_path / "killed"
    changes = [*ARGUMENTS, "runtime.portable=true", "runtime.workers=2", "rounds=10", "checkpoint.every_seconds=0"]
    killed = subprocess.Popen([*COMMAND, "run", "fedacs", *changes, "-q", "--out", str(folder)], env=CLEAN)
    until = time.monotonic() + 60
    while not (folder / "rounds.jsonl").exists() and time.monotonic() < until:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)  # the command began anew as the same process, so this is all of it
    killed.wait()
    done = subprocess.run(
        [*COMMAND, "resume", str(folder), "--json", "-q"], env=CLEAN, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["digest"] == expected


def test_a_process_that_loaded_its_libraries_otherwise_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MKL_CBWR", raising=False)
    with pytest.raises(InputError, match=r"ATEN_CPU_CAPABILITY=avx2 MKL_CBWR=COMPATIBLE .*OPENBLAS_NUM_THREADS=1"):
        portable.check(Processes(portable=True))
    portable.check(Processes())


def test_what_is_set_after_numpy_was_loaded_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in portable.settings().items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match="loaded torch and numpy without"):
        portable.check(Processes(portable=True))


def test_other_processors_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    with pytest.raises(InputError, match="is for x86-64 processors; this one is 'arm64'"):
        portable.check(Processes(portable=True))


def test_a_device_has_bits_of_its_own() -> None:
    with pytest.raises(InputError, match=r"runtime\.portable must be false on a device"):
        Processes(portable=True, device="cuda")


def test_the_command_begins_anew_once_and_only_where_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[dict[str, str]] = []
    monkeypatch.setattr(os, "execve", lambda path, arguments, environment: begun.append(environment))
    monkeypatch.delenv("MKL_CBWR", raising=False)
    portable.begin_again(Processes())
    assert not begun
    portable.begin_again(Processes(portable=True))
    assert portable.settings().items() <= begun[0].items()
    for name, value in begun[0].items():
        monkeypatch.setenv(name, value)
    portable.begin_again(Processes(portable=True))
    assert len(begun) == 1
