"""The command as a process: ends by signals and by lack of memory, while it is imported and while it runs."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.tiny import ARGUMENTS

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm", "COLUMNS": "100"}
LONG = [argument for argument in ARGUMENTS if not argument.startswith(("rounds", "runtime"))]
AT_IMPORT = """
import os, signal, sys
class Finder:
    def find_spec(self, name, *rest):
        if name == "torch":
            {what}
sys.meta_path.insert(0, Finder())
from fedgraft.__main__ import main
main()
"""


def at_import(what: str) -> subprocess.CompletedProcess[str]:
    """The command, to which something happens when it imports torch: for a class elsewhere it does."""
    script = [sys.executable, "-c", AT_IMPORT.format(what=what), "show", "helpers.toy:Lines"]
    return subprocess.run(script, capture_output=True, text=True, check=False, env=ENVIRONMENT)


@pytest.mark.parametrize(
    ("name", "code", "line"),
    [("SIGINT", 130, "Interrupted."), ("SIGTERM", 143, "Ended by SIGTERM."), ("SIGHUP", 129, "Ended by SIGHUP.")],
)
def test_a_signal_while_importing_is_one_line(name: str, code: int, line: str) -> None:
    done = at_import(f"signal.raise_signal(signal.{name})")
    assert (done.stdout, done.stderr) == ("", line + "\n")
    assert done.returncode in (code, -signal.Signals[name]), "a shell makes the same of both"


def test_an_interruption_that_typer_would_take_for_its_own_is_one_line() -> None:
    script = """
from fedgraft.interface import cli
def interrupted(*given):
    raise KeyboardInterrupt
cli.Commands.resolve_command = interrupted
from fedgraft.__main__ import main
main()
"""
    command = [sys.executable, "-c", script, "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        ("ImportError('lib.so: failed to map segment')", "out of memory (lib.so: failed to map segment)"),
        ("OSError(12, 'Cannot allocate memory')", "out of memory ([Errno 12] Cannot allocate memory)"),
        ("MemoryError()", "out of memory"),
        ("ImportError('No module named torch')", "No module named torch"),
    ],
)
def test_what_cannot_be_imported_is_one_line(raised: str, words: str) -> None:
    done = at_import(f"raise {raised}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: fedgraft cannot be loaded: {words}.\n"


def begun(
    folder: Path, *changes: str, stderr: int = subprocess.PIPE, when: str = "rounds.jsonl"
) -> subprocess.Popen[str]:
    """A run whose folder has this file, by default one that has made some rounds, in a process group of its own."""
    command = [sys.executable, "-m", "fedgraft", "run", "fedacs", *LONG, *changes, "--out", str(folder), "--json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=ENVIRONMENT, start_new_session=True
    )
    until = time.monotonic() + 120
    while not (folder / when).exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    return process


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(2, 130, "Interrupted"), pytest.param(15, 143, "Ended by SIGTERM", marks=pytest.mark.slow)],
)
def test_on_a_terminal_the_hint_stays(tmp_path: Path, number: int, code: int, said: str) -> None:
    ours, theirs = pty.openpty()
    process = begun(tmp_path / "run", "rounds=2000", "runtime.workers=0", stderr=theirs)
    os.close(theirs)
    process.send_signal(number)
    shown = b""
    while part := _read(ours):
        shown += part
    os.close(ours)
    assert process.wait(60) == code
    assert process.stdout is not None
    with process.stdout as out:
        assert out.read() == ""
    text = shown.decode()
    _, live, after = text.rpartition("round ")
    assert live, "a picture of the rounds was there"
    assert f"{said}. Continue with: fedgraft resume {tmp_path / 'run'}" in after
    for erasing in ("\x1b[2K", "\x1b[1A"):
        assert erasing not in after.partition(said)[2]


def _read(handle: int) -> bytes:
    """What a terminal shows next; nothing once its last process has ended."""
    try:
        return os.read(handle, 4096)
    except OSError:
        return b""


@pytest.mark.slow
def test_workers_survive_what_ends_the_whole_group(tmp_path: Path) -> None:
    process = begun(tmp_path / "run", "rounds=300", "runtime.workers=2")
    os.killpg(process.pid, signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (143, ""), err
    rows = [json.loads(line) for line in (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()]
    assert 0 < len(rows) < 300
    assert all(row["failed"] == {} for row in rows)


@pytest.mark.slow
def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    endless = "training.epochs=1000000"  # of the first round, which is not waited for
    process = begun(tmp_path / "run", "rounds=2", "runtime.workers=0", endless, when="experiment.toml")
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.1)  # or the system makes one of both
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (143, -signal.SIGTERM), "the second where the first's round had just ended"
    assert time.monotonic() - began < 10
    assert "Traceback" not in err
    assert "Ended by SIGTERM. Continue with: fedgraft resume" in err
